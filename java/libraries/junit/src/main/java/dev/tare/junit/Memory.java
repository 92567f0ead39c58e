package dev.tare.junit;

import dev.tare.memory.Allocation;
import dev.tare.memory.ClassHistogram;
import dev.tare.memory.Settling;
import dev.tare.memory.UnavailableException;
import java.lang.management.ManagementFactory;
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
 * The code runs once, to load its classes, and then several times, each time between two settled states of the heap. What
 * counts is the median of those. Before each of them the places where the code may have kept something get back what they
 * held at first: local variables that it has captured, fields of the object and static fields of the class that it is
 * written in, and the elements of arrays and of collections of the JDK in these. So what each run puts in place of what
 * the last one kept counts too.
 *
 * <p>Other places, such as a static field of another class, cannot be reset. What the first run leaves there counts when
 * it is more than the classes that it loaded may take, 3 KiB for each and 8 KiB besides; what is less is not noticed.
 *
 * <p>A measurement waits for one that another thread makes. What threads allocate and hold meanwhile that do something
 * else counts: let none run.
 */
public final class Memory {
    /** How often {@link #of} measures. */
    public static final int REPEATS = 5;
    private static final int ROUNDS = 20;
    private static final int PAUSE_MILLIS = 10;
    private static final int CLASSES_SHOWN = 5;

    /** What a class takes on the heap when it is loaded, at most: its mirror, names, resolved references. */
    private static final long BYTES_PER_CLASS = 3 << 10;
    /** What moves on the heap between two measurements besides. */
    private static final long OWN_BYTES = 8 << 10;
    /** The system property that says what becomes of a budget that cannot be measured: "fail", the default, or "skip". */
    private static final String UNMEASURABLE = "dev.tare.junit.unmeasurable";

    private final List<Run> runs;
    /** What the first run left behind, once places were as before. */
    private final Run leftByFirst;
    private final int operations;
    /** So much of that may be classes that the run loaded. */
    private final long allowance;

    private Memory(List<Run> runs, Run leftByFirst, int operations, long allowance) {
        this.runs = runs;
        this.leftByFirst = leftByFirst;
        this.operations = operations;
        this.allowance = allowance;
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
     * Measures code. What it returns is what it holds, besides what it keeps in fields and collections.
     *
     * @throws AssertionFailedError when this JVM cannot measure
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
        return of(Places.of(code), code, code, operations, repeats);
    }

    /**
     * Measures code, before each run of which places get back what they held before the first one.
     *
     * @param first does the first run
     */
    static synchronized Memory of(Places places, Callable<?> first, Callable<?> code, int operations, int repeats) throws Exception {
        if (operations < 1 || repeats < 1) {
            throw new IllegalArgumentException("operations = " + operations + " and repeats = " + repeats + " must be 1 or more");
        }
        boolean skip = skipsUnmeasurable();
        try {
            run(() -> null); // loads the classes of the measuring itself
            long classes = ManagementFactory.getClassLoadingMXBean().getTotalLoadedClassCount();
            ClassHistogram untouched = baseline();
            first.call(); // what it returns is gone with the call
            classes = ManagementFactory.getClassLoadingMXBean().getTotalLoadedClassCount() - classes;
            places.restore();
            ClassHistogram left = settled();
            List<Run> runs = new ArrayList<>();
            for (int i = 0; i < repeats; i++) {
                places.restore();
                runs.add(run(code));
            }
            Run leftByFirst = new Run(left.totalBytes() - untouched.totalBytes(), 0, left.since(untouched));
            return new Memory(runs, leftByFirst, operations, OWN_BYTES + classes * BYTES_PER_CLASS);
        } catch (UnavailableException e) {
            String message = "memory cannot be measured: " + e.getMessage();
            if (skip) {
                throw new TestAbortedException(message, e);
            }
            throw new AssertionFailedError(message + " (to skip such tests, start the JVM with -D" + UNMEASURABLE + "=skip)", e);
        }
    }

    private static boolean skipsUnmeasurable() {
        String choice = System.getProperty(UNMEASURABLE, "fail");
        if (!choice.equals("fail") && !choice.equals("skip")) {
            throw new IllegalArgumentException("the system property " + UNMEASURABLE + " is \"" + choice + "\": give fail or skip");
        }
        return choice.equals("skip");
    }

    private static ClassHistogram settled() throws UnavailableException {
        Settling.await(ROUNDS, PAUSE_MILLIS);
        return ClassHistogram.take();
    }

    /** What is there before something is measured. */
    private static ClassHistogram baseline() throws UnavailableException {
        ClassHistogram before = settled();
        before = ClassHistogram.take(); // counts the one before, which it replaces: so does the next, this one
        return before;
    }

    private static Run run(Callable<?> code) throws Exception {
        ClassHistogram before = baseline();
        Allocation first = Allocation.now();
        Allocation second = Allocation.now();
        Object held = code.call();
        Allocation third = Allocation.now();
        long allocated = Math.max(0, third.since(second) - second.since(first)); // less what asking allocates
        ClassHistogram after = settled();
        keep(held);
        return new Run(after.totalBytes() - before.totalBytes(), allocated, after.since(before));
    }

    private static volatile Object kept;

    /** The object is reachable until here. */
    private static void keep(Object object) {
        kept = object;
        kept = null;
    }

    /**
     * What a run held, in bytes: the median. When the first run left much more behind than that, and more than the classes
     * take that it loaded, then it is what the first run left: code holds it in a place that is not reset.
     */
    public long retained() {
        return holding().retained;
    }

    private Run holding() {
        Run median = median();
        return leftByFirst.retained - median.retained > allowance ? leftByFirst : median;
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
        Run run = holding();
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
        String basis = what.equals("retained") && holding() == leftByFirst
                ? "which the first run left where the test cannot reset it, such as"
                + " a static field of another class: if that is set up once for all, use it once before what is measured"
                : "median of " + runs.size() + " runs";
        return new AssertionFailedError(what + " " + Bytes.format(bytes) + suffix + " (" + bytes + " bytes, " + basis + "), the budget is " + budget + more, budget, Bytes.format(bytes) + suffix);
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
