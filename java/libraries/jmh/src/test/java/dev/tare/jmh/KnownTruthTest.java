package dev.tare.jmh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.openjdk.jmh.results.Result;

/**
 * Each metric against what a benchmark is known to hold: on each JDK and each collector once at least, and with
 * {@code -Dtare.truth.all=true} on all pairs of them. {@code -Dtare.truth.out=FILE} writes the errors as lines of a table.
 */
class KnownTruthTest {
    private static final double MIB = 1 << 20;
    private static final String OUT = System.getProperty("tare.truth.out", "");
    private static final List<String> ALL = Arrays.asList(
            "8 Serial", "8 Parallel", "8 ConcMarkSweep", "8 G1",
            "11 Serial", "11 Parallel", "11 ConcMarkSweep", "11 G1", "11 Shenandoah", "11 Z",
            "17 Serial", "17 Parallel", "17 G1", "17 Shenandoah", "17 Z",
            "21 Serial", "21 Parallel", "21 G1", "21 Shenandoah", "21 Z", "21 Z -XX:+ZGenerational",
            "25 Serial", "25 Parallel", "25 G1", "25 Shenandoah", "25 Z");
    private static final List<String> SOME = Arrays.asList(
            "8 ConcMarkSweep", "8 Parallel", "11 Z", "11 G1", "17 Shenandoah", "17 Serial", "21 Z -XX:+ZGenerational",
            "25 Shenandoah", "25 Z");

    static Stream<String> jvms() {
        return (Boolean.getBoolean("tare.truth.all") ? ALL : SOME).stream();
    }

    /**
     * What is counted as in use of regions that are open for objects to come: of most collectors one. ZGC counts whole
     * pages. A medium one is 32 MiB: on JDK 11 always (ZPageSizeMediumShift of zGlobals.hpp), later in a heap of 1 GiB
     * or more (set_medium_page_size of zHeuristics.cpp). Small ones are 2 MiB, and one is open for each processor, and
     * while objects are moved another for each worker (zObjectAllocator.cpp).
     */
    private static double openMib(String collector) {
        return collector.startsWith("Z") ? 32 + 2 * 2 * Runtime.getRuntime().availableProcessors() : 1;
    }

    @BeforeAll
    static void startTable() throws IOException {
        if (!OUT.isEmpty()) {
            Files.write(Paths.get(OUT), new byte[0]);
        }
    }

    private static void record(int major, String collector, double retained, double peak, double extra) throws IOException {
        if (!OUT.isEmpty()) {
            String line = String.format(Locale.ROOT, "| %d | %s | %+.3f %% | %+.2f %% | %+.2f MiB | %.0f MiB |%n", major, collector,
                    retained, peak, extra, openMib(collector));
            Files.write(Paths.get(OUT), line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.APPEND);
        }
    }

    @ParameterizedTest
    @MethodSource("jvms")
    void metricsAreTrue(String jvm) throws Exception {
        int major = Integer.parseInt(jvm.substring(0, jvm.indexOf(' ')));
        String collector = jvm.substring(jvm.indexOf(' ') + 1);
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(major, "-XX:+UnlockExperimentalVMOptions",
                "-XX:NativeMemoryTracking=summary", collector.startsWith("Z") ? "-Xmx1g" : "-Xmx768m").collector(collector).profilers(RetainedMemory.class, PeakMemory.class,
                ProcessMemory.class, NativeMemory.class, ObjectGraph.class);
        Map<String, Result<?>> found = run.results();
        double held = KnownTruth.HELD_BYTES / MIB;
        double released = KnownTruth.RELEASED_BYTES / MIB;

        // What lives besides is the JVM's and JMH's own: its exact size is known by the histogram alone.
        double live = score("mem.heap.live", found);
        double truth = live + released;
        double peak = score("mem.peak.used.heap", found);
        record(major, collector, 100 * (score("mem.retained", found) / held - 1), 100 * (peak / truth - 1), peak - truth);
        within(held, 0.005 * held, "mem.retained", found);
        within(truth, Math.max(0.02 * truth, openMib(collector)), "mem.peak.used.heap", found);
        within(live, Math.max(0.02 * live, openMib(collector)), "mem.heap.settled", found);
        if (run.output().contains("JOL takes an array of")) {
            // It guesses the layout from addresses, which say little where generational ZGC colours them.
            assertTrue(collector.startsWith("Z") && major >= 21, run.output());
        } else {
            within(held, 0.005 * held, "graph.KnownTruth.held", found);
            assertEquals(KnownTruth.HELD_CHUNKS + 1, score("graph.KnownTruth.held.objects", found));
            assertEquals(0, score("graph.KnownTruth.nothing", found));
        }
        assertTrue(score("mem.peak.collections", found) >= 1, run.output());
        assertTrue(score("mem.used.fin", found) >= score("mem.used.settled", found), run.output());
        assertTrue(score("mem.alloc.norm", found) >= KnownTruth.RELEASED_BYTES, run.output());
        assertTrue(score("nmt.Total", found) > held, run.output());
        assertTrue(score("proc.rss.peak", found) >= score("proc.rss", found), run.output());
        assertTrue(score("proc.hwm", found) > held + released, run.output());
        assertTrue(score("proc.anonymous", found) + score("proc.file", found) > held, run.output());
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
