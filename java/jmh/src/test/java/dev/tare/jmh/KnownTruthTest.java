package dev.tare.jmh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.openjdk.jmh.results.Result;

/** Each metric against what a benchmark is known to hold, on every supported kind of JVM. */
class KnownTruthTest {
    private static final double MIB = 1 << 20;
    /** The largest region of the collectors here, ZGC's small page. */
    private static final double REGION_MIB = 2;

    @ParameterizedTest
    @CsvSource({
        "8, Serial", "8, Parallel", "8, ConcMarkSweep", "8, G1",
        "11, Serial", "11, Parallel", "11, ConcMarkSweep", "11, G1", "11, Shenandoah", "11, Z",
        "17, Serial", "17, Parallel", "17, G1", "17, Shenandoah", "17, Z",
        "21, Serial", "21, Parallel", "21, G1", "21, Shenandoah", "21, Z", "21, Z -XX:+ZGenerational",
        "25, Serial", "25, Parallel", "25, G1", "25, Shenandoah", "25, Z",
    })
    void metricsAreTrue(int major, String collector) throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(major, "-XX:+UnlockExperimentalVMOptions",
                "-XX:NativeMemoryTracking=summary").collector(collector).profilers(RetainedMemory.class, PeakMemory.class,
                ProcessMemory.class, NativeMemory.class, ObjectGraph.class);
        Map<String, Result<?>> found = run.results();
        double held = KnownTruth.HELD_BYTES / MIB;
        double released = KnownTruth.RELEASED_BYTES / MIB;

        within(held, 0.005 * held, "mem.retained", found);
        if (run.output().contains("JOL takes an array of")) {
            assertEquals("Z -XX:+ZGenerational", collector, run.output());
        } else {
            within(held, 0.005 * held, "graph.KnownTruth.held", found);
            assertEquals(KnownTruth.HELD_CHUNKS + 1, score("graph.KnownTruth.held.objects", found));
            assertEquals(0, score("graph.KnownTruth.nothing", found));
        }
        double peak = score("mem.heap.settled", found) + released;
        // ZGC counts whole pages, and leaves pages with little garbage as they are: one collection frees less than several.
        double share = collector.startsWith("Z") ? 0.03 : 0.02;
        within(peak, Math.max(share * peak, REGION_MIB), "mem.peak.used.heap", found);
        assertTrue(score("mem.peak.collections", found) >= 1, run.output());
        assertTrue(score("mem.used.fin", found) >= score("mem.used.settled", found), run.output());
        assertTrue(score("mem.alloc.norm", found) >= KnownTruth.RELEASED_BYTES, run.output());
        assertTrue(score("nmt.Total", found) > held, run.output());
        assertTrue(score("proc.rss.peak", found) >= score("proc.rss", found), run.output());
        assertTrue(score("proc.hwm", found) > held + released, run.output());
        assertTrue(score("proc.anonymous", found) + score("proc.file", found) > held, run.output());
        System.out.printf("%d %s: retained %+.3f %%, peak %+.3f %%%n", major, collector,
                100 * (score("mem.retained", found) / held - 1), 100 * (score("mem.peak.used.heap", found) / peak - 1));
    }

    private static double score(String label, Map<String, Result<?>> found) {
        Result<?> result = found.get(label);
        assertTrue(result != null, label + " is not in " + found.keySet());
        return result.getScore();
    }

    private static void within(double truth, double tolerance, String label, Map<String, Result<?>> found) {
        assertEquals(truth, score(label, found), tolerance, () -> label + " of " + new TreeMap<>(found));
    }
}
