package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.sql.SQLException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

/** The history's promises, kept by each real database. */
class HistoryTest {
    @Nested
    class InMemory extends HistoryContract {
        @Override
        Database database() {
            return Database.inMemory();
        }
    }

    @Nested
    class InFolder extends HistoryContract {
        @TempDir
        private Path folder;

        @Override
        Database database() throws UsageException {
            return Database.inFolder(folder.resolve("new"));
        }

        @Test
        void itOutlivesTheProcess() throws Exception {
            long id;
            try (History history = History.open(database(), 10)) {
                id = history.save("{\"old\":true}");
            }
            try (History history = History.open(database(), 10)) {
                assertEquals("{\"old\":true}", history.load(id).stat);
            }
        }
    }

    @Nested
    @TestInstance(TestInstance.Lifecycle.PER_CLASS)
    class Postgres extends HistoryContract {
        private PostgresCluster cluster;

        @BeforeAll
        void startServer() throws Exception {
            cluster = PostgresCluster.start();
        }

        @AfterAll
        void stopServer() {
            cluster.close();
        }

        @Override
        Database database() throws UsageException {
            return Database.postgres(cluster.url());
        }

        @Test
        void theWrongPasswordIsAnError() throws Exception {
            Database wrong = Database.postgres("postgres://tare:wrong@127.0.0.1:" + cluster.port() + "/postgres");
            assertThrows(SQLException.class, () -> History.open(wrong, 10));
        }
    }
}
