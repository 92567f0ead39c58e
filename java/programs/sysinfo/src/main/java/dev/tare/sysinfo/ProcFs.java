package dev.tare.sysinfo;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Arrays;

/** Reads the kernel's files below a root, which is {@code /} outside of tests. */
final class ProcFs {
    /** More than any file read here has; a longer one is not what it claims to be. */
    private static final int MAX_BYTES = 4 << 20;

    private final Path root;

    ProcFs(Path root) {
        this.root = root;
    }

    /** The bytes of an absolute path. Kernel files say that their size is 0: it is read to the end instead. */
    byte[] bytes(String path) throws IOException {
        Path file = file(path);
        try (InputStream in = Files.newInputStream(file)) {
            byte[] content = new byte[4096];
            int length = 0;
            for (int n; (n = in.read(content, length, content.length - length)) >= 0; ) {
                length += n;
                if (length == content.length) {
                    if (length >= MAX_BYTES) {
                        throw new IOException(file + ": more than " + MAX_BYTES + " bytes");
                    }
                    content = Arrays.copyOf(content, length * 2);
                }
            }
            return Arrays.copyOf(content, length);
        }
    }

    /** The text of an absolute path; bytes that are no UTF-8, which a process may put in its name, are replaced. */
    String text(String path) throws IOException {
        return new String(bytes(path), StandardCharsets.UTF_8);
    }

    boolean exists(String path) throws IOException {
        return Files.exists(file(path));
    }

    private Path file(String path) throws IOException {
        try {
            return root.resolve(path.substring(1));
        } catch (InvalidPathException e) {
            // A name that this JVM's locale cannot express.
            throw new IOException(e.getMessage(), e);
        }
    }
}
