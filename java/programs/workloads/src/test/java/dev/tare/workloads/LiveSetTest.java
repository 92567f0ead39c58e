package dev.tare.workloads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LiveSetTest {
    private static JavaProgram start(String... arguments) {
        String[] all = new String[arguments.length + 3];
        all[0] = "-Xmx64m";
        all[1] = "dev.tare.workloads.Main";
        all[2] = "live-set";
        System.arraycopy(arguments, 0, all, 3, arguments.length);
        return JavaProgram.start(Map.of(), all);
    }

    private static int get(String port) throws Exception {
        HttpURLConnection c = (HttpURLConnection) new URI("http://127.0.0.1:" + port + "/").toURL().openConnection();
        return c.getResponseCode();
    }

    /** 100 requests allocate 400 MiB in a heap of 64, of which 40 MiB were kept for a while. */
    @Test
    void keepsItsSizeUnderLoad() throws Exception {
        try (JavaProgram service = start("0", "20000", "4096")) {
            String port = service.await("listening on 127\\.0\\.0\\.1:(\\d+)");
            for (int i = 0; i < 100; i++) {
                assertEquals(200, get(port));
            }
            assertTrue(service.isAlive());
        }
    }

    @Test
    void aLiveSetThatDoesNotFitIsSaidInOneLine() throws Exception {
        try (JavaProgram service = start("0", "100000", "1")) {
            assertEquals(1, service.exitCode());
            assertEquals("live-set: 100000 KiB do not fit the heap: raise -Xmx or lower LIVE_KB\n", service.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "0", "0 1", "0 0 1", "0 1 x", "70000 1 1", "0 1 1 1"})
    void unusableArgumentsAreRefused(String arguments) throws Exception {
        try (JavaProgram service = start(arguments.isEmpty() ? new String[0] : arguments.split(" "))) {
            assertEquals(2, service.exitCode());
            assertTrue(service.errors().startsWith("live-set: "), service.errors());
        }
    }
}
