package dev.tare.sysinfo;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A request whose cost the caller chooses: {@code alloc-kib} KiB of heap and {@code direct-kib} KiB of direct buffers
 * are allocated and written, {@code cpu-us} microseconds of this thread's CPU time are burnt, and the memory stays
 * reachable until {@code hold-ms} milliseconds have passed since it was all there. What is no longer reachable of
 * direct buffers is freed by a collection alone.
 */
final class Work {
    private static final String ALLOC = "alloc-kib";
    private static final String DIRECT = "direct-kib";
    private static final String HOLD = "hold-ms";
    private static final String CPU = "cpu-us";
    private static final List<String> NAMES = Arrays.asList(ALLOC, DIRECT, HOLD, CPU);
    static final long MAX_ALLOC_KIB = 4L << 20;
    static final long MAX_HOLD_MS = 60_000;
    static final long MAX_CPU_US = 60_000_000;
    /** In pieces, so that the cost is the same with any collector: large arrays take whole regions of some. */
    private static final int PIECE_KIB = 64;
    /** An array's header, so that a piece with it is a round number of KiB. */
    private static final int HEADER_BYTES = 16;
    /** How many rounds of computing lie between two looks at the clock. */
    private static final int BURN_ROUNDS = 2_000;

    final long allocKib;
    final long directKib;
    final long holdMs;
    final long cpuUs;

    private Work(long allocKib, long directKib, long holdMs, long cpuUs) {
        this.allocKib = allocKib;
        this.directKib = directKib;
        this.holdMs = holdMs;
        this.cpuUs = cpuUs;
    }

    /**
     * Reads the query of a URL; what is missing is 0.
     *
     * @param query still encoded, null when there is none
     * @throws IllegalArgumentException saying in one line what is wrong
     */
    static Work parse(String query) {
        Map<String, Long> values = new HashMap<>();
        for (String pair : query == null || query.isEmpty() ? new String[0] : query.split("&", -1)) {
            int equals = pair.indexOf('=');
            String name = equals < 0 ? pair : pair.substring(0, equals);
            if (!NAMES.contains(name)) {
                throw new IllegalArgumentException("unknown parameter: /work takes alloc-kib, direct-kib, hold-ms and cpu-us");
            }
            if (values.put(name, number(name, pair.substring(equals + 1))) != null) {
                throw new IllegalArgumentException(name + " is given twice");
            }
        }
        return new Work(values.getOrDefault(ALLOC, 0L), values.getOrDefault(DIRECT, 0L), values.getOrDefault(HOLD, 0L),
            values.getOrDefault(CPU, 0L));
    }

    private static long number(String name, String text) {
        long max = name.equals(ALLOC) || name.equals(DIRECT) ? MAX_ALLOC_KIB : name.equals(HOLD) ? MAX_HOLD_MS : MAX_CPU_US;
        if (text.matches("[0-9]{1,10}") && Long.parseLong(text) <= max) {
            return Long.parseLong(text);
        }
        throw new IllegalArgumentException(name + " must be a whole number from 0 to " + max);
    }

    /**
     * Does the work in the calling thread.
     *
     * @return the parameters, and {@code touched-kib}, read back from the memory after the hold
     * @throws OutOfMemoryError when the heap, or the bound of direct buffers, cannot give that much
     */
    Map<String, Object> run() throws InterruptedException {
        byte[][] held = allocate();
        ByteBuffer[] direct = allocateDirect();
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(holdMs);
        burn(TimeUnit.MICROSECONDS.toNanos(cpuUs));
        for (long left; (left = until - System.nanoTime()) > 0; ) {
            TimeUnit.NANOSECONDS.sleep(left);
        }
        Map<String, Object> done = new LinkedHashMap<>();
        done.put(ALLOC, allocKib);
        done.put(DIRECT, directKib);
        done.put(HOLD, holdMs);
        done.put(CPU, cpuUs);
        done.put("touched-kib", touchedKib(held) + touchedKib(direct));
        return done;
    }

    private byte[][] allocate() {
        byte[][] pieces = new byte[(int) ((allocKib + PIECE_KIB - 1) / PIECE_KIB)][];
        for (int i = 0; i < pieces.length; i++) {
            long kib = Math.min(PIECE_KIB, allocKib - (long) i * PIECE_KIB);
            pieces[i] = new byte[(int) kib * 1024 - HEADER_BYTES];
            Arrays.fill(pieces[i], (byte) 1);
        }
        return pieces;
    }

    private ByteBuffer[] allocateDirect() {
        ByteBuffer[] pieces = new ByteBuffer[(int) ((directKib + PIECE_KIB - 1) / PIECE_KIB)];
        for (int i = 0; i < pieces.length; i++) {
            pieces[i] = ByteBuffer.allocateDirect((int) Math.min(PIECE_KIB, directKib - (long) i * PIECE_KIB) * 1024);
            for (int at = 0; at < pieces[i].capacity(); at += 1024) {
                pieces[i].put(at, (byte) 1);
            }
        }
        return pieces;
    }

    private static long touchedKib(ByteBuffer[] pieces) {
        long kib = 0;
        for (ByteBuffer piece : pieces) {
            for (int at = 0; at < piece.capacity(); at += 1024) {
                kib += piece.get(at);
            }
        }
        return kib;
    }

    private static long touchedKib(byte[][] pieces) {
        long kib = 0;
        for (byte[] piece : pieces) {
            for (int at = 0; at < piece.length; at += 1024) {
                kib += piece[at];
            }
        }
        return kib;
    }

    private static void burn(long nanos) {
        if (nanos == 0) {
            return;
        }
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long until = threads.getCurrentThreadCpuTime() + nanos;
        long x = until | 1;
        while (threads.getCurrentThreadCpuTime() < until) {
            for (int i = 0; i < BURN_ROUNDS; i++) {
                x ^= x << 13;
                x ^= x >>> 7;
                x ^= x << 17;
            }
            if (x == 0) {
                // Never: xorshift does not reach 0 from elsewhere. The compiler cannot know, and keeps the loop.
                throw new AssertionError();
            }
        }
    }
}
