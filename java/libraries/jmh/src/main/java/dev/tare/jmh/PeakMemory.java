package dev.tare.jmh;

import com.sun.management.GarbageCollectionNotificationInfo;
import com.sun.management.GcInfo;
import dev.tare.memory.Settling;
import dev.tare.memory.UnavailableException;
import dev.tare.memory.Usage;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import javax.management.Notification;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;
import org.openjdk.jmh.profile.ProfilerException;
import org.openjdk.jmh.results.IterationResult;

/**
 * The most that was in use, and committed, directly after any collection of an iteration, by the JVM's notifications
 * (com.sun.management.GarbageCollectionNotificationInfo); heap and non-heap are of the same moment. One collection is
 * forced after each iteration, so there is one to tell of unless the JVM does not collect on demand.
 *
 * <ul>
 * <li>{@code mem.peak.used}, and of the same moment {@code mem.peak.used.heap} and {@code mem.peak.used.nonheap}
 * <li>{@code mem.peak.committed}, and of the same moment {@code .heap} and {@code .nonheap}
 * <li>{@code mem.peak.collections}: in the measured section; zero says that the peak is that of the forced one
 * </ul>
 * Of several iterations the largest counts, each metric for itself: then the parts need not add up.
 */
public final class PeakMemory extends MemoryProfiler {
    /** How long to wait for notifications, which a thread of the JVM delivers in its own time. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final Set<String> heapPools = Usage.heapPools();
    private final Object lock = new Object();
    /** The last collection that was notified of, by collector. */
    private final Map<String, Long> seen = new HashMap<>();
    private Usage mostUsed;
    private Usage mostCommitted;
    private boolean listening;
    private long collectionsAtStart;
    private long collectionsInIteration;

    /** For ServiceLoader, to be listed. */
    public PeakMemory() {
        super(Turn.AFTER_COLLECTING);
    }

    /** For a run. */
    public PeakMemory(String options) throws ProfilerException {
        this();
        ProfilerOptions.none(PeakMemory.class, options);
        activate();
    }

    @Override
    public String getDescription() {
        return "Peak of heap and non-heap in use, and committed, after any collection";
    }

    @Override
    void prepare() throws UnavailableException {
        if (listening) {
            return;
        }
        listening = true;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (!(collector instanceof NotificationEmitter && collector instanceof com.sun.management.GarbageCollectorMXBean)) {
                throw new UnavailableException("the collector " + collector.getName() + " does not notify of collections");
            }
            ((NotificationEmitter) collector).addNotificationListener((notification, unused) -> heard(notification), null, null);
            seen(collector.getName(), lastCollection(collector));
        }
    }

    /** The number of a collector's last collection; 0 before the first. */
    private static long lastCollection(GarbageCollectorMXBean collector) {
        GcInfo last = ((com.sun.management.GarbageCollectorMXBean) collector).getLastGcInfo();
        return last == null ? 0 : last.getId();
    }

    private void seen(String collector, long id) {
        synchronized (lock) {
            seen.merge(collector, id, Math::max);
            lock.notifyAll();
        }
    }

    private void heard(Notification notification) {
        if (!GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION.equals(notification.getType())) {
            return;
        }
        GarbageCollectionNotificationInfo event =
                GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData());
        Usage after = Usage.of(event.getGcInfo().getMemoryUsageAfterGc(), heapPools);
        synchronized (lock) {
            consider(after);
        }
        seen(event.getGcName(), event.getGcInfo().getId());
    }

    private void consider(Usage usage) {
        if (mostUsed == null || usage.used() > mostUsed.used()) {
            mostUsed = usage;
        }
        if (mostCommitted == null || usage.committed() > mostCommitted.committed()) {
            mostCommitted = usage;
        }
    }

    /** Waits for the notification of each collector's last collection. */
    private void awaitNotifications() throws UnavailableException {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            awaitNotification(collector.getName(), lastCollection(collector), deadline);
        }
    }

    private void awaitNotification(String collector, long id, long deadline) throws UnavailableException {
        synchronized (lock) {
            while (seen.getOrDefault(collector, 0L) < id) {
                long millis = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (millis <= 0) {
                    throw new UnavailableException("no notification of collection " + id + " of " + collector + " within 10 s");
                }
                try {
                    lock.wait(millis);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new UnavailableException("interrupted while waiting for notifications", e);
                }
            }
        }
    }

    private static long collections() {
        long sum = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            sum += Math.max(0, collector.getCollectionCount());
        }
        return sum;
    }

    @Override
    void start() throws UnavailableException {
        awaitNotifications();
        synchronized (lock) {
            mostUsed = null;
            mostCommitted = null;
        }
        collectionsAtStart = collections();
    }

    @Override
    void end() {
        collectionsInIteration = collections() - collectionsAtStart;
    }

    @Override
    void report(IterationResult iteration, Collection<MemoryResult> results) throws UnavailableException {
        results.add(MemoryResult.mean("mem.peak.collections", collectionsInIteration, "collections"));
        attempt(Settling::collect); // without it there are those of the iteration, if there were any
        awaitNotifications();
        synchronized (lock) {
            if (mostUsed == null) {
                throw new UnavailableException("nothing was collected, so there is no peak to tell of: let the iteration be longer");
            }
            add("mem.peak.used", mostUsed.used(), mostUsed.heapUsed, mostUsed.nonHeapUsed, results);
            add("mem.peak.committed", mostCommitted.committed(), mostCommitted.heapCommitted,
                    mostCommitted.nonHeapCommitted, results);
        }
    }

    private static void add(String label, long sum, long heap, long nonHeap, Collection<MemoryResult> results) {
        results.add(MemoryResult.peak(label, sum));
        results.add(MemoryResult.peak(label + ".heap", heap));
        results.add(MemoryResult.peak(label + ".nonheap", nonHeap));
    }
}
