package dev.tare.jmh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.runner.IterationType;
import org.openjdk.jmh.runner.options.TimeValue;

/** What cannot be had is absent, with one warning in each JVM, and the benchmark goes on. */
class AbsenceTest {
    private static int count(String text, String output) {
        int n = 0;
        for (Matcher matcher = Pattern.compile(Pattern.quote(text)).matcher(output); matcher.find(); ) {
            n++;
        }
        return n;
    }

    private static boolean any(String prefix, Map<String, Result<?>> found) {
        return found.keySet().stream().anyMatch(label -> label.startsWith(prefix));
    }

    @Test
    void withoutCollectionsTrackingOrTare() throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(17, "-XX:+UnlockExperimentalVMOptions", "-Xmx1g")
                .collector("Epsilon").profilers(RetainedMemory.class, PeakMemory.class, NativeMemory.class)
                .profiler(Footprint.class, "tare=/nonexistent/tare");
        Map<String, Result<?>> found = run.results();
        for (String prefix : new String[] {"mem.used", "mem.heap", "mem.retained", "mem.peak.used", "nmt.", "footprint."}) {
            assertFalse(any(prefix, found), prefix + " in " + new TreeMap<>(found));
        }
        assertTrue(any("mem.alloc.norm", found), run.output());
        assertEquals(1, count("# tare: RetainedMemory: System.gc() does not collect", run.output()), run.output());
        assertEquals(1, count("# tare: RetainedMemory: the Epsilon collector never collects", run.output()), run.output());
        assertEquals(1, count("# tare: NativeMemory: no native memory tracking", run.output()), run.output());
        assertEquals(1, count("# tare: Footprint: tare cannot be run", run.output()), run.output());
    }

    @Test
    void withCollectionsOnDemandDisabled() throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(8, "-XX:+DisableExplicitGC").collector("Serial")
                .profilers(RetainedMemory.class).forks(2);
        Map<String, Result<?>> found = run.results();
        assertFalse(any("mem.used", found), "" + found);
        double held = KnownTruth.HELD_BYTES / 1048576.0;
        assertEquals(held, found.get("mem.retained").getScore(), 0.005 * held, "the histogram collects nevertheless");
        assertEquals(2, found.get("mem.retained").getSampleCount(), "one in each fork: the last iteration does not count");
        assertEquals(2, count("System.gc() does not collect", run.output()), run.output());
    }

    /** Then nothing is collected at the end of an iteration, but what was collected in it was seen. */
    @Test
    void peaksWithoutCollectionsOnDemand() throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(17, "-XX:+DisableExplicitGC", "-Xmn16m").collector("Serial")
                .profilers(PeakMemory.class);
        Map<String, Result<?>> found = run.results();
        assertTrue(found.get("mem.peak.used.heap").getScore() > KnownTruth.HELD_BYTES / 1048576.0, run.output());
        assertTrue(found.get("mem.peak.collections").getScore() > 0, run.output());
        assertEquals(1, count("System.gc() does not collect", run.output()), run.output());
    }

    @Test
    void withoutAnyCollection() throws Exception {
        ForkedRun run = ForkedRun.of("ownState").jvm(17, "-XX:+DisableExplicitGC", "-Xmn512m").collector("Serial").profilers(PeakMemory.class);
        assertFalse(any("mem.peak.used", run.results()), run.output());
        assertEquals(0, count("which is a bug", run.output()), run.output());
    }

    @Test
    void withCollectionsOnDemandThatAreConcurrent() throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(17, "-XX:+ExplicitGCInvokesConcurrent").collector("G1")
                .profilers(RetainedMemory.class);
        Map<String, Result<?>> found = run.results();
        assertFalse(any("mem.used", found), "" + found);
        assertTrue(any("mem.retained", found), run.output());
        assertEquals(1, count("leave out -XX:+ExplicitGCInvokesConcurrent", run.output()), run.output());
    }

    /** JMH 1.37 makes no two of one class, but makes new ones where it does not fork. */
    @Test
    void ofTwoProfilersTheLaterCounts() throws Exception {
        IterationParams iteration = new IterationParams(IterationType.WARMUP, 1, TimeValue.seconds(1), 1);
        ObjectGraph first = new ObjectGraph("");
        ObjectGraph second = new ObjectGraph("");
        first.beforeIteration(null, iteration);
        second.beforeIteration(null, iteration);
        assertNotNull(second.afterIteration(null, iteration, null));
        assertEquals(Collections.emptyList(), first.afterIteration(null, iteration, null));
    }

    /** Two runs of the same differ by some 20 KiB, for what is allocated is counted by thread-local buffers. */
    @Test
    void profilersDoNotCountAsAllocation() throws Exception {
        double alone = allocated(ForkedRun.of("whileAProfilerAllocates").jvm(17).profilers(RetainedMemory.class));
        double beside = allocated(ForkedRun.of("whileAProfilerAllocates").jvm(17)
                .profilers(RetainedMemory.class, AllocatingProfiler.class));
        assertEquals(alone, beside, AllocatingProfiler.BYTES / 8);
    }

    /** The thread that samples counts what it allocates; how much that is depends on the JDK. */
    @Test
    void theSamplerCountsWhatItAllocates() throws Exception {
        ProcessMemory profiler = new ProcessMemory("sample=10");
        IterationParams iteration = new IterationParams(IterationType.WARMUP, 1, TimeValue.seconds(1), 1);
        profiler.beforeIteration(null, iteration);
        try {
            assertTimeoutPreemptively(Duration.ofMinutes(1), () -> {
                while (profiler.allocatedBytes() == 0) {
                    Thread.yield();
                }
            });
        } finally {
            profiler.afterIteration(null, iteration, null);
        }
    }

    private static double allocated(ForkedRun run) throws Exception {
        return run.results().get("mem.alloc.norm").getScore();
    }

    @Test
    void withoutTheModuleForManagement() throws Exception {
        ForkedRun run = ForkedRun.of("holdAcrossACollection")
                .jvm(17, "--limit-modules=java.base,java.management,java.logging,jdk.unsupported").collector("Serial")
                .profilers(RetainedMemory.class, PeakMemory.class, NativeMemory.class);
        Map<String, Result<?>> found = run.results();
        for (String prefix : new String[] {"mem.used", "mem.heap", "mem.retained", "mem.peak.used", "mem.alloc", "nmt."}) {
            assertFalse(any(prefix, found), prefix + " in " + new TreeMap<>(found));
        }
        for (String profiler : new String[] {"RetainedMemory", "PeakMemory"}) {
            assertEquals(1, count("# tare: " + profiler + ": this JVM lacks classes", run.output()), run.output());
        }
        assertEquals(1, count("# tare: NativeMemory: the diagnostic command vmNativeMemory cannot be had", run.output()), run.output());
        assertTrue(run.output().contains("Run complete"), run.output());
    }

    @Test
    void stateOfAThreadCannotBeReached() throws Exception {
        ForkedRun run = ForkedRun.of("ownState").profilers(ObjectGraph.class);
        Map<String, Result<?>> found = run.results();
        assertTrue(any("graph.KnownTruth.held", found), "" + found);
        assertFalse(any("graph.PerThread", found), "" + found);
        assertEquals(1, count("graph.PerThread.own cannot be reached: make it static", run.output()), run.output());
    }

    /** From JDK 24 on the JVM warns of what JMH and JOL ask of sun.misc.Unsafe, JEP 498. */
    @Test
    void graphOnTheLatestJdk() throws Exception {
        ForkedRun run = ForkedRun.of("ownState").jvm(27, "--sun-misc-unsafe-memory-access=allow").profilers(ObjectGraph.class);
        assertEquals(KnownTruth.HELD_CHUNKS + 1, run.results().get("graph.KnownTruth.held.objects").getScore());
    }

    @Test
    void footprintAddsUp() throws Exception {
        Path tare = Paths.get("../../../bin/tare").toAbsolutePath().normalize();
        assertTrue(Files.isExecutable(tare), tare + " is missing: run make build");
        ForkedRun run = ForkedRun.of("holdAcrossACollection").jvm(21).profiler(Footprint.class, "tare=" + tare);
        Map<String, Result<?>> found = run.results();
        double rss = 0;
        for (Map.Entry<String, Result<?>> row : found.entrySet()) {
            rss += row.getKey().startsWith("footprint.") && !row.getKey().equals("footprint.rss") ? row.getValue().getScore() : 0;
        }
        assertEquals(found.get("footprint.rss").getScore(), rss, 1e-6, run.output());
        assertTrue(found.get("footprint.java-heap").getScore() > KnownTruth.HELD_BYTES / 1048576.0, run.output());
    }
}
