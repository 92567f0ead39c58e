package dev.tare.jmh;

import dev.tare.memory.Allocation;
import dev.tare.memory.ClassHistogram;
import dev.tare.memory.Settling;
import dev.tare.memory.UnavailableException;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.profile.ProfilerException;
import org.openjdk.jmh.results.IterationResult;

/**
 * What is still in use after an iteration, while the benchmark's state is alive, and what the iteration allocated.
 *
 * <ul>
 * <li>{@code mem.retained}: live heap, less the live heap before the first iteration, when there was no state yet: what
 *     the benchmark holds (and some 100 KiB of JMH and of classes loaded since)
 * <li>{@code mem.retained.class.NAME}: the same by class, for the classes that grew most in the first iteration
 * <li>{@code mem.heap.live}: live heap by class histogram
 * <li>{@code mem.used.fin}: heap and non-heap in use after one forced collection
 * <li>{@code mem.used.settled}, {@code mem.heap.settled}, {@code mem.nonheap.settled}: after as many as make it fall no
 *     longer, {@code mem.settled.rounds} of them
 * <li>{@code mem.committed.settled}: what the JVM promised itself then, heap and non-heap
 * <li>{@code mem.alloc.rate} in MiB/s, {@code mem.alloc.norm} in B/op: allocated in the iteration, other
 *     than by profilers of this package
 * </ul>
 */
public final class RetainedMemory extends MemoryProfiler {
    private static final Map<String, String> OPTIONS = new LinkedHashMap<>();

    static {
        OPTIONS.put("rounds", "collections at most until it counts as settled, 1 to 100, default 20");
        OPTIONS.put("pause", "milliseconds between them, 0 to 60000, default 50");
        OPTIONS.put("classes", "how many classes to show, 0 to 100, default 5");
    }

    private final int maxRounds;
    private final int pauseMillis;
    private final int classes;
    private ClassHistogram baseline;
    private boolean prepared;
    /** The classes shown: once shown, a class stays, at zero too. */
    private final Set<String> shown = new LinkedHashSet<>();
    private Allocation allocated;
    private long allocatedBefore;
    private long startNanos;
    private long nanos;
    private long allocatedBytes;

    /** For ServiceLoader, to be listed. */
    public RetainedMemory() throws ProfilerException {
        this(ProfilerOptions.parse(RetainedMemory.class, "", OPTIONS));
    }

    /** For a run. */
    public RetainedMemory(String options) throws ProfilerException {
        this(ProfilerOptions.parse(RetainedMemory.class, options, OPTIONS));
        activate();
    }

    private RetainedMemory(ProfilerOptions options) throws ProfilerException {
        super(Turn.COUNT, Turn.COLLECT);
        maxRounds = options.number("rounds", 20, 1, 100);
        pauseMillis = options.number("pause", 50, 0, 60_000);
        classes = options.number("classes", 5, 0, 100);
    }

    @Override
    public String getDescription() {
        return "Heap and non-heap in use once settled, live heap by class, allocation";
    }

    @Override
    void prepare() throws UnavailableException {
        if (prepared) {
            return;
        }
        prepared = true;
        // The second counts the first, which the third replaces in size: a histogram does not measure itself.
        baseline = ClassHistogram.take();
        baseline = ClassHistogram.take();
    }

    @Override
    void start() throws UnavailableException {
        allocated = null;
        allocatedBefore = allocatedByProfilers();
        startNanos = System.nanoTime();
        allocated = Allocation.now();
    }

    @Override
    void end() throws UnavailableException {
        nanos = System.nanoTime() - startNanos;
        allocatedBytes = -1;
        if (allocated != null) {
            long all = Allocation.now().since(allocated);
            allocatedBytes = Math.max(0, all - (allocatedByProfilers() - allocatedBefore));
        }
    }

    @Override
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results) {
        attempt(() -> settled(results));
        attempt(() -> live(results));
    }

    @Override
    void report(IterationResult iteration, Collection<MemoryResult> results) {
        if (allocatedBytes < 0) {
            return; // said when it was counted
        }
        results.add(MemoryResult.mean("mem.alloc.rate", allocatedBytes / 1048576.0 / (nanos / 1e9), "MiB/s"));
        long ops = iteration.getMetadata().getAllOps();
        if (ops > 0) {
            results.add(MemoryResult.mean("mem.alloc.norm", (double) allocatedBytes / ops, "B/op"));
        }
    }

    private void settled(Collection<MemoryResult> results) throws UnavailableException {
        Settling memory = Settling.await(maxRounds, pauseMillis);
        if (!memory.steady && maxRounds > Settling.STEADY_ROUNDS) {
            warn("memory in use still fell after " + memory.rounds + " collections: raise the option rounds or pause");
        }
        results.add(MemoryResult.size("mem.used.fin", memory.first.used()));
        results.add(MemoryResult.size("mem.used.settled", memory.settled.used()));
        results.add(MemoryResult.size("mem.heap.settled", memory.settled.heapUsed));
        results.add(MemoryResult.size("mem.nonheap.settled", memory.settled.nonHeapUsed));
        results.add(MemoryResult.size("mem.committed.settled", memory.settled.committed()));
        results.add(MemoryResult.mean("mem.settled.rounds", memory.rounds, "collections"));
    }

    private void live(Collection<MemoryResult> results) throws UnavailableException {
        if (baseline == null) {
            return; // said when it was taken
        }
        ClassHistogram now = ClassHistogram.take();
        results.add(MemoryResult.size("mem.heap.live", now.totalBytes()));
        results.add(MemoryResult.size("mem.retained", now.totalBytes() - baseline.totalBytes()));
        if (shown.isEmpty()) {
            for (ClassHistogram.Growth growth : now.since(baseline)) {
                if (shown.size() < classes && growth.bytes > 0) {
                    shown.add(growth.className);
                }
            }
        }
        for (String name : shown) {
            results.add(MemoryResult.size("mem.retained.class." + name, now.bytes(name) - baseline.bytes(name)));
        }
    }
}
