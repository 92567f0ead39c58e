package dev.tare.jmh;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.memory.UnavailableException;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.openjdk.jmh.profile.Profiler;
import org.openjdk.jmh.profile.ProfilerException;
import org.openjdk.jmh.results.Result;

/** The readers, on recorded and on hostile input. */
class ReadingTest {
    @TempDir
    Path root;

    private void put(String path, String text) throws IOException {
        Path file = root.resolve(path);
        Files.createDirectories(file.getParent());
        Files.write(file, text.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> labels(List<MemoryResult> results) {
        List<String> labels = new ArrayList<>();
        results.forEach(result -> labels.add(result.getLabel()));
        return labels;
    }

    @Test
    void nothingIsMeasuredWithoutProc() throws Exception {
        ProcessMemory profiler = new ProcessMemory(new KernelFiles(root), "");
        List<MemoryResult> results = new ArrayList<>();
        profiler.prepare();
        profiler.start();
        profiler.end();
        profiler.report(null, results);
        profiler.reportState(null, results);
        assertEquals(Collections.emptyList(), labels(results));
    }

    @Test
    void processMemoryOfAVersion2Group() throws Exception {
        put("proc/self/cgroup", "0::/app\n");
        put("proc/self/status", "Name:\tjava\nVmHWM:\t    2048 kB\n");
        put("proc/self/clear_refs", "");
        put("proc/self/smaps_rollup", "00400000-7fff Rss\nRss:  3072 kB\nPss:   2560 kB\nAnonymous: 1024 kB\n");
        put("sys/fs/cgroup/app/memory.peak", "4194304\n");
        ProcessMemory profiler = new ProcessMemory(new KernelFiles(root), "sample=10");
        List<MemoryResult> results = new ArrayList<>();
        profiler.prepare();
        profiler.start();
        assertEquals("5", new KernelFiles(root).text("/proc/self/clear_refs"));
        put("sys/fs/cgroup/app/memory.peak", "4194304\n"); // a kernel answers what was written with the peak
        profiler.end();
        profiler.report(null, results);
        profiler.reportState(null, results);
        Map<String, Double> found = new HashMap<>();
        results.forEach(result -> found.put(result.getLabel(), result.getScore()));
        Map<String, Double> wanted = new HashMap<>();
        wanted.put("proc.hwm", 2.0);
        wanted.put("cgroup.peak", 4.0);
        wanted.put("proc.rss", 3.0);
        wanted.put("proc.rss.peak", 3.0);
        wanted.put("proc.pss", 2.5);
        wanted.put("proc.anonymous", 1.0);
        wanted.put("proc.file", 2.0);
        assertEquals(wanted, found);
    }

    @Test
    void aVersion1GroupKeepsItsPeak() throws Exception {
        put("proc/self/cgroup", "4:memory:/docker/abc\n0::/\n");
        put("sys/fs/cgroup/memory/memory.max_usage_in_bytes", "123\n");
        CgroupPeak peak = CgroupPeak.find(new KernelFiles(root));
        assertFalse(peak.reset());
        assertEquals(123, peak.bytes());
        put("proc/self/cgroup", "4:memory:/../../etc\n");
        put("sys/fs/cgroup/memory/memory.max_usage_in_bytes", "many\n");
        assertThrows(UnavailableException.class, () -> CgroupPeak.find(new KernelFiles(root)).bytes());
        put("proc/self/cgroup", "1:cpu:/\n");
        assertThrows(UnavailableException.class, () -> CgroupPeak.find(new KernelFiles(root)));
    }

    @Test
    void aPeakThatCannotBeResetLeavesNothingOpen() throws Exception {
        put("proc/self/cgroup", "0::/\n");
        Files.createDirectories(root.resolve("sys/fs/cgroup"));
        Files.createSymbolicLink(root.resolve("sys/fs/cgroup/memory.peak"), Paths.get("/dev/full")); // refuses every write
        CgroupPeak peak = CgroupPeak.find(new KernelFiles(root));
        int before = new File("/proc/self/fd").list().length;
        for (int i = 0; i < 100; i++) {
            assertFalse(peak.reset());
        }
        int open = new File("/proc/self/fd").list().length - before;
        assertTrue(open < 50, open + " descriptors more are open");
    }

    @Test
    void aTareThatHangsIsEnded() throws Exception {
        put("tare", "#!/bin/sh\necho '{'\nexec sleep 600\n");
        assertTrue(root.resolve("tare").toFile().setExecutable(true));
        Footprint profiler = new Footprint("tare=" + root.resolve("tare") + ";timeout=1");
        UnavailableException e = assertThrows(UnavailableException.class,
                () -> assertTimeoutPreemptively(Duration.ofSeconds(60), () -> profiler.reportState(null, new ArrayList<>())));
        assertEquals("tare weigh did not end within 1 s", e.getMessage());
    }

    @Test
    void warningsThatDifferInNumbersAreSaidOnce() throws Exception {
        PrintStream out = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, "UTF-8"));
        try {
            ObjectGraph profiler = new ObjectGraph();
            profiler.warn("a test missed 12 bytes");
            profiler.warn("a test missed 345 bytes");
            profiler.warn("a test missed everything");
        } finally {
            System.setOut(out);
        }
        assertEquals("# tare: ObjectGraph: a test missed 12 bytes\n# tare: ObjectGraph: a test missed everything\n", said.toString("UTF-8"));
    }

    @Test
    void nmtSummariesOfAllFormats() throws UnavailableException {
        Map<String, Long> old = NmtSummary.parse("\nNative Memory Tracking:\n\nTotal: reserved=1621008KB, committed=91920KB\n"
                + "-                 Java Heap (reserved=262144KB, committed=32768KB)\n"
                + "                            (mmap: reserved=262144KB, committed=32768KB) \n");
        assertEquals(new TreeSet<>(Arrays.asList("Total", "Java Heap")), new TreeSet<>(old.keySet()));
        assertEquals(32768L << 10, old.get("Java Heap"));
        Map<String, Long> recent = NmtSummary.parse("(Omitting categories weighting less than 1KB)\n"
                + "Total: reserved=1727992KB, committed=120004KB\n       malloc: 29724KB #5279, peak=35778KB #5311\n"
                + "-      Native Memory Tracking (reserved=3KB, committed=2KB)\n");
        assertEquals(2048L, recent.get("Native Memory Tracking"));
        UnavailableException off = assertThrows(UnavailableException.class,
                () -> NmtSummary.parse("Native memory tracking is not enabled"));
        assertTrue(off.getMessage().contains("-XX:NativeMemoryTracking=summary"), off.getMessage());
    }

    @Test
    void footprintsMustAddUp() throws UnavailableException {
        Map<String, Long> owners = new HashMap<>();
        String rows = "\"sources\":[{\"name\":\"vmStructs\",\"error\":null}],\"rows\":[{\"owner\":\"malloc\",\"residentBytes\":3},"
                + "{\"owner\":\"gc\",\"residentBytes\":4}]}";
        assertEquals(7, Footprint.read("{\"schema\":\"tare.footprint/1\",\"rssBytes\":7," + rows, owners));
        assertEquals(3L, owners.get("malloc"));
        String closed = "{\"schema\":\"tare.footprint/1\",\"rssBytes\":7,\"sources\":[{\"name\":\"vmStructs\",\"error\":\"EACCES\"}]}";
        assertTrue(assertThrows(UnavailableException.class, () -> Footprint.read(closed, owners)).getMessage()
                .contains("ptrace_scope"));
        for (String wrong : new String[] {
            "", "[]", "{\"schema\":\"tare.footprint/2\"}", "{\"schema\":\"tare.footprint/1\",\"rssBytes\":8," + rows,
            "{\"schema\":\"tare.footprint/1\",\"rssBytes\":\"7\"," + rows,
        }) {
            assertThrows(UnavailableException.class, () -> Footprint.read(wrong, owners), wrong);
        }
    }

    @Test
    void json() {
        Map<?, ?> object = (Map<?, ?>) Json.parse(" {\"a\":[1,-2.5e3,true,null,\"\\u00e4\\n\"], \"b\":{}} ");
        assertEquals(Arrays.asList(1L, -2500.0, true, null, "ä\n"), object.get("a"));
        assertEquals(Collections.emptyMap(), object.get("b"));
        assertNull(Json.parse("null"));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "{", "[1,]", "{\"a\":1,\"a\":2}", "01", "1 2", "\"\\x\"", "\"\\u00g0\"", "nul", "{1:2}", "[1", "\"a\nb\"", "-", "+1",
    })
    void whatIsNoJsonIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void jsonIsNotNestedWithoutEnd() {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(String.join("", Collections.nCopies(100_000, "["))));
    }

    @Test
    void peaksAggregateToTheLargestOthersToTheMean() {
        assertEquals(3.0, aggregate(MemoryResult.peak("p", 3 << 20), MemoryResult.peak("p", 1 << 20)).getScore());
        assertEquals(2.0, aggregate(MemoryResult.size("s", 3 << 20), MemoryResult.size("s", 1 << 20)).getScore());
        assertEquals("mem.class.a.B-array-array", MemoryResult.size("mem.class.a.B[][]", 0).getLabel());
        assertEquals("a_b___", MemoryResult.size("a,b;<\"", 0).getLabel());
    }

    private static Result<?> aggregate(MemoryResult... results) {
        return results[0].getIterationAggregator().aggregate(Arrays.asList(results));
    }

    @Test
    void profilersAreFoundAndRefuseUnknownOptions() throws Exception {
        List<String> found = new ArrayList<>();
        for (Profiler profiler : ServiceLoader.load(Profiler.class)) {
            if (profiler instanceof MemoryProfiler) {
                found.add(profiler.getClass().getSimpleName());
                ProfilerException e = null;
                try {
                    profiler.getClass().getConstructor(String.class).newInstance("bogus=1");
                } catch (java.lang.reflect.InvocationTargetException wrapped) {
                    e = (ProfilerException) wrapped.getCause();
                }
                assertTrue(e != null && e.getMessage().contains("'bogus=1' is not an option"), profiler + ": " + e);
            }
        }
        assertEquals(Arrays.asList("RetainedMemory", "PeakMemory", "ProcessMemory", "NativeMemory", "Footprint", "ObjectGraph"), found);
        for (String wrong : new String[] {"rounds=0", "rounds=x", "pause=-1", "rounds", "rounds=1;rounds=2"}) {
            assertThrows(ProfilerException.class, () -> new RetainedMemory(wrong), wrong);
        }
        assertThrows(ProfilerException.class, () -> new ProcessMemory("sample=5"));
    }
}
