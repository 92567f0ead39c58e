package dev.tare.junit;

import dev.tare.memory.Allocation;
import dev.tare.memory.ClassHistogram;
import dev.tare.memory.Settling;
import dev.tare.memory.UnavailableException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import org.opentest4j.AssertionFailedError;
import org.opentest4j.TestAbortedException;

/**
 * What code holds and allocates, measured in this JVM.
 *
 * <pre>{@code Memory.of(() -> new Cache(1000)).assertRetained("2 MiB").assertAllocated("3 MiB/op");}</pre>
 *
 * The code is run once to load its classes and then several times, each time between two settled states of the heap;
 * what counts is the median. Other threads that allocate meanwhile are measured too: let none run.
 */
public final class Memory {
    /** How often {@link #of} measures. */
    public static final int REPEATS = 5;
    private static final int ROUNDS = 20;
    private static final int PAUSE_MILLIS = 10;
    private static final int CLASSES_SHOWN = 5;

    private final List<Run> runs;
    private final int operations;

    private Memory(List<Run> runs, int operations) {
        this.runs = runs;
        this.operations = operations;
    }

    /** One measurement. */
    private static final class Run {
        final long retained;
        final long allocated;
        final List<ClassHistogram.Growth> growth;

        Run(long retained, long allocated, List<ClassHistogram.Growth> growth) {
            this.retained = retained;
            this.allocated = allocated;
            this.growth = growth;
        }
    }

    /**
     * Measures code. What it returns is what it holds, besides what it puts into fields.
     *
     * @throws TestAbortedException when this JVM cannot measure
     * @throws Exception that the code threw
     */
    public static Memory of(Callable<?> code) throws Exception {
        return of(code, 1, REPEATS);
    }

    /**
     * Measures code that does several operations in a run.
     *
     * @param operations how many; what is allocated is divided by it
     * @param repeats how many runs are measured, at least 1
     */
    public static Memory of(Callable<?> code, int operations, int repeats) throws Exception {
        return of(() -> { }, code, operations, repeats);
    }

    /** Measures code, before each run of which something is reset, outside of what is measured. */
    static Memory of(Runnable reset, Callable<?> code, int operations, int repeats) throws Exception {
        if (operations < 1 || repeats < 1) {
            throw new IllegalArgumentException("operations = " + operations + " and repeats = " + repeats + " must be 1 or more");
        }
        try {
            run(reset, code); // loads classes, of the measuring itself too
            List<Run> runs = new ArrayList<>();
            for (int i = 0; i < repeats; i++) {
                runs.add(run(reset, code));
            }
            return new Memory(runs, operations);
        } catch (UnavailableException e) {
            throw new TestAbortedException("memory cannot be measured: " + e.getMessage(), e);
        }
    }

    private static Run run(Runnable reset, Callable<?> code) throws Exception {
        reset.run();
        Settling.await(ROUNDS, PAUSE_MILLIS);
        ClassHistogram before = ClassHistogram.take();
        before = ClassHistogram.take(); // counts the one before, which it replaces
        Allocation first = Allocation.now();
        Allocation second = Allocation.now();
        Object held = code.call();
        Allocation third = Allocation.now();
        long allocated = Math.max(0, third.since(second) - second.since(first)); // less what asking allocates
        Settling.await(ROUNDS, PAUSE_MILLIS);
        ClassHistogram after = ClassHistogram.take();
        keep(held);
        return new Run(after.totalBytes() - before.totalBytes(), allocated, after.since(before));
    }

    private static volatile Object kept;

    /** The object is reachable until here. */
    private static void keep(Object object) {
        kept = object;
        kept = null;
    }

    /** The median of what a run held, in bytes. */
    public long retained() {
        return median().retained;
    }

    /** The median of what an operation allocated, in bytes. */
    public long allocated() {
        List<Long> sorted = new ArrayList<>();
        for (Run run : runs) {
            sorted.add(run.allocated);
        }
        Collections.sort(sorted);
        return sorted.get(sorted.size() / 2) / operations;
    }

    private Run median() {
        List<Run> sorted = new ArrayList<>(runs);
        sorted.sort(Comparator.comparingLong(run -> run.retained));
        return sorted.get(sorted.size() / 2);
    }

    /**
     * Fails when more is held than a size such as "2 MiB", and names the classes that grew.
     *
     * @return this
     */
    public Memory assertRetained(String budget) {
        long limit = Bytes.parse("retained", budget, "");
        Run run = median();
        if (run.retained > limit) {
            throw failure("retained", run.retained, "", budget, grown(run));
        }
        return this;
    }

    /**
     * Fails when an operation allocates more than a size such as "10 KiB/op".
     *
     * @return this
     */
    public Memory assertAllocated(String budget) {
        long limit = Bytes.parse("allocated", budget, "/op");
        if (allocated() > limit) {
            throw failure("allocated", allocated(), "/op", budget, "");
        }
        return this;
    }

    private AssertionFailedError failure(String what, long bytes, String suffix, String budget, String more) {
        return new AssertionFailedError(what + " " + Bytes.format(bytes) + suffix + " (" + bytes + " bytes, median of "
                + runs.size() + " runs), the budget is " + budget + more, budget, Bytes.format(bytes) + suffix);
    }

    private static String grown(Run run) {
        StringBuilder text = new StringBuilder("; what grew:");
        for (ClassHistogram.Growth growth : run.growth.subList(0, Math.min(CLASSES_SHOWN, run.growth.size()))) {
            if (growth.bytes > 0) {
                text.append("\n  ").append(Bytes.format(growth.bytes)).append("  ").append(growth.className);
            }
        }
        return text.toString();
    }
}
