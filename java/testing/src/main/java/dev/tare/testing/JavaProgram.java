package dev.tare.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A class of the test's class path with a main method, run in a JVM of its own; killed on close. */
public final class JavaProgram implements AutoCloseable {
    /** Long enough for the slowest machine: only a failing test ever waits for it. */
    private static final long PATIENCE_SECONDS = 120;

    private final Process process;
    private final StringBuffer output = new StringBuffer();
    private final StringBuffer errors = new StringBuffer();
    private final List<Thread> readers = new ArrayList<>();

    private JavaProgram(Process process) {
        this.process = process;
        readers.add(follow(process.getInputStream(), output));
        readers.add(follow(process.getErrorStream(), errors));
    }

    /** Starts it: JVM options, the class and its arguments, as for java(1). */
    public static JavaProgram start(Map<String, String> environment, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // A limit on everything that a failing test may start.
        command.addAll(List.of("-Xmx64m", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path")));
        command.addAll(Arrays.asList(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().keySet().removeAll(List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "DATABASE_URL"));
        builder.environment().putAll(environment);
        try {
            return new JavaProgram(builder.start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Thread follow(InputStream in, StringBuffer into) {
        Thread thread = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
                for (String line; (line = lines.readLine()) != null; ) {
                    synchronized (into) {
                        into.append(line).append('\n');
                        into.notifyAll();
                    }
                }
            } catch (IOException e) {
                // The process was killed.
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Waits for text in the standard output; the first group, or all that matched. */
    public String await(String regex) throws InterruptedException {
        Pattern pattern = Pattern.compile(regex);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        synchronized (output) {
            while (true) {
                Matcher matcher = pattern.matcher(output);
                if (matcher.find()) {
                    return matcher.groupCount() > 0 ? matcher.group(1) : matcher.group();
                }
                boolean over = System.nanoTime() > until || (!process.isAlive() && !readers.get(0).isAlive());
                if (over) {
                    throw new AssertionError("no '" + regex + "' in:\n" + output + errors);
                }
                output.wait(50);
            }
        }
    }

    /** Waits for the end of the process and of its output. */
    public int exitCode() throws InterruptedException {
        if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
            throw new AssertionError("still running:\n" + output + errors);
        }
        for (Thread reader : readers) {
            reader.join();
        }
        return process.exitValue();
    }

    /** Sends SIGTERM. */
    public void terminate() {
        // Process.destroy would also close the streams, and with them what the program says last.
        process.toHandle().destroy();
    }

    public void type(String text) throws IOException {
        process.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
        process.getOutputStream().flush();
    }

    public void closeInput() throws IOException {
        process.getOutputStream().close();
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    public long pid() {
        return process.pid();
    }

    /** What it has of memory that is no file's and in no swap, in KiB: "Anonymous" of smaps_rollup (proc(5)). */
    public long anonymousKib() throws IOException {
        return Files.readAllLines(Path.of("/proc/" + pid() + "/smaps_rollup")).stream()
                .filter(line -> line.startsWith("Anonymous:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .sum();
    }

    public String output() {
        return output.toString();
    }

    public String errors() {
        return errors.toString();
    }

    @Override
    public void close() {
        // What it has started would stay when it is killed.
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly().onExit().join();
    }
}
