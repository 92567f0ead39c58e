package dev.tare.workloads;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Takes memory of one kind at a time, as told on its standard input, and says to the byte how much it has written.
 *
 * <p>Usage: {@code holder THREADS}. THREADS threads stand and wait when {@code ready} is printed. Then each line of
 * input takes more, and is answered by {@code step NUMBER holds KIND BYTES}, how much that line added:
 *
 * <ul>
 *   <li>{@code heap KB}: every thread keeps arrays of KB KiB in all, in the Java heap;
 *   <li>{@code stacks KB}: every thread goes about KB KiB deeper down its stack, and waits there;
 *   <li>{@code direct KB}: one direct buffer;
 *   <li>{@code malloc COUNT BYTES}: COUNT direct buffers of BYTES, which the JVM takes from malloc one by one;
 *   <li>{@code mapped KB FILE}: a file of that size is made and mapped;
 *   <li>{@code library FILE}: nothing; the native library is loaded that some of the next need;
 *   <li>{@code map}, {@code huge-map}, {@code threads}, {@code goroutines}, {@code jemalloc} and {@code arena}, each with
 *       {@code COUNT BYTES}: as {@link NativeMemory} says.
 * </ul>
 *
 * <p>All of it is written, so that it is resident, and none is given back. The end of the input ends the process.
 *
 * <p>How deep a stack is, Java cannot see. But when a stack is larger, more frames fit: the size of a frame is the
 * difference of two stack sizes divided by the difference of frames, rounded to a machine word. Frames are of one size
 * only when they are interpreted: run it with {@code -Xint}.
 *
 * <p>Exit codes: 1 when something could not be taken, 2 for unusable arguments.
 */
final class Holder implements Workload {
    private static final int MAX_THREADS = 100_000;
    private static final int MAX_KB = 64 * 1024 * 1024;
    private static final int MAX_COUNT = 10_000_000;
    private static final int MAX_CHUNK_BYTES = 1 << 20;
    private static final int MAX_NATIVE_BYTES = 1 << 30;
    /** Of one array: small enough that no collector gives it a region of its own. */
    private static final int ARRAY_BYTES = 64 << 10;
    /** HotSpot aligns what it pushes to the machine word. */
    private static final int WORD = 8;

    /** What all threads are to do next. */
    private static final class Step {
        private final int heapBytes;
        private final int frames;

        private Step(int heapBytes, int frames) {
            this.heapBytes = heapBytes;
            this.frames = frames;
        }
    }

    /** What is held, so that nothing is collected; the threads' arrays are in their own frames. */
    private final List<Object> held = new ArrayList<>();

    private int threads;
    private int frameBytes;
    /** The steps so far; guarded by this. */
    private final List<Step> steps = new ArrayList<>();
    /** How many threads wait for the next step; guarded by this. */
    private int waiting;
    /** What went wrong in a thread; guarded by this. */
    private String failure;

    @Override
    public String name() {
        return "holder";
    }

    @Override
    public String usage() {
        return "THREADS\n"
                + "    THREADS waiting threads; then takes memory as told by lines of standard input, and answers\n"
                + "    \"step NUMBER holds KIND BYTES\"; the lines: heap KB and stacks KB (of every thread),\n"
                + "    direct KB, malloc COUNT BYTES, mapped KB FILE; from a library of the tests, after library FILE,\n"
                + "    map, huge-map, threads, goroutines or jemalloc COUNT BYTES; on JDK 22+ arena COUNT BYTES;\n"
                + "    run it with -Xint";
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length != 1) {
            throw new UsageException("got " + args.length + " arguments: give THREADS");
        }
        threads = Args.number("THREADS", args[0], 1, MAX_THREADS);
        System.out.println("pid " + ProcessId.get());
        frameBytes = frameBytes();
        for (int i = 1; i <= threads; i++) {
            Thread thread = new Thread(this::live, "holder-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        awaitThreads();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int number = 0;
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.trim().split(" +", 3);
            long bytes = take(words);
            System.out.println("step " + ++number + " holds " + words[0] + " " + bytes);
        }
        return 0;
    }

    /** Takes what one line of input says; answers how many bytes that is. */
    private long take(String[] words) throws Exception {
        switch (words[0] + " " + (words.length - 1)) {
            case "heap 1":
                return heap(1024 * Args.number("KB", words[1], 1, MAX_KB / 1024));
            case "stacks 1":
                return stacks(1024 * Args.number("KB", words[1], 1, MAX_KB / 1024));
            case "direct 1":
                return direct(1, Args.number("KB", words[1], 1, MAX_KB / 64) * 1024);
            case "malloc 2":
                return direct(Args.number("COUNT", words[1], 1, MAX_COUNT), Args.number("BYTES", words[2], 1, MAX_CHUNK_BYTES));
            case "mapped 2":
                return mapped(Args.number("KB", words[1], 1, MAX_KB / 64), words[2]);
            case "library 1":
                return NativeMemory.load(words[1]);
            default:
                if (words.length == 3) {
                    return NativeMemory.take(words[0], Args.number("COUNT", words[1], 1, MAX_COUNT),
                            Args.number("BYTES", words[2], 1, MAX_NATIVE_BYTES));
                }
                throw new UsageException("cannot read '" + Args.printable(String.join(" ", words))
                        + "': give heap KB, stacks KB, direct KB, malloc COUNT BYTES, mapped KB FILE, library FILE"
                        + " or a kind of native memory with COUNT BYTES");
        }
    }

    private long heap(int bytes) throws Exception {
        all(new Step(bytes, 0));
        return (long) threads * bytes;
    }

    private long stacks(int bytes) throws Exception {
        int frames = bytes / frameBytes;
        all(new Step(0, frames));
        return (long) threads * frames * frameBytes;
    }

    private long direct(int count, int bytes) {
        ByteBuffer[] buffers = new ByteBuffer[count];
        for (int i = 0; i < count; i++) {
            buffers[i] = ByteBuffer.allocateDirect(bytes); // which writes zeros
        }
        held.add(buffers);
        return (long) count * bytes;
    }

    private long mapped(int kb, String path) throws IOException {
        long bytes = kb * 1024L;
        try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
            ByteBuffer map = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, bytes);
            byte[] block = new byte[1024];
            while (map.hasRemaining()) {
                map.put(block);
            }
            held.add(map);
        }
        return bytes;
    }

    /** Has all threads do a step, and waits until they wait again. */
    private synchronized void all(Step step) throws Exception {
        waiting = 0;
        steps.add(step);
        notifyAll();
        awaitThreads();
    }

    private synchronized void awaitThreads() throws Exception {
        while (waiting < threads && failure == null) {
            wait();
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }

    private void live() {
        try {
            serve(0);
        } catch (StackOverflowError e) {
            fail("the stack of a thread is too small: raise -Xss");
        } catch (OutOfMemoryError e) {
            fail("the Java heap is full: raise -Xmx");
        } catch (InterruptedException e) {
            fail("a thread was interrupted");
        }
    }

    private synchronized void fail(String what) {
        failure = what;
        notifyAll();
    }

    /** Does one step after the other, from the given one on, deeper with each that goes down. Never returns. */
    private int serve(int first) throws InterruptedException {
        List<byte[]> mine = new ArrayList<>();
        for (int next = first; ; next++) {
            Step step = step(next);
            for (int left = step.heapBytes; left > 0; left -= ARRAY_BYTES) {
                mine.add(new byte[Math.min(left, ARRAY_BYTES)]); // which writes zeros
            }
            if (step.frames > 0) {
                return descend(step.frames, next + 1) + mine.size();
            }
        }
    }

    private synchronized Step step(int number) throws InterruptedException {
        waiting++;
        notifyAll();
        while (steps.size() <= number) {
            wait();
        }
        return steps.get(number);
    }

    private int descend(int left, int nextStep) throws InterruptedException {
        fits.set(left);
        if (left == 0) {
            return serve(nextStep);
        }
        return descend(left - 1, nextStep) + 1;
    }

    /** A number that one thread writes and another reads after its end. */
    private static final class Last {
        private int value;

        void set(int value) {
            this.value = value;
        }
    }

    /** Where {@link #descend} is; of use only while one thread alone goes down. */
    private final Last fits = new Last();

    private int frameBytes() throws Exception {
        final int small = 1 << 20;
        final int large = 4 << 20;
        // In this order: glibc keeps the stack of a thread that ended, and gives it to one that asks for less.
        int few = framesIn(small);
        int many = framesIn(large);
        double bytes = (double) (large - small) / (many - few);
        int rounded = (int) Math.round(bytes / WORD) * WORD;
        // A frame more or less of the ten thousands makes a hundredth of a byte.
        if (Math.abs(bytes - rounded) > 0.5) {
            throw new IllegalStateException("frames are not of one size (" + bytes + " bytes in the mean): run it with -Xint");
        }
        System.out.println("frame " + rounded + " bytes");
        return rounded;
    }

    /** How many frames a stack of this size has room for. */
    private int framesIn(int stackBytes) throws InterruptedException {
        int[] frames = new int[1];
        Thread thread = new Thread(null, () -> {
            try {
                descend(Integer.MAX_VALUE, 0);
            } catch (StackOverflowError e) {
                frames[0] = Integer.MAX_VALUE - fits.value;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, "calibration", stackBytes);
        thread.start();
        thread.join();
        return frames[0];
    }
}
