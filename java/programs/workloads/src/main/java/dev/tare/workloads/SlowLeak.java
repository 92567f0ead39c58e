package dev.tare.workloads;

import java.util.function.LongSupplier;

/** Keeps so much more native memory each second from its first request on, however many requests there are. */
final class SlowLeak implements RequestCost {
    private final NativeLeak leak = new NativeLeak(NativeLeak.DEFLATER_KB);
    private final long kbPerSecond;
    private final LongSupplier nanoTime;
    /** Guarded by this, as what follows; 0 before the first request. */
    private long start;
    private long leakedKb;

    SlowLeak(int kbPerSecond, LongSupplier nanoTime) {
        this.kbPerSecond = kbPerSecond;
        this.nanoTime = nanoTime;
    }

    @Override
    public synchronized void request() {
        if (start == 0) {
            start = nanoTime.getAsLong();
        }
        while (leakedKb < (nanoTime.getAsLong() - start) / 1e9 * kbPerSecond) {
            leak.request();
            leakedKb += NativeLeak.DEFLATER_KB;
        }
    }

    /** How much was kept. */
    synchronized long leakedKb() {
        return leakedKb;
    }
}
