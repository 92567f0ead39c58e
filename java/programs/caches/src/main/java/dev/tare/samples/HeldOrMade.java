package dev.tare.samples;

import dev.tare.jmh.DeepSize;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * How much memory does a map of 100 000 numbers take? Run both with {@code -prof dev.tare.jmh.RetainedMemory} and look at
 * {@code mem.retained}.
 */
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(3)
@Warmup(iterations = 1)
@Measurement(iterations = 3)
public class HeldOrMade {
    private static final int ENTRIES = 100_000;

    private static Map<Integer, Integer> fill() {
        Map<Integer, Integer> map = new HashMap<>();
        for (int i = 0; i < ENTRIES; i++) {
            map.put(i, i);
        }
        return map;
    }

    /** Wrong: when the iteration ends and memory is measured, nothing refers to the map any more. */
    @Benchmark
    public Map<Integer, Integer> wrongMadeInTheMethod() {
        return fill();
    }

    /** A state that lives from iteration to iteration. */
    @State(Scope.Benchmark)
    public static class Held {
        @DeepSize
        Map<Integer, Integer> map;

        /** Fills the map once. */
        @Setup
        public void hold() {
            map = fill();
        }
    }

    /** Right: the state holds it. */
    @Benchmark
    public int rightHeldByAState(Held held) {
        return held.map.size();
    }
}
