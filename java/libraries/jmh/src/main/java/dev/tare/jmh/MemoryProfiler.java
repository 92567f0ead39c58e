package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.runner.IterationType;

/**
 * A profiler of this package. JMH starts profilers in the order of its command line and stops them in the opposite one;
 * a profiler that collects would then change what the next one reads. So the first that JMH starts has all of them
 * prepare and start, and the first that it stops has all of them report, in the order of {@link Turn}.
 */
abstract class MemoryProfiler implements InternalProfiler {
    /** When a profiler has its turn after an iteration; before one, it is the other way round. */
    enum Turn {
        /** Counts what the iteration does: next to it, so that it does not count what the others do. */
        COUNT,
        /** Reads counters and files. */
        READ,
        /** Starts a process. */
        LOOK,
        /** Collects. */
        COLLECT,
        /** Wants to have seen the collections of others. */
        AFTER_COLLECTING,
        /** Makes many objects. */
        WALK
    }

    /** The profilers of the running benchmark: of each class the one that JMH made last. */
    private static final Map<Class<?>, MemoryProfiler> ACTIVE = new LinkedHashMap<>();
    /** What was warned of in this JVM. */
    private static final Set<String> WARNED = Collections.synchronizedSet(new HashSet<>());

    private final Turn bounds;
    private final Turn turn;
    private boolean started;
    /** Iterations that are no warm-up, so far. */
    private int measured;
    /** What the last iteration gave, until JMH asks for it. */
    private List<MemoryResult> results;

    MemoryProfiler(Turn turn) {
        this(turn, turn);
    }

    /**
     * A profiler that has other turns at the bounds of an iteration than when it reports.
     *
     * @param bounds of {@link #start} and {@link #end}
     * @param turn of everything else
     */
    MemoryProfiler(Turn bounds, Turn turn) {
        this.bounds = bounds;
        this.turn = turn;
    }

    /** Takes part in the iterations to come. Instances that ServiceLoader makes never do. */
    final void activate() {
        synchronized (ACTIVE) {
            ACTIVE.put(getClass(), this);
        }
    }

    /** Whether this takes part: of two instances of one class the later one does. */
    private boolean active() {
        if (ACTIVE.get(getClass()) == this) {
            return true;
        }
        warn("there are two of it: the one that was made last counts");
        return false;
    }

    /** Does what takes memory or time ahead of an iteration. */
    void prepare() throws UnavailableException {
    }

    /** Remembers where the iteration starts; the last thing before it. */
    abstract void start() throws UnavailableException;

    /** Remembers where the iteration has ended; the first thing after it. */
    void end() throws UnavailableException {
    }

    /** What threads of this profiler have allocated so far in the iteration, in bytes. */
    long allocatedBytes() {
        return 0;
    }

    /** The sum of {@link #allocatedBytes} of all profilers. */
    static long allocatedByProfilers() {
        synchronized (ACTIVE) {
            long bytes = 0;
            for (MemoryProfiler profiler : ACTIVE.values()) {
                bytes += profiler.allocatedBytes();
            }
            return bytes;
        }
    }

    /** Adds what was measured in the iteration. What cannot be measured is left out, with a warning. */
    void report(IterationResult iteration, Collection<MemoryResult> results) throws UnavailableException {
    }

    /**
     * Adds what can be measured at the end of an iteration only as long as the benchmark's state is alive. In the last
     * iteration JMH tears the state down and drops it before it stops profilers, so this one is not called then.
     */
    void reportState(BenchmarkParams benchmark, Collection<MemoryResult> results) throws UnavailableException {
    }

    @Override
    public final void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
        synchronized (ACTIVE) {
            if (started || !active()) {
                return;
            }
            // Whose results nobody fetched belongs to a run that is over.
            ACTIVE.values().removeIf(profiler -> profiler.results != null);
            for (MemoryProfiler profiler : backwards(profiler -> profiler.turn)) {
                profiler.attempt(profiler::prepare);
            }
            for (MemoryProfiler profiler : backwards(profiler -> profiler.bounds)) {
                profiler.attempt(profiler::start);
                profiler.started = true;
            }
        }
    }

    @Override
    public final Collection<MemoryResult> afterIteration(BenchmarkParams benchmark, IterationParams iteration,
            IterationResult result) {
        synchronized (ACTIVE) {
            if (!active()) {
                return Collections.emptyList();
            }
            boolean last = isLast(iteration);
            if (results == null) {
                for (MemoryProfiler profiler : inOrder(profiler -> profiler.bounds)) {
                    profiler.started = false;
                    profiler.attempt(profiler::end);
                }
                for (MemoryProfiler profiler : inOrder(profiler -> profiler.turn)) {
                    profiler.results = new ArrayList<>();
                    profiler.attempt(() -> profiler.report(result, profiler.results));
                    if (!last) {
                        profiler.attempt(() -> profiler.reportState(benchmark, profiler.results));
                    }
                }
            }
            List<MemoryResult> mine = results;
            results = null;
            return mine;
        }
    }

    private boolean isLast(IterationParams iteration) {
        if (iteration.getType() != IterationType.MEASUREMENT) {
            return false;
        }
        measured++;
        if (iteration.getCount() == 1 && turn != Turn.AFTER_COLLECTING) {
            warn("what a benchmark holds cannot be measured in the last iteration, which JMH ends by dropping the state:"
                    + " give it two or more, -i 2");
        }
        return measured == iteration.getCount();
    }

    private static List<MemoryProfiler> inOrder(Function<MemoryProfiler, Turn> of) {
        List<MemoryProfiler> profilers = new ArrayList<>(ACTIVE.values());
        profilers.sort(Comparator.comparing(of));
        return profilers;
    }

    private static List<MemoryProfiler> backwards(Function<MemoryProfiler, Turn> of) {
        List<MemoryProfiler> profilers = inOrder(of);
        Collections.reverse(profilers);
        return profilers;
    }

    /** A part of a measurement. */
    interface Attempt {
        void run() throws UnavailableException;
    }

    /** Runs a part of a measurement. If it fails the benchmark goes on, and the reason is said once. */
    final void attempt(Attempt part) {
        try {
            part.run();
        } catch (UnavailableException e) {
            warn(e.getMessage());
        } catch (LinkageError e) {
            warn("this JVM lacks classes that it needs: take HotSpot with the module jdk.management");
        } catch (RuntimeException e) {
            warn("failed, which is a bug: " + e);
        }
    }

    /** Says something once in this JVM; what differs in numbers alone is the same. */
    final void warn(String message) {
        if (WARNED.add(getClass().getName() + message.replaceAll("[0-9]+", "0"))) {
            System.out.println("# tare: " + getClass().getSimpleName() + ": " + message);
        }
    }
}
