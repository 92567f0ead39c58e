package dev.tare.workloads;

import java.nio.ByteBuffer;

/** Has native memory at its start that it gives back before it listens: the start is what it needs most for. */
final class StartPeak implements RequestCost {
    private final int megabytes;
    private volatile ByteBuffer held;

    StartPeak(int megabytes) {
        this.megabytes = megabytes;
    }

    /** A direct buffer is zeroed, and so resident; a collection has it freed. */
    @Override
    public void prepare() {
        held = ByteBuffer.allocateDirect(megabytes << 20);
        held = null;
        System.gc();
    }

    @Override
    public void request() {}
}
