package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OptionsTest {
    @Test
    void defaults() throws UsageException {
        Options options = Options.parse(new String[0], null);
        assertEquals("/127.0.0.1:8080", options.address.toString().replace("localhost", ""));
        assertEquals(16, options.threads);
        assertEquals("H2 in memory", options.database.toString());
        assertEquals("H2 in memory", Options.parse(new String[0], "").database.toString());
    }

    @Test
    void bothWaysOfGivingAValue() throws UsageException {
        Options options = Options.parse(new String[] {"--port=0", "--threads", "2", "--log-level=debug"}, "postgres://u:p@h/d");
        assertEquals(0, options.address.getPort());
        assertEquals(2, options.threads);
        assertEquals("debug", options.logLevel);
        assertEquals("PostgreSQL u@h:5432/d", options.database.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "--port", "--port x", "--port 65536", "--port -1", "--port=", "--threads 0", "--threads 1025", "--keep 0",
        "--host=", "--host no.such.host.invalid", "--log-level loud", "--data /x;y", "--unknown 1", "serve", "--port 1 --port 2"
    })
    void whatIsWrongIsSaidInOneLineWithTheNextStep(String arguments) {
        String message = assertThrows(UsageException.class, () -> Options.parse(arguments.split(" "), null)).getMessage();
        assertTrue(message.matches(".+: .+"), message);
    }

    @Test
    void twoPlacesForTheHistoryAreOneTooMany() {
        assertThrows(UsageException.class, () -> Options.parse(new String[] {"--data", "d"}, "postgres://u:p@h/d"));
    }
}
