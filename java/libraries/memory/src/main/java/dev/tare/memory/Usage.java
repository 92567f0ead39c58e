package dev.tare.memory;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The memory pools of this JVM at one moment, in bytes.
 *
 * <p>The pool "Compressed Class Space" is a part of the pool "Metaspace" (memory/metaspace.cpp counts both), so it is
 * not added a second time, which {@link java.lang.management.MemoryMXBean#getNonHeapMemoryUsage()} does.
 */
public final class Usage {
    private static final String CLASS_SPACE = "Compressed Class Space";

    public final long heapUsed;
    public final long heapCommitted;
    public final long nonHeapUsed;
    public final long nonHeapCommitted;

    private Usage(long heapUsed, long heapCommitted, long nonHeapUsed, long nonHeapCommitted) {
        this.heapUsed = heapUsed;
        this.heapCommitted = heapCommitted;
        this.nonHeapUsed = nonHeapUsed;
        this.nonHeapCommitted = nonHeapCommitted;
    }

    /** The pools now. */
    public static Usage now() {
        Map<String, MemoryUsage> pools = new HashMap<>();
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            MemoryUsage usage = pool.getUsage();
            if (usage != null) {
                pools.put(pool.getName(), usage);
            }
        }
        return of(pools, heapPools());
    }

    /** The names of the pools that are heap. */
    public static Set<String> heapPools() {
        Set<String> names = new HashSet<>();
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getType() == MemoryType.HEAP) {
                names.add(pool.getName());
            }
        }
        return names;
    }

    /** The sums over pools that were read at one moment. */
    public static Usage of(Map<String, MemoryUsage> pools, Set<String> heapPools) {
        long[] heap = new long[2];
        long[] nonHeap = new long[2];
        for (Map.Entry<String, MemoryUsage> pool : pools.entrySet()) {
            if (pool.getKey().equals(CLASS_SPACE)) {
                continue;
            }
            long[] sums = heapPools.contains(pool.getKey()) ? heap : nonHeap;
            sums[0] += pool.getValue().getUsed();
            sums[1] += pool.getValue().getCommitted();
        }
        return new Usage(heap[0], heap[1], nonHeap[0], nonHeap[1]);
    }

    /** Heap and non-heap in use. */
    public long used() {
        return heapUsed + nonHeapUsed;
    }

    /** Heap and non-heap that the JVM promised itself; how much of it is resident is another matter. */
    public long committed() {
        return heapCommitted + nonHeapCommitted;
    }
}
