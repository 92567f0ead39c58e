package dev.tare.caches;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CachesTest {
    /** The shares of ranks 1 to n. */
    private static double[] shares(int n, double exponent) {
        double[] shares = new double[n + 1];
        double sum = 0;
        for (int rank = 1; rank <= n; rank++) {
            shares[rank] = Math.pow(rank, -exponent);
            sum += shares[rank];
        }
        for (int rank = 1; rank <= n; rank++) {
            shares[rank] /= sum;
        }
        return shares;
    }

    /** Pearson's chi-square over ranks, those with few expected samples taken together. */
    @ParameterizedTest
    @CsvSource({"1000, 0.99", "110000, 0.99", "1000000, 0.99", "1000, 0.5", "1000, 1.5"})
    void ranksHaveZipfsDistribution(int n, double exponent) {
        int samples = 2_000_000;
        int[] counts = new int[n + 1];
        Zipf zipf = new Zipf(n, exponent, 42);
        for (int i = 0; i < samples; i++) {
            counts[zipf.nextRank()]++;
        }
        double[] shares = shares(n, exponent);
        double chiSquare = 0;
        int cells = 0;
        double expected = 0;
        double found = 0;
        for (int rank = 1; rank <= n; rank++) {
            expected += shares[rank] * samples;
            found += counts[rank];
            if (expected >= 100 || rank == n) {
                chiSquare += (found - expected) * (found - expected) / expected;
                cells++;
                expected = 0;
                found = 0;
            }
        }
        double freedom = cells - 1;
        // Nearly normal with so many cells; beyond four deviations is one in 30 000, and the seed is fixed.
        assertTrue(chiSquare < freedom + 4 * Math.sqrt(2 * freedom), chiSquare + " with " + freedom + " degrees of freedom");
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 1000, 110_000, 1_100_000})
    void everyRankHasItsOwnKey(int n) {
        Zipf zipf = new Zipf(n, 0.99, 1);
        BitSet keys = new BitSet(n);
        for (int rank = 1; rank <= n; rank++) {
            keys.set(zipf.key(rank));
        }
        assertEquals(n, keys.cardinality());
        assertEquals(n, keys.length());
    }

    @Test
    void keysAreANumberOrAShare() {
        assertEquals(110_000, ZipfianSequenceLoading.count("110%", 100_000));
        assertEquals(10_000_000, ZipfianSequenceLoading.count("1000%", 1_000_000));
        assertEquals(5000, ZipfianSequenceLoading.count("5000", 1000));
        assertThrows(NumberFormatException.class, () -> ZipfianSequenceLoading.count("many", 1000));
        assertThrows(ArithmeticException.class, () -> ZipfianSequenceLoading.count("999999%", 1_000_000));
    }

    @Test
    void refusesWhatItCannotSample() {
        assertThrows(IllegalArgumentException.class, () -> new Zipf(0, 0.99, 1));
        assertThrows(IllegalArgumentException.class, () -> new Zipf(10, 1, 1));
        assertThrows(IllegalArgumentException.class, () -> new Zipf(10, Double.NaN, 1));
        assertThrows(IllegalArgumentException.class, () -> Contender.create("none", 1, key -> key));
    }

    /** No cache can hit more often than one that always holds the most frequent keys. */
    @ParameterizedTest
    @ValueSource(strings = {"caffeine", "guava", "cache2k", "ehcache"})
    void readsThroughWithinItsCapacity(String name) {
        int capacity = 2000;
        int keys = 10_000;
        int reads = 400_000;
        double best = 0;
        double[] shares = shares(keys, ZipfianSequenceLoading.EXPONENT);
        for (int rank = 1; rank <= capacity; rank++) {
            best += shares[rank];
        }
        AtomicInteger loads = new AtomicInteger();
        try (Contender cache = Contender.create(name, capacity, key -> {
            loads.incrementAndGet();
            return key;
        })) {
            Zipf zipf = new Zipf(keys, ZipfianSequenceLoading.EXPONENT, 7);
            for (int i = 0; i < reads; i++) {
                Integer key = zipf.next();
                assertEquals(key, cache.get(key));
            }
            assertTrue(cache.size() <= capacity, name + " has " + cache.size() + " entries");
            assertTrue(cache.size() >= 0.9 * capacity, name + " has " + cache.size() + " entries");
            double hits = 1 - loads.get() / (double) reads;
            assertTrue(hits < best + 0.01 && hits > 0.8 * best, name + " hits " + hits + ", at best " + best);
        }
    }
}
