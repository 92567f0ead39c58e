package dev.tare.junit;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * The file that the system property {@code dev.tare.junit.results} names, to which each test with a budget appends one
 * line of JSON (schema {@code tare.junit/1}), for {@code tare check}. Without the property nothing is written.
 */
final class ResultFile {
    private static final String PROPERTY = "dev.tare.junit.results";
    private static final int FIRST_PRINTABLE = 0x20;

    private ResultFile() {}

    /**
     * Appends what a test measured.
     *
     * @throws IOException when the file cannot be written
     */
    static void append(ExtensionContext context, Memory memory) throws IOException {
        String name = System.getProperty(PROPERTY, "");
        if (name.isEmpty()) {
            return;
        }
        Path file = Paths.get(name).toAbsolutePath();
        Files.createDirectories(file.getParent());
        // One write: lines of several JVMs do not mix (write(2), O_APPEND).
        Files.write(file, line(context, memory).getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static String line(ExtensionContext context, Memory memory) {
        return "{\"schema\":\"tare.junit/1\",\"timeMillis\":" + System.currentTimeMillis() + ",\"test\":" + quoted(test(context))
                + ",\"jdk\":" + quoted(System.getProperty("java.vm.version", "")) + ",\"retained\":" + memory.retained() + ",\"allocated\":"
                + memory.allocated() + "}\n";
    }

    /** Class and method, and of one of several invocations its display name: {@code a.CacheTest.holds([1] 1000)}. */
    private static String test(ExtensionContext context) {
        String name = context.getRequiredTestClass().getName() + "." + context.getRequiredTestMethod().getName();
        boolean repeated = context.getUniqueId().contains("[test-template-invocation:");
        return repeated ? name + "(" + context.getDisplayName() + ")" : name;
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < FIRST_PRINTABLE || c == '"' || c == '\\' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
