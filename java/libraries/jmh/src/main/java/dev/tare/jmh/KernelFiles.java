package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads the kernel's files below a root, which is {@code /} outside of tests. */
final class KernelFiles {
    /** More than any file read here has. */
    private static final int MAX_BYTES = 1 << 20;
    /** {@code Name:   NUMBER kB}, where kB means 1024 bytes; proc(5). */
    private static final Pattern SIZE = Pattern.compile("([A-Za-z_]+):\\s+([0-9]{1,15}) kB");

    private final Path root;

    KernelFiles(Path root) {
        this.root = root;
    }

    static KernelFiles ofThisSystem() {
        return new KernelFiles(Paths.get("/"));
    }

    Path path(String absolute) {
        return root.resolve(absolute.substring(1));
    }

    /** The text of a file. Kernel files say that their size is 0, so it is read to the end. */
    String text(String absolute) throws UnavailableException {
        try (InputStream in = Files.newInputStream(path(absolute))) {
            byte[] content = new byte[4096];
            int length = 0;
            for (int n; (n = in.read(content, length, content.length - length)) > 0; ) {
                length += n;
                if (length == content.length) {
                    if (length >= MAX_BYTES) {
                        throw new UnavailableException(absolute + " has more than " + MAX_BYTES + " bytes");
                    }
                    content = Arrays.copyOf(content, 2 * length);
                }
            }
            return new String(content, 0, length, StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UnavailableException(absolute + " cannot be read (" + e.getClass().getSimpleName()
                    + "): this metric needs Linux with /proc and /sys as they are", e);
        }
    }

    /** The sizes that a file states in kB, in bytes by the kernel's name. */
    Map<String, Long> sizes(String absolute) throws UnavailableException {
        Map<String, Long> sizes = new LinkedHashMap<>();
        for (String line : text(absolute).split("\n")) {
            Matcher matcher = SIZE.matcher(line);
            if (matcher.matches()) {
                sizes.put(matcher.group(1), Long.parseLong(matcher.group(2)) * 1024);
            }
        }
        return Collections.unmodifiableMap(sizes);
    }

    /** One of the sizes of {@link #sizes}. */
    static long size(Map<String, Long> sizes, String absolute, String name) throws UnavailableException {
        Long bytes = sizes.get(name);
        if (bytes == null) {
            throw new UnavailableException(absolute + " has no line " + name + ", which this metric needs");
        }
        return bytes;
    }
}
