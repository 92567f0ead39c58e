package dev.tare.workloads;

import java.util.concurrent.ThreadLocalRandom;

/**
 * An HTTP service with a live set of a known size and a known allocation per request, to compare collectors with.
 *
 * <p>Usage: {@code live-set PORT LIVE_KB KB}. It listens on 127.0.0.1 at PORT (0: a free port), keeps LIVE_KB KiB of
 * objects of 1 KiB reachable, and allocates KB KiB of such objects for each request, on every path. Most die at once;
 * every tenth takes the place of a random one that was kept, so that old objects die as well and the live set stays as
 * large as it is. Exit codes: 1 when the port cannot be had or the live set does not fit the heap, 2 for unusable
 * arguments, 143 after SIGTERM.
 */
final class LiveSet implements Workload {
    private static final int REQUEST_THREADS = 8;
    private static final int MAX_KB = 16_777_216;
    /** One object in so many survives. */
    private static final int SURVIVOR = 10;
    /** With its header and length, an array is 1 KiB on a 64-bit JVM with compressed class pointers. */
    private static final int OBJECT_BYTES = 1024 - 16;

    @Override
    public String name() {
        return "live-set";
    }

    @Override
    public String usage() {
        return "PORT LIVE_KB KB\n"
                + "    an HTTP service on 127.0.0.1 (PORT 0: a free one) that keeps LIVE_KB KiB of heap reachable and\n"
                + "    allocates KB KiB in each request, of which every tenth replaces what was kept";
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length != 3) {
            throw new UsageException("got " + args.length + " arguments: give PORT LIVE_KB KB");
        }
        int port = Args.number("PORT", args[0], 0, 65535);
        int liveKb = Args.number("LIVE_KB", args[1], 1, MAX_KB);
        int kb = Args.number("KB", args[2], 0, MAX_KB);
        System.out.println("pid " + ProcessId.get());
        byte[][] kept;
        try {
            kept = fill(liveKb);
        } catch (OutOfMemoryError e) {
            System.err.println("live-set: " + liveKb + " KiB do not fit the heap: raise -Xmx or lower LIVE_KB");
            return 1;
        }
        System.out.println("listening on 127.0.0.1:" + LoopbackServer.start(port, REQUEST_THREADS, () -> churn(kept, kb)));
        Thread.sleep(Long.MAX_VALUE);
        return 0;
    }

    private static byte[][] fill(int liveKb) {
        byte[][] kept = new byte[liveKb][];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[OBJECT_BYTES];
        }
        return kept;
    }

    /** Requests race for places, and that does no harm: a place holds one object or the other. */
    private static void churn(byte[][] kept, int kb) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int sum = 0;
        for (int i = 0; i < kb; i++) {
            byte[] fresh = new byte[OBJECT_BYTES];
            fresh[i % OBJECT_BYTES] = (byte) i;
            if (i % SURVIVOR == 0) {
                kept[random.nextInt(kept.length)] = fresh;
            }
            // Read back, or the compiler may leave the allocation out.
            sum += fresh[(i * 7) % OBJECT_BYTES];
        }
        if (sum == Integer.MIN_VALUE) {
            System.out.println(sum);
        }
    }
}
