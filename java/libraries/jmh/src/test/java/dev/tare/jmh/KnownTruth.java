package dev.tare.jmh;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** A benchmark that holds so many bytes, and so many more across a collection, which it then releases. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(1)
@Warmup(iterations = 0)
@Measurement(iterations = 2)
public class KnownTruth {
    static final int CHUNK = 65_536;
    static final int HELD_CHUNKS = 4800;
    static final int RELEASED_CHUNKS = 640;
    static final long HELD_BYTES = (long) HELD_CHUNKS * CHUNK;
    static final long RELEASED_BYTES = (long) RELEASED_CHUNKS * CHUNK;

    @DeepSize
    byte[][] held;
    @DeepSize
    static Object nothing;
    volatile byte[][] released;

    /** An array takes its length and 16 bytes, without compressed class pointers 24: no difference to what is tested. */
    static byte[][] chunks(int number) {
        byte[][] chunks = new byte[number][];
        for (int i = 0; i < number; i++) {
            chunks[i] = new byte[CHUNK - 16];
        }
        return chunks;
    }

    @Setup(Level.Trial)
    public void hold() {
        held = chunks(HELD_CHUNKS);
    }

    @Benchmark
    public int holdAcrossACollection() {
        released = chunks(RELEASED_CHUNKS);
        System.gc();
        int length = released.length;
        released = null;
        return length;
    }

    /** A thread's own state, which no profiler can reach. */
    @State(Scope.Thread)
    public static class PerThread {
        @DeepSize
        Object own = new Object();
    }

    @Benchmark
    public Object ownState(PerThread state) {
        return state.own;
    }

    /** Allocates nothing itself. */
    @Benchmark
    public void whileAProfilerAllocates() throws InterruptedException {
        AllocatingProfiler.letAllocate();
    }
}
