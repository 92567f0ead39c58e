package dev.tare.workloads;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

/**
 * Fills memory with threads: each holds some heap, recurses to a given depth and waits there.
 *
 * <p>Usage: {@code MemoryFiller THREADS HEAP_KB FRAMES [--until-eof]}. THREADS are started one after the other;
 * each keeps HEAP_KB KiB of written heap reachable and stands FRAMES Java frames deep when it is counted as placed.
 * {@code ready} is printed when all are. The process then stays until SIGTERM (exit code 143), or with
 * {@code --until-eof} until its standard input ends (exit code 0).
 *
 * <p>A frame's size depends on who compiled it: {@code -Xint} gives the same depth in bytes on every run, compiled
 * code smaller and partly inlined frames.
 *
 * <p>Exit codes: 1 when a thread could not be started or placed (no thread left to the process, Java heap or stack
 * too small), 2 for unusable arguments. Written after the experiment described in "Can we optimize JVM stack size?",
 * https://berksoftware.com/23/12/JVM-Stack-Memory.
 */
public final class MemoryFiller implements Workload {
    private static final int MAX_THREADS = 1_000_000;
    private static final int MAX_HEAP_KB = 1_048_576;
    private static final int MAX_FRAMES = 10_000_000;
    private static final int PROGRESS_STEPS = 10;

    /** Why a thread could not be placed. Made beforehand: a full heap has no room for a message. */
    private enum Failure {
        STACK("its stack is too small for FRAMES frames: raise -Xss or lower FRAMES"),
        HEAP("the Java heap is full: raise -Xmx, or lower HEAP_KB or THREADS");

        private final String text;

        Failure(String text) {
            this.text = text;
        }
    }

    private final CountDownLatch release = new CountDownLatch(1);
    /** What went wrong in a thread; guarded by this. */
    private Failure failure;
    /** How many threads stand at their depth; guarded by this. */
    private int placed;

    public static void main(String[] args) {
        Main.runAndExit(new MemoryFiller(), args);
    }

    @Override
    public String name() {
        return "memory-filler";
    }

    @Override
    public String usage() {
        return "THREADS HEAP_KB FRAMES [--until-eof]\n"
                + "    THREADS threads, each holding HEAP_KB KiB of heap and waiting FRAMES frames deep;\n"
                + "    ends on SIGTERM, with --until-eof also at the end of standard input";
    }

    @Override
    public int run(String[] args) throws Exception {
        boolean untilEof = args.length == 4 && args[3].equals("--until-eof");
        if (args.length != 3 && !untilEof) {
            throw new UsageException("got " + args.length + " arguments: give THREADS HEAP_KB FRAMES [--until-eof]");
        }
        int threads = Args.number("THREADS", args[0], 1, MAX_THREADS);
        int heapKb = Args.number("HEAP_KB", args[1], 0, MAX_HEAP_KB);
        int frames = Args.number("FRAMES", args[2], 0, MAX_FRAMES);

        System.out.println("pid " + ProcessId.get());
        String failed = fill(threads, heapKb, frames);
        if (failed != null) {
            System.err.println("memory-filler: " + failed);
            // The waiting threads may be many and the heap full: no orderly shutdown, which would need both.
            Runtime.getRuntime().halt(1);
        }
        System.out.println("ready");
        if (untilEof) {
            awaitEndOfInput();
            release.countDown();
            return 0;
        }
        release.await();
        return 0;
    }

    /** Starts and places all threads; answers null, or what stopped it. */
    private String fill(int threads, int heapKb, int frames) throws InterruptedException {
        int step = Math.max(1, threads / PROGRESS_STEPS);
        for (int i = 1; i <= threads; i++) {
            try {
                Thread thread = new Thread(() -> place(heapKb, frames), "filler-" + i);
                thread.setDaemon(true);
                thread.start();
            } catch (OutOfMemoryError e) {
                return "thread " + i + " of " + threads + " did not start (" + e.getMessage()
                        + "): lower THREADS, or raise the process, memory or -Xmx limit";
            }
            // One at a time: the number printed last is the number that really fitted.
            Failure failed = awaitPlaced(i);
            if (failed != null) {
                // Room for the message: what the threads hold may go.
                release.countDown();
                return "thread " + i + " of " + threads + ": " + failed.text;
            }
            if (i % step == 0 || i == threads) {
                System.out.println("threads " + i + " of " + threads);
            }
        }
        return null;
    }

    private synchronized Failure awaitPlaced(int count) throws InterruptedException {
        while (placed < count && failure == null) {
            wait();
        }
        return failure;
    }

    /** The life of one thread. */
    private void place(int heapKb, int frames) {
        try {
            byte[] held = new byte[heapKb * 1024];
            Arrays.fill(held, (byte) 1);
            descend(frames, held);
        } catch (StackOverflowError e) {
            fail(Failure.STACK);
        } catch (OutOfMemoryError e) {
            fail(Failure.HEAP);
        }
    }

    /** Recurses, waits at the bottom, and needs its argument after the return, so that no frame can be dropped. */
    private int descend(int left, byte[] held) {
        if (left > 0) {
            return descend(left - 1, held) + held.length + left;
        }
        arrive();
        try {
            release.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return held.length;
    }

    private synchronized void arrive() {
        placed++;
        notifyAll();
    }

    private synchronized void fail(Failure what) {
        failure = what;
        notifyAll();
    }

    private static void awaitEndOfInput() throws java.io.IOException {
        byte[] buffer = new byte[1024];
        while (System.in.read(buffer) >= 0) {
            // What is written there is nobody's business; only its end counts.
        }
    }
}
