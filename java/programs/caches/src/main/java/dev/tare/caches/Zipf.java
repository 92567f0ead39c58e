package dev.tare.caches;

import java.util.SplittableRandom;

/**
 * Keys from 0 to n - 1 with Zipf's distribution: the k-th most frequent, k from 1, has a frequency proportional to k to
 * the power of -exponent. Which key is how frequent is scattered, so that frequent keys are no neighbours.
 *
 * <p>Sampling is exact, by rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
 * monotone discrete distributions", ACM TOMACS 6(3), 1996.
 */
final class Zipf {
    /** A prime larger than any n: multiples of it modulo n are a permutation. */
    private static final long SCATTER = 2_654_435_761L;

    private final int n;
    private final double exponent;
    private final double integralOfFirst;
    private final double integralOfLast;
    private final double always;
    private final SplittableRandom random;

    /**
     * @param n how many keys, at least 1
     * @param exponent above 0, not 1
     */
    Zipf(int n, double exponent, long seed) {
        if (n < 1 || !(exponent > 0) || exponent == 1) {
            throw new IllegalArgumentException("n = " + n + ", exponent = " + exponent);
        }
        this.n = n;
        this.exponent = exponent;
        integralOfFirst = integral(1.5) - 1;
        integralOfLast = integral(n + 0.5);
        always = 2 - inverse(integral(2.5) - weight(2));
        random = new SplittableRandom(seed);
    }

    /** The next key. */
    int next() {
        return key(nextRank());
    }

    /** The key of a rank from 1. */
    int key(int rank) {
        return (int) (rank * SCATTER % n);
    }

    /** The rank of the next key, from 1, the most frequent. */
    int nextRank() {
        while (true) {
            double u = integralOfLast + random.nextDouble() * (integralOfFirst - integralOfLast);
            double x = inverse(u);
            int rank = (int) Math.min(Math.max(x + 0.5, 1), n);
            if (rank - x <= always || u >= integral(rank + 0.5) - weight(rank)) {
                return rank;
            }
        }
    }

    private double weight(double x) {
        return Math.pow(x, -exponent);
    }

    /** The integral of the weight from 1. */
    private double integral(double x) {
        return (Math.pow(x, 1 - exponent) - 1) / (1 - exponent);
    }

    private double inverse(double integral) {
        return Math.pow(1 + integral * (1 - exponent), 1 / (1 - exponent));
    }
}
