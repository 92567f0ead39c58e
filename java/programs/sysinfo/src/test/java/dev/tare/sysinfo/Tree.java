package dev.tare.sysinfo;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** A recorded file tree in a temporary folder. */
final class Tree {
    private final Path root;

    Tree(Path root) {
        this.root = root;
    }

    Tree file(String path, String text) {
        try {
            Path file = root.resolve(path.substring(1));
            Files.createDirectories(file.getParent());
            Files.write(file, text.getBytes(StandardCharsets.UTF_8));
            return this;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    ProcFs files() {
        return new ProcFs(root);
    }
}
