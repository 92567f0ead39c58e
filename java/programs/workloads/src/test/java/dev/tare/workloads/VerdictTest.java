package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class VerdictTest {
    private static final String MAIN = "dev.tare.workloads.Main";
    /** Only a failing test waits that long; a service that ran out of memory may never answer. */
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private final HttpClient client = HttpClient.newHttpClient();

    private static JavaProgram verdict(String arguments) {
        return JavaProgram.start(Map.of(), (MAIN + " verdict " + arguments).trim().split(" "));
    }

    private int get(JavaProgram service) throws Exception {
        URI uri = URI.create("http://" + service.await("listening on (127\\.0\\.0\\.1:\\d+)"));
        return client.send(HttpRequest.newBuilder(uri).timeout(PATIENCE).build(), BodyHandlers.ofString()).statusCode();
    }

    @Test
    void okAnswers() throws Exception {
        try (JavaProgram service = verdict("ok 0")) {
            for (int i = 0; i < 50; i++) {
                assertEquals(200, get(service));
            }
            assertEquals("" + service.pid(), service.await("(?m)^pid (\\d+)$"));
            service.terminate();
            assertEquals(128 + 15, service.exitCode());
        }
    }

    @Test
    void nativeLeakGrowsOutsideTheHeap() throws Exception {
        try (JavaProgram service = verdict("native-leak 0 8192")) {
            assertEquals(200, get(service));
            long before = service.anonymousKib();
            for (int i = 0; i < 12; i++) {
                assertEquals(200, get(service));
            }
            // More than the whole Java heap may take: it cannot be there.
            long grown = service.anonymousKib() - before;
            assertTrue(grown > 80 * 1024, grown + " KiB");
            // And no more than was asked for, apart from what a young JVM grows by itself.
            assertTrue(grown < 160 * 1024, grown + " KiB");
        }
    }

    @Test
    void lateFillNeedsNothingBefore() throws Exception {
        long[] now = {1};
        LateFill fill = new LateFill(2, () -> now[0]);
        for (int i = 0; i < 1000; i++) {
            fill.request(); // 8 GiB, if it kept them
        }
        now[0] += 2_000_000_000L;
        fill.request();
        assertEquals(8 << 20, fill.keptBytes());
    }

    @Test
    void childLeakIsInAnotherProcess() throws Exception {
        try (JavaProgram service = verdict("child-leak 0 65536")) {
            assertEquals(200, get(service));
            long before = service.anonymousKib();
            for (int i = 0; i < 3; i++) {
                assertEquals(200, get(service));
            }
            assertTrue(service.anonymousKib() - before < 64 * 1024, "the memory is in the parent");
            service.terminate(); // and its child with it
            assertEquals(128 + 15, service.exitCode());
        }
        try (JavaProgram service = verdict("child-thrash 0 20 64")) {
            assertEquals(200, get(service));
        }
    }

    @Test
    void spinnersAndLocksServe() throws Exception {
        try (JavaProgram spin = verdict("spin 0 1"); JavaProgram lock = verdict("lock 0 1"); JavaProgram work = verdict("work 0 1");
                JavaProgram peak = verdict("start-peak 0 32")) {
            for (JavaProgram service : new JavaProgram[] {spin, lock, work, peak}) {
                assertEquals(200, get(service));
            }
        }
    }

    @Test
    void nativeLeakForgetsNothing() {
        NativeLeak leak = new NativeLeak(1000);
        leak.request();
        leak.request();
        // 4 deflaters a request, each fed with more than a window of 32 KiB.
        assertEquals(8 * 80 * 1024, leak.inputBytes());
    }

    @Test
    void heapLeakEndsInOutOfMemory() throws Exception {
        try (JavaProgram service = verdict("heap-leak 0 4096")) {
            assertThrows(Exception.class, () -> {
                for (int i = 0; i < 100; i++) {
                    if (get(service) != 200) {
                        throw new IOException("failed, as it should");
                    }
                }
            });
            assertTrue(service.isAlive());
            ProcessHandle.of(service.pid()).orElseThrow().destroyForcibly();
            service.exitCode();
            assertTrue(service.errors().contains("java.lang.OutOfMemoryError: Java heap space"), service.errors());
        }
    }

    @Test
    void heapLeakKeepsWhatItSays() {
        HeapLeak leak = new HeapLeak(100);
        leak.request();
        leak.request();
        // Whole pieces of 64 KiB.
        assertEquals(2 * 128 * 1024, leak.keptBytes());
    }

    @Test
    void thrashSpendsItsTimeCollecting() throws Exception {
        try (JavaProgram service = verdict("thrash 0 90 1000")) {
            service.await("listening on (127\\.0\\.0\\.1:\\d+)");
            long before = collectorNanos(service.pid());
            long started = System.nanoTime();
            for (int i = 0; i < 60; i++) {
                assertEquals(200, get(service));
            }
            long took = System.nanoTime() - started; // what jcmd takes to tell is not the service's
            double share = (double) (collectorNanos(service.pid()) - before) / took;
            assertTrue(share > 0.5, "GC share " + share);
            service.terminate();
            assertEquals(128 + 15, service.exitCode());
            assertEquals("", service.errors());
        }
    }

    /** All collectors' time so far, from the JVM's own counters. */
    private static long collectorNanos(long pid) throws Exception {
        Process jcmd = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "jcmd").toString(),
                "" + pid, "PerfCounter.print").redirectErrorStream(true).start();
        String counters = new String(jcmd.getInputStream().readAllBytes());
        assertEquals(0, jcmd.waitFor(), counters);
        return counters.lines().filter(line -> line.matches("sun\\.gc\\.collector\\.\\d+\\.time=\\d+"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf('=') + 1))).sum();
    }

    @Test
    void thrashKeepsItsLiveSet() {
        Thrash thrash = new Thrash(10, 100);
        thrash.prepare();
        thrash.request();
        long used = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
        assertTrue(used > Runtime.getRuntime().maxMemory() / 100 * 9, used + " bytes used");
        // Every chain is 0 + 1 + ... + 4095.
        assertEquals(0, thrash.checksum() % (4095L * 4096 / 2));
        assertTrue(thrash.checksum() > 0);
    }

    @Test
    void neverReadyOpensNoPort() throws Exception {
        try (JavaProgram service = verdict("never-ready 0")) {
            service.await("not listening");
            assertTrue(service.isAlive());
            service.terminate();
            assertEquals(128 + 15, service.exitCode());
        }
    }

    @Test
    void crashEndsWithItsExitCode() throws Exception {
        try (JavaProgram atOnce = verdict("crash 0 0"); JavaProgram atThird = verdict("crash 0 3")) {
            assertEquals(7, atOnce.exitCode());
            assertEquals("fatal: crashed at start, by design\n", atOnce.errors());
            assertEquals(200, get(atThird));
            assertEquals(200, get(atThird));
            assertThrows(IOException.class, () -> get(atThird));
            assertEquals(7, atThird.exitCode());
            assertEquals("fatal: crashed at request 3, by design\n", atThird.errors());
        }
    }

    @Test
    void slowTakesAtLeastItsTime() throws Exception {
        try (JavaProgram service = verdict("slow 0 300")) {
            service.await("listening on");
            long started = System.nanoTime();
            assertEquals(200, get(service));
            assertTrue(System.nanoTime() - started >= 300_000_000L);
        }
    }

    @Test
    void errorsFailTheirShareEvenly() throws Exception {
        try (JavaProgram service = verdict("errors 0 40")) {
            int[] wanted = {200, 200, 503, 200, 503, 200, 200, 503, 200, 503};
            for (int status : wanted) {
                assertEquals(status, get(service));
            }
        }
    }

    @Test
    void reclaimLeavesNoFile() throws Exception {
        Reclaim reclaim = new Reclaim(8);
        reclaim.prepare();
        for (int i = 0; i < 100; i++) {
            reclaim.request();
        }
        String maps = new String(Files.readAllBytes(Path.of("/proc/self/maps")));
        assertTrue(maps.lines().anyMatch(line -> line.contains("/reclaim") && line.endsWith(".pages (deleted)")), maps);
    }

    @Test
    void slowLeakGoesByTime() {
        AtomicLong now = new AtomicLong(1);
        SlowLeak leak = new SlowLeak(1024, now::get);
        leak.request();
        assertEquals(0, leak.leakedKb());
        now.addAndGet(2_000_000_000L);
        leak.request();
        leak.request();
        assertEquals(8 * NativeLeak.DEFLATER_KB, leak.leakedKb());
    }

    @Test
    void aPortInUseIsSaidWithTheNextStep() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, java.net.InetAddress.getByName("127.0.0.1"));
                JavaProgram service = verdict("ok " + taken.getLocalPort())) {
            assertEquals(1, service.exitCode());
            assertTrue(service.errors().matches("verdict: port \\d+ cannot be had .*: stop what listens there or .*\n"),
                    service.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "ok", "ok x", "ok 65536", "ok 0 1", "okay 0", "heap-leak 0", "heap-leak 0 0", "thrash 0 100 1", "thrash 0 90",
        "slow 0 -1", "crash 0 1e3", "errors 0 0", "reclaim 0 2048", "slow-leak 0"
    })
    void unusableArgumentsAreSaidInOneLine(String arguments) throws Exception {
        try (JavaProgram service = verdict(arguments)) {
            assertEquals(2, service.exitCode());
            assertTrue(service.errors().matches("verdict: [^\n]+\n"), service.errors());
            assertEquals("", service.output());
        }
    }
}
