package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.profile.ProfilerException;

/**
 * Where every resident page of the process goes after each iteration: {@code footprint.OWNER} of each owner that
 * {@code tare weigh --json} names (schema tare.footprint/1), and {@code footprint.rss}, which they add up to.
 *
 * <p>It starts {@code tare} as a child of the measured JVM, which then reads its parent: Linux only, and not where the
 * Yama module forbids that (kernel.yama.ptrace_scope of 1 or more) to other users than root.
 */
public final class Footprint extends MemoryProfiler {
    private static final int MAX_OUTPUT = 16 << 20;
    private static final String NO_RIGHT = "tare may not read this JVM: it needs root, CAP_SYS_PTRACE,"
            + " or sysctl kernel.yama.ptrace_scope=0";
    private static final Map<String, String> OPTIONS = new LinkedHashMap<>();

    static {
        OPTIONS.put("tare", "path of the program tare, default: tare in PATH");
        OPTIONS.put("timeout", "seconds that it may take, 1 to 600, default 60");
    }

    private final String tare;
    private final int seconds;
    /** Every owner seen so far: once seen, it stays, at zero too. */
    private final Map<String, Long> owners = new TreeMap<>();

    /** For ServiceLoader, to be listed. */
    public Footprint() throws ProfilerException {
        this(ProfilerOptions.parse(Footprint.class, "", OPTIONS));
    }

    /** For a run. */
    public Footprint(String options) throws ProfilerException {
        this(ProfilerOptions.parse(Footprint.class, options, OPTIONS));
        activate();
    }

    private Footprint(ProfilerOptions options) throws ProfilerException {
        super(Turn.LOOK);
        tare = options.text("tare", "tare");
        seconds = options.number("timeout", 60, 1, 600);
    }

    @Override
    public String getDescription() {
        return "Where every resident page goes, by tare weigh (Linux)";
    }

    @Override
    void start() {
        // It looks once, afterwards.
    }

    @Override
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results)
            throws UnavailableException {
        owners.replaceAll((owner, bytes) -> 0L);
        long rss = read(weigh(), owners);
        results.add(MemoryResult.size("footprint.rss", rss));
        for (Map.Entry<String, Long> row : owners.entrySet()) {
            results.add(MemoryResult.size("footprint." + row.getKey(), row.getValue()));
        }
    }

    /** Adds up what a footprint gives each owner, and returns its Rss, in bytes. */
    static long read(String json, Map<String, Long> owners) throws UnavailableException {
        try {
            Map<?, ?> footprint = (Map<?, ?>) Json.parse(json);
            if (!"tare.footprint/1".equals(footprint.get("schema"))) {
                throw new UnavailableException("tare wrote schema " + footprint.get("schema") + ", not tare.footprint/1:"
                        + " take a tare of this version");
            }
            for (Object source : (List<?>) footprint.get("sources")) {
                // Without the JVM's own data the rows are the kernel's view alone.
                if ("vmStructs".equals(((Map<?, ?>) source).get("name")) && ((Map<?, ?>) source).get("error") != null) {
                    throw new UnavailableException(NO_RIGHT + " (" + ((Map<?, ?>) source).get("error") + ")");
                }
            }
            long rest = (Long) footprint.get("rssBytes");
            for (Object row : (List<?>) footprint.get("rows")) {
                long bytes = (Long) ((Map<?, ?>) row).get("residentBytes");
                owners.merge((String) ((Map<?, ?>) row).get("owner"), bytes, Long::sum);
                rest -= bytes;
            }
            if (rest != 0) {
                throw new UnavailableException("the rows of tare's footprint miss its Rss by " + rest + " bytes");
            }
            return (Long) footprint.get("rssBytes");
        } catch (IllegalArgumentException | ClassCastException | NullPointerException e) {
            throw new UnavailableException("tare wrote no footprint: " + e.getMessage(), e);
        }
    }

    private String weigh() throws UnavailableException {
        try {
            Path errors = Files.createTempFile("tare-", ".txt");
            try {
                return weigh(errors);
            } finally {
                Files.delete(errors);
            }
        } catch (IOException e) {
            throw new UnavailableException("tare cannot be run (" + e.getMessage() + "): name it with the option tare=/path", e);
        }
    }

    private String weigh(Path errors) throws IOException, UnavailableException {
        String name = ManagementFactory.getRuntimeMXBean().getName(); // PID@HOST on HotSpot
        String pid = name.substring(0, Math.max(0, name.indexOf('@')));
        if (!pid.matches("[0-9]{1,10}")) {
            throw new UnavailableException("this JVM does not tell its process id");
        }
        List<String> command = new ArrayList<>();
        command.add(tare);
        command.add("weigh");
        command.add(pid);
        command.add("--json");
        Process process = new ProcessBuilder(command).redirectError(errors.toFile()).start();
        try {
            process.getOutputStream().close();
            FutureTask<String> reading = new FutureTask<>(() -> readAll(process.getInputStream()));
            Thread reader = new Thread(reading, "tare-footprint");
            reader.setDaemon(true);
            reader.start();
            String output = reading.get(seconds, TimeUnit.SECONDS);
            if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
                throw new TimeoutException();
            }
            if (process.exitValue() == 4) {
                throw new UnavailableException(NO_RIGHT);
            }
            if (process.exitValue() != 0) {
                throw new UnavailableException("tare weigh failed: " + firstLine(errors));
            }
            return output;
        } catch (TimeoutException e) {
            throw new UnavailableException("tare weigh did not end within " + seconds + " s", e);
        } catch (ExecutionException e) {
            throw new UnavailableException("tare weigh cannot be read: " + e.getCause().getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new UnavailableException("interrupted while tare weighed", e);
        } finally {
            process.destroyForcibly();
        }
    }

    private static String readAll(InputStream in) throws IOException, UnavailableException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] buffer = new byte[1 << 16];
        for (int n; (n = in.read(buffer)) >= 0; ) {
            out.write(buffer, 0, n);
            if (out.size() > MAX_OUTPUT) {
                throw new UnavailableException("tare weigh wrote more than " + MAX_OUTPUT + " bytes");
            }
        }
        return new String(out.toByteArray(), StandardCharsets.UTF_8);
    }

    private static String firstLine(Path file) throws IOException {
        byte[] text = Files.readAllBytes(file);
        return new String(text, 0, Math.min(text.length, 200), StandardCharsets.UTF_8).trim().replaceAll("\\s+", " ");
    }
}
