package dev.tare.caches;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.ScalarResult;

/**
 * How well a cache did in an iteration: {@code cache.hit.rate} in percent, {@code cache.evictions} and
 * {@code cache.entries}. All are counted from outside, because a cache's own statistics cost memory and time: what was
 * loaded and is no longer there was evicted.
 */
public final class CacheStatistics implements InternalProfiler {
    private long loadsBefore;
    private long entriesBefore;

    @Override
    public String getDescription() {
        return "Hit rate, evictions and entries of the cache";
    }

    @Override
    public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
        loadsBefore = ZipfianSequenceLoading.LOADS.sum();
        Contender cache = ZipfianSequenceLoading.current;
        entriesBefore = cache == null ? 0 : cache.size();
    }

    @Override
    public Collection<ScalarResult> afterIteration(BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
        List<ScalarResult> results = new ArrayList<>();
        Contender cache = ZipfianSequenceLoading.current;
        long reads = result.getMetadata().getAllOps();
        if (cache == null || reads == 0 || loadsBefore == 0) {
            return results; // the iteration that filled the cache says nothing of it
        }
        long loads = ZipfianSequenceLoading.LOADS.sum() - loadsBefore;
        long entries = cache.size();
        results.add(new ScalarResult("cache.hit.rate", 100.0 * (reads - loads) / reads, "%", AggregationPolicy.AVG));
        results.add(new ScalarResult("cache.evictions", loads - (entries - entriesBefore), "entries", AggregationPolicy.AVG));
        results.add(new ScalarResult("cache.entries", entries, "entries", AggregationPolicy.AVG));
        return results;
    }
}
