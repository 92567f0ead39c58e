package dev.tare.memory;

import com.sun.management.GcInfo;
import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Memory in use after the first forced collection, and once further collections, with pauses between them for
 * reference handlers and cleaners to do their part, no longer make it fall.
 */
public final class Settling {
    /** Less than this share is no fall: compilers and other threads always move a little. */
    private static final double FALL = 0.0005;
    /**
     * So many collections in a row without a fall, and it has settled. With the first there are four of them at least:
     * Serial compacts the whole heap in every fourth only (MarkSweepAlwaysCompactCount), and in the others leaves up to 5 %
     * of the old generation as dead wood (MarkSweepDeadRatio), which counts as in use; globals.hpp of HotSpot.
     */
    public static final int STEADY_ROUNDS = 3;

    private static final boolean CONCURRENT = concurrent();

    /** After one collection. */
    public final Usage first;
    /** At the end. */
    public final Usage settled;
    /** How many collections it took. */
    public final int rounds;
    /** False when it was still falling after the largest number of rounds. */
    public final boolean steady;

    private Settling(Usage first, Usage settled, int rounds, boolean steady) {
        this.first = first;
        this.settled = settled;
        this.rounds = rounds;
        this.steady = steady;
    }

    /**
     * Collects until the memory in use no longer falls.
     *
     * @param maxRounds at most so many collections, at least 1
     * @throws UnavailableException when this JVM does not collect on demand
     */
    public static Settling await(int maxRounds, long pauseMillis) throws UnavailableException {
        Usage first = collect();
        Usage lowest = first;
        int steadyRounds = 0;
        int rounds = 1;
        while (rounds < maxRounds && steadyRounds < STEADY_ROUNDS) {
            pause(pauseMillis);
            Usage now = collect();
            rounds++;
            steadyRounds = now.used() < lowest.used() * (1 - FALL) ? 0 : steadyRounds + 1;
            if (now.used() < lowest.used()) {
                lowest = now;
            }
        }
        return new Settling(first, lowest, rounds, steadyRounds >= STEADY_ROUNDS);
    }

    /**
     * Collects the whole heap once, and tells what was in use directly afterwards: by the collection's own account, since
     * a moment later what threads have been handed to allocate from counts as used.
     *
     * @throws UnavailableException when System.gc() does nothing, or does not stop the application for all of it
     */
    public static Usage collect() throws UnavailableException {
        if (CONCURRENT) {
            throw new UnavailableException("System.gc() collects concurrently, which leaves what died meanwhile:"
                    + " leave out -XX:+ExplicitGCInvokesConcurrent");
        }
        long before = collections();
        Map<String, GcInfo> earlier = accounts();
        System.gc();
        if (collections() == before) {
            throw new UnavailableException("System.gc() does not collect:"
                    + " leave out -XX:+DisableExplicitGC, and take a collector other than Epsilon");
        }
        Map<String, GcInfo> since = accounts();
        since.keySet().removeIf(name -> earlier.containsKey(name) && earlier.get(name).getId() == since.get(name).getId());
        return afterLatest(since.values());
    }

    /**
     * Whether System.gc() runs the concurrent cycle of G1 or CMS, by their option ExplicitGCInvokesConcurrent (gc_globals.hpp
     * of HotSpot). Shenandoah sets it too, but collects concurrently whatever it says, as ZGC does.
     */
    private static boolean concurrent() {
        boolean asked = false;
        for (String option : new String[] {"ExplicitGCInvokesConcurrent", "ExplicitGCInvokesConcurrentAndUnloadsClasses"}) {
            asked |= isOn(option);
        }
        boolean can = false;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            can |= collector.getName().startsWith("G1 ") || collector.getName().equals("ConcurrentMarkSweep");
        }
        return asked && can;
    }

    private static boolean isOn(String option) {
        HotSpotDiagnosticMXBean bean = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        try {
            return bean != null && bean.getVMOption(option).getValue().equals("true");
        } catch (IllegalArgumentException e) {
            return false; // this JVM has no such option
        }
    }

    /** The account of each collector's last collection; of those that had none yet, none. */
    private static Map<String, GcInfo> accounts() {
        Map<String, GcInfo> accounts = new HashMap<>();
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            GcInfo last = collector instanceof com.sun.management.GarbageCollectorMXBean
                    ? ((com.sun.management.GarbageCollectorMXBean) collector).getLastGcInfo() : null;
            if (last != null) {
                accounts.put(collector.getName(), last);
            }
        }
        return accounts;
    }

    /**
     * The usage after the latest of some collections. It may be that none has an account: CMS keeps none of a full
     * collection that stops its concurrent one. Then it is the usage now.
     */
    private static Usage afterLatest(Collection<GcInfo> accounts) {
        Usage after = null;
        long latest = -1;
        for (GcInfo last : accounts) {
            if (last.getStartTime() >= latest) {
                Usage usage = Usage.of(last.getMemoryUsageAfterGc(), Usage.heapPools());
                if (usage.heapUsed > 0) { // those that only count pauses, as of ZGC, say nothing of use
                    after = usage;
                    latest = last.getStartTime(); // a concurrent cycle may end later, but knows less
                }
            }
        }
        return after == null ? Usage.now() : after;
    }

    private static long collections() {
        long sum = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            sum += collector.getCollectionCount();
        }
        return sum;
    }

    private static void pause(long millis) throws UnavailableException {
        try {
            TimeUnit.MILLISECONDS.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new UnavailableException("interrupted while memory settled", e);
        }
    }
}
