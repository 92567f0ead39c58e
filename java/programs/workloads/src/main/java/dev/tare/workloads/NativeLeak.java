package dev.tare.workloads;

import java.util.Random;
import java.util.zip.Deflater;

/**
 * Keeps some native memory for each request, for ever: the leak that no JVM limit stops, so that the kernel does.
 *
 * <p>It forgets {@link Deflater}s, the classic of its kind: each holds about 260 KiB that zlib took from malloc
 * (window, hash chains, hash heads, output buffer), all of it written once more data than a window has gone through.
 * Direct buffers would not do (bounded by MaxDirectMemorySize, they end in an OutOfMemoryError), nor would
 * sun.misc.Unsafe, which newer JDKs refuse.
 */
final class NativeLeak implements RequestCost {
    /** deflateInit2 with 15 window bits and memory level 8, zlib.h: (1 &lt;&lt; 17) + (1 &lt;&lt; 17), and its state. */
    static final int DEFLATER_KB = 262;
    /** More than a window, and incompressible, so that every buffer is written. */
    private static final int INPUT_BYTES = 80 * 1024;

    /** A forgotten deflater and all before it: reachable, therefore never cleaned. */
    private static final class Forgotten {
        private final Deflater deflater;
        private final Forgotten before;

        private Forgotten(Deflater deflater, Forgotten before) {
            this.deflater = deflater;
            this.before = before;
        }
    }

    private final int deflaters;
    private final byte[] input = new byte[INPUT_BYTES];
    /** The newest one; guarded by this. */
    private Forgotten newest;

    NativeLeak(int kb) {
        deflaters = (kb + DEFLATER_KB - 1) / DEFLATER_KB;
        new Random(1).nextBytes(input);
    }

    @Override
    public void request() {
        byte[] output = new byte[4096];
        for (int i = 0; i < deflaters; i++) {
            Deflater deflater = new Deflater(Deflater.BEST_SPEED, true);
            deflater.setInput(input);
            while (!deflater.needsInput()) {
                deflater.deflate(output);
            }
            forget(deflater);
        }
    }

    private synchronized void forget(Deflater deflater) {
        newest = new Forgotten(deflater, newest);
    }

    /** How many bytes went through the forgotten deflaters: all of them are still in use as far as Java knows. */
    synchronized long inputBytes() {
        long bytes = 0;
        for (Forgotten one = newest; one != null; one = one.before) {
            bytes += one.deflater.getBytesRead();
        }
        return bytes;
    }
}
