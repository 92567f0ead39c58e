package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tare.testing.JavaProgram;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The whole service as a process of its own. */
class MainTest {
    private static final String MAIN = "dev.tare.sysinfo.Main";
    private static final int SIGTERM_EXIT = 128 + 15;

    private final HttpClient client = HttpClient.newHttpClient();

    private String send(JavaProgram service, String method, String target) throws Exception {
        service.await("history in ");
        String address = service.await("listening on (127\\.0\\.0\\.1:\\d+)");
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address + target))
                .method(method, HttpRequest.BodyPublishers.noBody()).build();
        return client.send(request, BodyHandlers.ofString()).body();
    }

    private static JavaProgram start(String... arguments) {
        return JavaProgram.start(Map.of(), arguments);
    }

    @Test
    void startsAnswersAndStops() throws Exception {
        try (JavaProgram service = start(MAIN, "--port", "0")) {
            assertEquals("{\"status\":\"up\"}\n", send(service, "GET", "/health"));
            service.terminate();
            assertEquals(SIGTERM_EXIT, service.exitCode());
            assertEquals("", service.errors());
            assertTrue(service.output().contains("stopping"), service.output());
            assertFalse(service.output().contains("/health"), "requests are logged at debug only");
        }
    }

    @Test
    void aRunningRequestDoesNotKeepItFromStopping() throws Exception {
        try (JavaProgram service = start(MAIN, "--port", "0", "--log-level", "debug")) {
            send(service, "GET", "/health");
            String address = service.await("listening on (127\\.0\\.0\\.1:\\d+)");
            var slow = client.sendAsync(HttpRequest.newBuilder(URI.create("http://" + address + "/work?hold-ms=60000")).build(),
                    BodyHandlers.discarding());
            service.await("GET /health 200");
            service.terminate();
            assertEquals(SIGTERM_EXIT, service.exitCode());
            slow.handle((response, failure) -> null).join();
        }
    }

    @Test
    void theFolderKeepsTheHistory(@TempDir Path folder) throws Exception {
        String[] arguments = {MAIN, "--port=0", "--data=" + folder};
        try (JavaProgram service = start(arguments)) {
            assertEquals("{\"id\":1}\n", send(service, "PUT", "/sys-stat"));
            try (JavaProgram second = start(arguments)) {
                assertEquals(1, second.exitCode());
                assertTrue(second.errors().matches("sysinfo: cannot use the database, H2 in .*\n"), second.errors());
            }
            service.terminate();
            service.exitCode();
        }
        try (JavaProgram service = start(arguments)) {
            assertTrue(send(service, "GET", "/sys-stat/1").startsWith("{\"id\":1,\"stat_time\":\""));
        }
    }

    @Test
    void postgresKeepsTheHistoryAndNobodySeesThePassword() throws Exception {
        try (PostgresCluster cluster = PostgresCluster.start()) {
            Map<String, String> environment = Map.of("DATABASE_URL", cluster.url());
            try (JavaProgram service = JavaProgram.start(environment, MAIN, "--port=0", "--log-level=debug")) {
                assertEquals("{\"id\":1}\n", send(service, "PUT", "/sys-stat"));
                service.terminate();
                assertEquals(SIGTERM_EXIT, service.exitCode());
                assertFalse(service.output().contains("p@ss"), service.output());
                assertFalse(service.output().contains("p%40ss"), service.output());
            }
            try (JavaProgram service = JavaProgram.start(environment, MAIN, "--port=0")) {
                assertTrue(send(service, "GET", "/sys-stat/1").startsWith("{\"id\":1,"));
            }
            Map<String, String> wrong = Map.of("DATABASE_URL", "postgres://tare:hunter2@127.0.0.1:" + cluster.port() + "/postgres");
            try (JavaProgram service = JavaProgram.start(wrong, MAIN, "--port=0")) {
                assertEquals(1, service.exitCode());
                assertTrue(service.errors().startsWith("sysinfo: cannot use the database, PostgreSQL tare@127.0.0.1:"), service.errors());
                assertEquals(1, service.errors().lines().count(), service.errors());
                assertFalse((service.output() + service.errors()).contains("hunter2"), service.output());
            }
        }
    }

    /** A server that took connections and answers no more. */
    @Test
    void withTheDatabaseGoneHealthSaysSoSoon() throws Exception {
        try (PostgresCluster cluster = PostgresCluster.start();
                JavaProgram service = JavaProgram.start(Map.of("DATABASE_URL", cluster.url()), MAIN, "--port=0")) {
            assertEquals("{\"status\":\"up\"}\n", send(service, "GET", "/health"));
            cluster.pause();
            String address = service.await("listening on (127\\.0\\.0\\.1:\\d+)");
            for (int i = 0; i < 3; i++) {
                HttpRequest health = HttpRequest.newBuilder(URI.create("http://" + address + "/health"))
                        .timeout(Duration.ofSeconds(3)).build(); // a connection is waited for 5 s
                assertEquals("{\"status\":\"down\"}\n", client.send(health, BodyHandlers.ofString()).body());
            }
        }
    }

    @Test
    void aDatabaseWithoutADriverEndsIt() throws Exception {
        Map<String, String> environment = Map.of("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/a");
        String classes = Stream.of(System.getProperty("java.class.path").split(":")).filter(jar -> !jar.contains("/postgresql-"))
                .collect(Collectors.joining(":"));
        try (JavaProgram service = JavaProgram.start(environment, "-cp", classes, MAIN, "--port=0")) {
            assertEquals(1, service.exitCode(), service.output());
            assertTrue(service.errors().matches("sysinfo: cannot use the database, PostgreSQL .*: check .*\n"), service.errors());
            assertFalse((service.output() + service.errors()).contains("hunter2"), service.errors());
        }
    }

    @Test
    void aPortInUseIsSaidWithTheNextStep() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
                JavaProgram service = start(MAIN, "--port", "" + taken.getLocalPort())) {
            assertEquals(1, service.exitCode());
            assertEquals("sysinfo: port " + taken.getLocalPort() + " is in use: stop what listens there or pass --port\n",
                    service.errors());
        }
    }

    @Test
    void unusableOptionsAreSaidInOneLine() throws Exception {
        try (JavaProgram service = start(MAIN, "--port", "many");
                JavaProgram url = JavaProgram.start(Map.of("DATABASE_URL", "mysql://u:hunter2@h/d"), MAIN);
                JavaProgram help = start(MAIN, "--help")) {
            assertEquals(2, service.exitCode());
            assertEquals("sysinfo: --port is 'many': give a whole number from 0 to 65535\n", service.errors());
            assertEquals(2, url.exitCode());
            assertFalse(url.errors().contains("hunter2"), url.errors());
            assertEquals(0, help.exitCode());
            assertTrue(help.output().startsWith("usage: "), help.output());
        }
    }
}
