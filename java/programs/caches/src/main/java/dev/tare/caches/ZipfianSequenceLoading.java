package dev.tare.caches;

import dev.tare.jmh.DeepSize;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Threads;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;

/**
 * Reads through a cache with keys of Zipf's distribution over more keys than it holds. A miss costs a fixed amount of
 * work. Values are the keys themselves, so what is held is keys and the cache's own structures.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(5)
@Warmup(iterations = 2, time = 20)
@Measurement(iterations = 3, time = 20)
@Threads(4)
public class ZipfianSequenceLoading {
    /** The exponent of YCSB's workloads. */
    static final double EXPONENT = 0.99;
    private static final int MISS_TOKENS = 1000;

    @Param({"caffeine", "guava", "cache2k", "ehcache"})
    public String cache;
    @Param({"100000", "1000000"})
    public int entries;
    /** How many keys there are: a number, or with % behind it a share of the entries. */
    @Param({"110%", "500%", "1000%"})
    public String keys;

    @DeepSize
    private Contender contender;
    private final AtomicInteger threads = new AtomicInteger();

    /** Loads so far; kept beyond the last iteration for {@link CacheStatistics}. */
    static final LongAdder LOADS = new LongAdder();
    /** The cache in use, or the last one. */
    static volatile Contender current;

    /** Makes the cache, and fills it. */
    @Setup(Level.Trial)
    public void fill() {
        LOADS.reset();
        contender = Contender.create(cache, entries, key -> {
            LOADS.increment();
            Blackhole.consumeCPU(MISS_TOKENS);
            return key;
        });
        current = contender;
        for (int key = 0; key < entries; key++) {
            contender.get(key);
        }
    }

    /** Leaves the cache's entries to {@link CacheStatistics}, which JMH asks after this. */
    @TearDown(Level.Trial)
    public void drop() {
        contender = null;
    }

    /** The keys of one thread. */
    @State(Scope.Thread)
    public static class Sequence {
        private Zipf keys;

        /** Seeds by the number of the thread: the same in every run. */
        @Setup(Level.Trial)
        public void seed(ZipfianSequenceLoading benchmark) {
            keys = new Zipf(count(benchmark.keys, benchmark.entries), EXPONENT, benchmark.threads.incrementAndGet());
        }
    }

    static int count(String keys, int entries) {
        if (!keys.endsWith("%")) {
            return Integer.parseInt(keys);
        }
        return Math.toIntExact((long) entries * Integer.parseInt(keys.substring(0, keys.length() - 1)) / 100);
    }

    @Benchmark
    public Integer read(Sequence sequence) {
        return contender.get(sequence.keys.next());
    }
}
