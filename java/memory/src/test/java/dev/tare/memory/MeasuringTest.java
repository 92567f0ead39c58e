package dev.tare.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.MemoryUsage;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class MeasuringTest {
    private static volatile Object escape;

    @Test
    void settledIsNotAboveFirst() throws UnavailableException {
        Settling memory = Settling.await(20, 1);
        assertTrue(memory.settled.used() <= memory.first.used());
        assertTrue(memory.rounds >= 3 && memory.rounds <= 20, "" + memory.rounds);
        assertEquals(1, Settling.await(1, 0).rounds);
    }

    @Test
    void settledSeesWhatIsHeld() throws UnavailableException {
        long before = Settling.await(20, 1).settled.heapUsed;
        byte[] held = new byte[16 << 20];
        long with = Settling.await(20, 1).settled.heapUsed;
        assertEquals(held.length, with - before, 1.5 * (1 << 20));
    }

    @Test
    void classSpaceIsCountedOnce() {
        Map<String, MemoryUsage> pools = new HashMap<>();
        pools.put("Metaspace", new MemoryUsage(0, 50, 60, -1));
        pools.put("Compressed Class Space", new MemoryUsage(0, 5, 6, 1024));
        pools.put("CodeCache", new MemoryUsage(0, 7, 8, 1024));
        pools.put("Eden Space", new MemoryUsage(0, 100, 200, 1024));
        Usage usage = Usage.of(pools, Collections.singleton("Eden Space"));
        assertEquals(57, usage.nonHeapUsed);
        assertEquals(68, usage.nonHeapCommitted);
        assertEquals(157, usage.used());
        assertEquals(268, usage.committed());
    }

    @Test
    void allocationOfAnotherThreadIsCounted() throws Exception {
        Allocation before = Allocation.now();
        Thread thread = new Thread(() -> {
            for (int i = 0; i < 1000; i++) {
                escape = new byte[100_000];
            }
            synchronized (this) {
                notifyAll();
                try {
                    wait(60_000); // a thread that has ended is not asked before JDK 21
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        });
        synchronized (this) {
            thread.start();
            wait(60_000);
        }
        long allocated = Allocation.now().since(before);
        thread.interrupt();
        thread.join();
        assertEquals(100_000_000, allocated, 5_000_000);
    }

    @Test
    void anUnknownCommandIsUnavailable() {
        UnavailableException e = assertThrows(UnavailableException.class, () -> DiagnosticCommand.run("noSuchCommand"));
        assertTrue(e.getMessage().contains("noSuchCommand"), e.getMessage());
    }
}
