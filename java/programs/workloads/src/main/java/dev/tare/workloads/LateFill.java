package dev.tare.workloads;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;

/** Needs little heap for some time, and then all there is: a load that ends before that has seen nothing of it. */
final class LateFill implements RequestCost {
    private static final int KEPT_BYTES = 8 << 20;

    private final long nanos;
    private final LongSupplier nanoTime;
    private final List<byte[]> kept = new ArrayList<>();
    /** Guarded by this; 0 before the first request. */
    private long start;

    LateFill(int seconds, LongSupplier nanoTime) {
        nanos = seconds * 1_000_000_000L;
        this.nanoTime = nanoTime;
    }

    @Override
    public synchronized void request() {
        if (start == 0) {
            start = nanoTime.getAsLong();
        }
        if (nanoTime.getAsLong() - start >= nanos) {
            kept.add(new byte[KEPT_BYTES]);
        }
    }

    /** How much is kept. */
    synchronized long keptBytes() {
        return (long) kept.size() * KEPT_BYTES;
    }
}
