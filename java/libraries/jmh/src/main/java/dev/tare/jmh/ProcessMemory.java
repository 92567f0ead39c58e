package dev.tare.jmh;

import com.sun.management.ThreadMXBean;
import dev.tare.memory.UnavailableException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.profile.ProfilerException;
import org.openjdk.jmh.results.IterationResult;

/**
 * What the kernel counts of the process. Linux only; elsewhere the metrics are absent.
 *
 * <ul>
 * <li>{@code proc.rss}, {@code proc.pss}, {@code proc.anonymous}, {@code proc.file}: smaps_rollup at the end of the
 *     iteration, before anything is collected; file is Rss less Anonymous, shared memory included. ZGC before JDK 24
 *     may map its heap more than once: Rss counts that each time, Pss once.
 * <li>{@code proc.rss.peak}: the largest Rss of smaps_rollup seen in the iteration, by samples
 * <li>{@code proc.hwm}: VmHWM, reset before each iteration through clear_refs. The kernel counts it per thread and adds
 *     up late, so it is off by up to some 100 KiB per thread.
 * <li>{@code cgroup.peak}: the control group's peak, everything in the group included
 * </ul>
 */
public final class ProcessMemory extends MemoryProfiler {
    private static final String ROLLUP = "/proc/self/smaps_rollup";
    private static final Map<String, String> OPTIONS = new LinkedHashMap<>();

    static {
        OPTIONS.put("sample", "milliseconds between samples at least, 10 to 60000, or 0 for none, default 100");
    }

    private final KernelFiles files;
    private final int sampleMillis;
    private Sampler sampler;
    private CgroupPeak group;
    private Map<String, Long> rollup;
    private Long highWater;
    private Long groupPeak;
    private boolean prepared;

    /** For ServiceLoader, to be listed. */
    public ProcessMemory() throws ProfilerException {
        this(KernelFiles.ofThisSystem(), "");
    }

    /** For a run. */
    public ProcessMemory(String options) throws ProfilerException {
        this(KernelFiles.ofThisSystem(), options);
        activate();
    }

    ProcessMemory(KernelFiles files, String options) throws ProfilerException {
        super(Turn.READ);
        this.files = files;
        int given = ProfilerOptions.parse(ProcessMemory.class, options, OPTIONS).number("sample", 100, 0, 60_000);
        if (given > 0 && given < 10) {
            throw new ProfilerException("dev.tare.jmh.ProcessMemory: sample=" + given + " is neither 0 nor from 10 on");
        }
        sampleMillis = given;
    }

    @Override
    public String getDescription() {
        return "Rss, Pss, anonymous and file memory, VmHWM, control group peak (Linux)";
    }

    @Override
    void prepare() {
        if (!prepared) {
            prepared = true;
            attempt(() -> group = CgroupPeak.find(files));
        }
    }

    @Override
    void start() {
        if (!resetHighWater()) {
            warn("proc.hwm is the highest since the JVM started: /proc/self/clear_refs cannot be written");
        }
        if (group != null && !group.reset()) {
            warn("cgroup.peak is the highest since the control group was made: this kernel does not reset it for one reader");
        }
        if (sampleMillis > 0 && Files.isReadable(files.path(ROLLUP))) {
            sampler = new Sampler();
            sampler.start();
        }
    }

    /** Sets VmHWM to VmRSS: 5 written to clear_refs, proc(5). */
    private boolean resetHighWater() {
        try {
            // Opened by Files.write it would be created or truncated elsewhere than in /proc.
            if (!Files.isWritable(files.path("/proc/self/clear_refs"))) {
                return false;
            }
            Files.write(files.path("/proc/self/clear_refs"), "5".getBytes(StandardCharsets.US_ASCII));
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    long allocatedBytes() {
        return sampler == null ? 0 : sampler.allocatedBytes();
    }

    @Override
    void end() {
        rollup = null;
        highWater = null;
        groupPeak = null;
        attempt(() -> highWater = KernelFiles.size(files.sizes("/proc/self/status"), "/proc/self/status", "VmHWM"));
        attempt(() -> groupPeak = group == null ? null : (Long) group.bytes());
        attempt(() -> rollup = files.sizes(ROLLUP));
        if (sampler != null) {
            sampler.finish();
        }
    }

    @Override
    void report(IterationResult iteration, Collection<MemoryResult> results) throws UnavailableException {
        if (highWater != null) {
            results.add(MemoryResult.peak("proc.hwm", highWater));
        }
        if (groupPeak != null) {
            results.add(MemoryResult.peak("cgroup.peak", groupPeak));
        }
        if (sampler != null && rollup != null) {
            long rss = KernelFiles.size(rollup, ROLLUP, "Rss");
            results.add(MemoryResult.peak("proc.rss.peak", Math.max(rss, sampler.largest)));
        }
        sampler = null;
    }

    @Override
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results) throws UnavailableException {
        if (rollup == null) {
            return; // said when it was read
        }
        long rss = KernelFiles.size(rollup, ROLLUP, "Rss");
        long anonymous = KernelFiles.size(rollup, ROLLUP, "Anonymous");
        results.add(MemoryResult.size("proc.rss", rss));
        results.add(MemoryResult.size("proc.pss", KernelFiles.size(rollup, ROLLUP, "Pss")));
        results.add(MemoryResult.size("proc.anonymous", anonymous));
        results.add(MemoryResult.size("proc.file", rss - anonymous));
    }

    /** Reads Rss now and then, and rests a hundred times as long as reading took: 1 % of one processor at most. */
    private final class Sampler extends Thread {
        private static final int REST = 100;
        private volatile boolean finished;
        private long largest;

        Sampler() {
            super("tare-process-memory");
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!finished) {
                long started = System.nanoTime();
                attempt(() -> largest = Math.max(largest, KernelFiles.size(files.sizes(ROLLUP), ROLLUP, "Rss")));
                long took = System.nanoTime() - started;
                rest(Math.max(TimeUnit.MILLISECONDS.toNanos(sampleMillis), REST * took));
            }
        }

        /** What it has allocated; 0 where the JVM does not count that by thread. */
        long allocatedBytes() {
            java.lang.management.ThreadMXBean threads = ManagementFactory.getThreadMXBean();
            return threads instanceof ThreadMXBean ? Math.max(0, ((ThreadMXBean) threads).getThreadAllocatedBytes(getId())) : 0;
        }

        private synchronized void rest(long nanos) {
            long deadline = System.nanoTime() + nanos;
            try {
                for (long left = nanos; !finished && left > 0; left = deadline - System.nanoTime()) {
                    TimeUnit.NANOSECONDS.timedWait(this, left);
                }
            } catch (InterruptedException e) {
                finished = true;
            }
        }

        private void finish() {
            synchronized (this) {
                finished = true;
                notifyAll();
            }
            try {
                join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
