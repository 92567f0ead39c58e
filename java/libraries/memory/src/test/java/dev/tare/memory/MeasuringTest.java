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
        assertTrue(memory.rounds > Settling.STEADY_ROUNDS && memory.rounds <= 20, "" + memory.rounds);
        assertEquals(1, Settling.await(1, 0).rounds);
    }

    @Test
    void settledSeesWhatIsHeld() throws UnavailableException {
        long before = Settling.await(20, 1).settled.heapUsed;
        byte[] held = new byte[16 << 20];
        long with = Settling.await(20, 1).settled.heapUsed;
        assertEquals(held.length, with - before, 1.5 * (1 << 20));
    }

    /**
     * Serial, which these tests run on, leaves what died before what lives as dead wood in three of four collections: it
     * must not count, whichever collection comes first.
     */
    @Test
    void settledIsWithoutDeadWood() throws UnavailableException {
        long before = Settling.await(20, 1).settled.heapUsed;
        for (int phase = 0; phase < 5; phase++) {
            byte[][] dead = chunks(6);
            Settling.collect();
            byte[][] held = chunks(60);
            Settling.collect();
            assertEquals(6, dead.length);
            dead = null;
            long with = Settling.await(20, 1).settled.heapUsed;
            assertEquals(60 << 20, with - before, 1 << 20, "phase " + phase);
            assertEquals(60, held.length);
            held = null;
            Settling.await(4 + phase, 1);
        }
    }

    private static byte[][] chunks(int megabytes) {
        byte[][] chunks = new byte[megabytes][];
        for (int i = 0; i < megabytes; i++) {
            chunks[i] = new byte[1 << 20];
        }
        return chunks;
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
