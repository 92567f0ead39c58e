package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WorkTest {
    private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 63, 64, 65, 5000})
    void allocatesAndTouchesWhatWasAsked(long kib) throws InterruptedException {
        Work.parse("alloc-kib=1").run();
        long before = threads.getCurrentThreadAllocatedBytes();
        assertEquals(kib, Work.parse("alloc-kib=" + kib).run().get("touched-kib"));
        long bytes = threads.getCurrentThreadAllocatedBytes() - before;
        assertTrue(bytes >= kib * 1024 && bytes < kib * 1024 + 64 * 1024, kib + " KiB took " + bytes + " bytes");
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 65, 5000})
    void allocatesDirectBuffersBesideTheHeap(long kib) throws InterruptedException {
        Work.parse("direct-kib=1").run();
        long before = threads.getCurrentThreadAllocatedBytes();
        assertEquals(kib + 3, Work.parse("alloc-kib=3&direct-kib=" + kib).run().get("touched-kib"));
        long bytes = threads.getCurrentThreadAllocatedBytes() - before;
        assertTrue(bytes < 1024 * 1024, kib + " KiB took " + bytes + " bytes of the heap");
    }

    @Test
    void burnsTheCpuTimeOfItsThread() throws InterruptedException {
        long before = threads.getCurrentThreadCpuTime();
        Work.parse("cpu-us=50000").run();
        assertTrue(threads.getCurrentThreadCpuTime() - before >= 50_000_000);
    }

    @Test
    void holdsAtLeastThatLong() throws InterruptedException {
        long before = System.nanoTime();
        Work.parse("alloc-kib=1&hold-ms=100").run();
        assertTrue(System.nanoTime() - before >= 100_000_000);
    }

    @Test
    void whatIsMissingIsZero() {
        assertEquals(0, Work.parse(null).allocKib);
        assertEquals(0, Work.parse("").holdMs);
        Work most = Work.parse("cpu-us=60000000&hold-ms=60000&alloc-kib=4194304&direct-kib=4194304");
        assertEquals(Work.MAX_ALLOC_KIB, most.allocKib);
        assertEquals(Work.MAX_ALLOC_KIB, most.directKib);
        assertEquals(Work.MAX_HOLD_MS, most.holdMs);
        assertEquals(Work.MAX_CPU_US, most.cpuUs);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "alloc-kib", "alloc-kib=", "alloc-kib=-1", "alloc-kib=1.5", "alloc-kib=4194305", "alloc-kib=99999999999999999999",
        "direct-kib=4194305", "hold-ms=60001", "cpu-us=60000001", "cpu-us=x", "cpu-us=%31", "alloc-kib=1&alloc-kib=1", "size=1", "&", "alloc-kib=1&",
        "=1", "alloc-kib=\u0661"
    })
    void nonsenseIsRefusedInOneLine(String query) {
        String message = assertThrows(IllegalArgumentException.class, () -> Work.parse(query)).getMessage();
        assertTrue(message.matches(".+"), message);
    }
}
