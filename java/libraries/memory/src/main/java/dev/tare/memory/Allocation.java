package dev.tare.memory;

import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;

/**
 * The bytes that the threads of this JVM have allocated on the Java heap up to a moment.
 *
 * <p>JVMs since JDK 21, and updates of older ones, keep the sum, ended threads included (getTotalThreadAllocatedBytes,
 * JDK-8304074). On others threads are asked one by one, and what a thread allocated that ends between two moments is lost. Asking allocates a
 * little itself.
 */
public final class Allocation {
    private static final Method TOTAL = total();

    /** The JVM's sum; -1 where it keeps none. */
    private final long sum;
    private final long[] threads;
    private final long[] byThread;

    private Allocation(long sum, long[] threads, long[] byThread) {
        this.sum = sum;
        this.threads = threads;
        this.byThread = byThread;
    }

    private static Method total() {
        if (System.getProperty("java.specification.version", "").startsWith("1.")) {
            return null; // updates of JDK 8 have the method, but its sum leaves out threads that are at work
        }
        try {
            return com.sun.management.ThreadMXBean.class.getMethod("getTotalThreadAllocatedBytes");
        } catch (NoSuchMethodException e) {
            return null; // an older JVM
        }
    }

    /** @throws UnavailableException when this JVM does not count */
    public static Allocation now() throws UnavailableException {
        java.lang.management.ThreadMXBean platform = ManagementFactory.getThreadMXBean();
        if (!(platform instanceof com.sun.management.ThreadMXBean)) {
            throw new UnavailableException("this JVM does not count what its threads allocate");
        }
        com.sun.management.ThreadMXBean threads = (com.sun.management.ThreadMXBean) platform;
        if (!threads.isThreadAllocatedMemorySupported() || !threads.isThreadAllocatedMemoryEnabled()) {
            throw new UnavailableException("this JVM does not count what its threads allocate:"
                    + " ThreadMXBean.isThreadAllocatedMemoryEnabled() is false");
        }
        if (TOTAL != null) {
            return new Allocation(sum(threads), null, null);
        }
        long[] ids = threads.getAllThreadIds();
        return new Allocation(-1, ids, threads.getThreadAllocatedBytes(ids));
    }

    private static long sum(com.sun.management.ThreadMXBean threads) throws UnavailableException {
        try {
            return (Long) TOTAL.invoke(threads);
        } catch (IllegalAccessException | InvocationTargetException e) {
            throw new UnavailableException("getTotalThreadAllocatedBytes failed: " + e, e);
        }
    }

    /** The bytes allocated since an earlier moment. */
    public long since(Allocation earlier) {
        if (threads == null) {
            return Math.max(0, sum - earlier.sum);
        }
        Map<Long, Long> before = new HashMap<>();
        for (int i = 0; i < earlier.threads.length; i++) {
            before.put(earlier.threads[i], Math.max(0, earlier.byThread[i])); // -1: it has just ended
        }
        long allocated = 0;
        for (int i = 0; i < threads.length; i++) {
            allocated += Math.max(0, byThread[i] - before.getOrDefault(threads[i], 0L));
        }
        return allocated;
    }
}
