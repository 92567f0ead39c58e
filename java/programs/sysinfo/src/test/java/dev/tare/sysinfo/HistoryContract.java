package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** What a history promises, whatever the database. */
abstract class HistoryContract {
    /** The same database every time within one test class. */
    abstract Database database() throws Exception;

    @Test
    void whatIsSavedIsLoaded() throws Exception {
        try (History history = History.open(database(), 1000)) {
            String stat = "{\"text\":\"quote ' dollar $1 \\\\ \u00e9\"}";
            long id = history.save(stat);
            assertTrue(id > 0);
            assertNotEquals(id, history.save("{}"));
            History.Entry entry = history.load(id);
            assertEquals(id, entry.id);
            assertEquals(stat, entry.stat);
            assertTrue(Duration.between(entry.time, Instant.now()).abs().toHours() < 1, entry.time + " is not now");
            assertNull(history.load(Long.MAX_VALUE / 10));
        }
    }

    @Test
    void onlyTheNewestAreKept() throws Exception {
        try (History history = History.open(database(), 3)) {
            List<Long> ids = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                ids.add(history.save("{\"i\":" + i + "}"));
            }
            assertNull(history.load(ids.get(0)));
            assertNull(history.load(ids.get(1)));
            assertNotNull(history.load(ids.get(2)));
            assertNotNull(history.load(ids.get(4)));
        }
    }

    @Test
    void manyAtOnce() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        try (History history = History.open(database(), 100_000)) {
            List<Future<Long>> saved = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                saved.add(threads.submit(() -> history.save("{}")));
            }
            Set<Long> ids = new HashSet<>();
            for (Future<Long> one : saved) {
                ids.add(one.get());
            }
            assertEquals(200, ids.size());
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void itIsUsableUntilItIsClosed() throws Exception {
        History history = History.open(database(), 10);
        assertTrue(history.usable());
        history.close();
        assertFalse(history.usable());
    }
}
