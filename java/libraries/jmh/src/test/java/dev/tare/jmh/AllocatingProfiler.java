package dev.tare.jmh;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;

/** A profiler whose own thread allocates {@link #BYTES} in every iteration of {@link KnownTruth#whileAProfilerAllocates}. */
public final class AllocatingProfiler extends MemoryProfiler {
    static final int BYTES = 64 << 20;

    private static volatile AllocatingProfiler running;

    private final CountDownLatch wanted = new CountDownLatch(1);
    private final CountDownLatch done = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private Thread thread;
    static volatile Object garbage;

    /** As JMH makes one; it has no options. */
    public AllocatingProfiler(String options) {
        super(Turn.READ);
        activate();
    }

    /** Lets the profiler allocate, and returns when it has; at once where there is none. */
    static void letAllocate() throws InterruptedException {
        AllocatingProfiler profiler = running;
        if (profiler != null) {
            profiler.wanted.countDown();
            profiler.done.await();
        }
    }

    @Override
    public String getDescription() {
        return "Allocates";
    }

    @Override
    void start() {
        if (thread != null) {
            return; // once is enough, and its bytes are counted on
        }
        thread = new Thread(this::allocate);
        thread.setDaemon(true);
        thread.start();
        running = this;
    }

    private void allocate() {
        try {
            wanted.await();
            for (int left = BYTES; left > 0; left -= KnownTruth.CHUNK) {
                garbage = new byte[KnownTruth.CHUNK - 16];
            }
            done.countDown();
            ended.await(); // what an ended thread has allocated cannot be asked for
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    long allocatedBytes() {
        return thread == null ? 0 : ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getThreadAllocatedBytes(thread.getId());
    }
}
