package dev.tare.workloads;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;

/**
 * Keeps a live set close to the largest heap and makes garbage: the collector takes most of the time, and finds just
 * enough for the service not to die.
 *
 * <p>The live set is a multitude of small linked objects, which a collector has to visit one by one. With a heap of
 * 64 MiB and 1000 KiB a request, collection takes more than three quarters of the time from 90 % on with Serial and
 * Parallel, from 95 % on with G1 (whose old regions fill to the end); Parallel at 95 % may say "GC overhead limit
 * exceeded" instead.
 */
final class Thrash implements RequestCost {
    /** Short enough that a collector's threads can share the work. */
    private static final int CHAIN = 4096;

    private static final class Node {
        private final Node next;
        private final long value;

        private Node(Node next, long value) {
            this.next = next;
            this.value = value;
        }
    }

    private final int livePercent;
    private final int garbageKb;
    private Node[] live;
    /** Where garbage is put for a moment, so that it is really made. */
    private volatile Object sink;

    Thrash(int livePercent, int garbageKb) {
        this.livePercent = livePercent;
        this.garbageKb = garbageKb;
    }

    @Override
    public void prepare() {
        long heapBytes = Runtime.getRuntime().maxMemory();
        long chainBytes = chainBytes();
        long wanted = heapBytes / 100 * livePercent;
        live = new Node[(int) Math.max(1, Math.min(Integer.MAX_VALUE - 8, wanted / chainBytes))];
        for (int i = 0; i < live.length; i++) {
            live[i] = chain();
        }
        System.out.println("live set " + live.length * chainBytes / 1024 + " KiB of " + heapBytes / 1024 + " KiB heap");
    }

    @Override
    public void request() {
        for (int i = 0; i < garbageKb; i++) {
            sink = new byte[1024 - 16];
        }
        sink = null;
    }

    /** Asked of the JVM: the size of an object depends on its version and options. */
    private static long chainBytes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        long before = threads.getThreadAllocatedBytes(self);
        Node chain = chain();
        long bytes = threads.getThreadAllocatedBytes(self) - before;
        return Math.max(bytes, chain.value);
    }

    private static Node chain() {
        Node head = null;
        for (int i = 0; i < CHAIN; i++) {
            head = new Node(head, i);
        }
        return head;
    }

    /** A sum over the live set: proof that it is still there. */
    long checksum() {
        long sum = 0;
        for (Node head : live) {
            for (Node node = head; node != null; node = node.next) {
                sum += node.value;
            }
        }
        return sum;
    }
}
