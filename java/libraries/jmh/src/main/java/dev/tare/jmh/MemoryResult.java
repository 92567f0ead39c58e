package dev.tare.jmh;

import java.util.Collection;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.Aggregator;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ResultRole;
import org.openjdk.jmh.util.ListStatistics;
import org.openjdk.jmh.util.SingletonStatistics;
import org.openjdk.jmh.util.Statistics;

/**
 * One memory metric. Other than JMH's ScalarResult it has no "zero result": an iteration that could not measure does
 * not count as one that measured zero.
 */
final class MemoryResult extends Result<MemoryResult> {
    private static final long serialVersionUID = 1L;
    private static final double BYTES_PER_MIB = 1 << 20;

    private MemoryResult(String label, Statistics values, String unit, AggregationPolicy policy) {
        super(ResultRole.SECONDARY, label, values, unit, policy);
    }

    /** A size; the mean of several iterations and forks. */
    static MemoryResult size(String label, long bytes) {
        return of(label, bytes / BYTES_PER_MIB, "MiB", AggregationPolicy.AVG);
    }

    /** A largest size; the largest of several iterations and forks. */
    static MemoryResult peak(String label, long bytes) {
        return of(label, bytes / BYTES_PER_MIB, "MiB", AggregationPolicy.MAX);
    }

    /** Any other mean. */
    static MemoryResult mean(String label, double value, String unit) {
        return of(label, value, unit, AggregationPolicy.AVG);
    }

    private static MemoryResult of(String label, double value, String unit, AggregationPolicy policy) {
        return new MemoryResult(safe(label), new SingletonStatistics(value), unit, policy);
    }

    /** JMH writes labels into JSON as they are, and lays out brackets, braces and commas in them anew. */
    private static String safe(String label) {
        return label.replace("[]", "-array").replaceAll("[^A-Za-z0-9.$_/:+-]", "_");
    }

    @Override
    protected Aggregator<MemoryResult> getThreadAggregator() {
        return this::aggregate;
    }

    @Override
    protected Aggregator<MemoryResult> getIterationAggregator() {
        return this::aggregate;
    }

    /** Results of the same label. */
    private MemoryResult aggregate(Collection<MemoryResult> results) {
        ListStatistics values = new ListStatistics();
        for (MemoryResult result : results) {
            values.addValue(result.getScore());
        }
        return new MemoryResult(label, values, unit, policy);
    }
}
