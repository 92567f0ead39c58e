package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The real server on a free port, with a real database. */
class ServiceTest {
    private static final List<String> SUMMARY = List.of("process-id", "jvm-nonheap-kib", "jvm-heap", "cpu-seconds",
            "linux-mem-available", "process-rss-kib");

    private static final int THREADS = 4;

    private final HttpClient client = HttpClient.newHttpClient();
    private Service service;
    private History history;

    @BeforeEach
    void start() throws Exception {
        service = Service.start(new SystemInfo(new ProcFs(Path.of("/"))), new InetSocketAddress("127.0.0.1", 0), THREADS);
        history = History.open(Database.inMemory(), 1000);
        service.use(history);
    }

    @AfterEach
    void stop() throws Exception {
        service.stop();
        history.close();
    }

    private HttpRequest request(String method, String target) {
        URI uri = URI.create("http://127.0.0.1:" + service.address().getPort() + target);
        return HttpRequest.newBuilder(uri).method(method, HttpRequest.BodyPublishers.noBody()).build();
    }

    private HttpResponse<String> send(String method, String target) throws Exception {
        return client.send(request(method, target), HttpResponse.BodyHandlers.ofString());
    }

    private static JsonNode json(HttpResponse<String> response) throws Exception {
        assertEquals("application/json", response.headers().firstValue("Content-Type").orElse(""));
        return new ObjectMapper().readTree(response.body());
    }

    private JsonNode get(String target) throws Exception {
        HttpResponse<String> response = send("GET", target);
        assertEquals(200, response.statusCode(), response.body());
        return json(response);
    }

    private static List<String> names(JsonNode node) {
        List<String> names = new ArrayList<>();
        node.fieldNames().forEachRemaining(names::add);
        return names;
    }

    @Test
    void health() throws Exception {
        assertEquals("{\"status\":\"up\"}\n", send("GET", "/health").body());
    }

    @Test
    void withoutADatabaseItIsNotUp() throws Exception {
        service.use(null);
        HttpResponse<String> health = send("GET", "/health");
        assertEquals(503, health.statusCode());
        assertEquals("starting", json(health).get("status").asText());
        assertEquals(503, send("PUT", "/sys-stat").statusCode());
        assertEquals(503, send("GET", "/sys-stat/1").statusCode());
        assertEquals(200, send("GET", "/sys-summary").statusCode());
        service.use(history);
        history.close();
        assertEquals("down", json(send("GET", "/health")).get("status").asText());
        assertEquals(503, send("PUT", "/sys-stat").statusCode());
    }

    @Test
    void summary() throws Exception {
        JsonNode summary = get("/sys-summary");
        assertEquals(SUMMARY, names(summary));
        assertEquals(ProcessHandle.current().pid(), summary.get("process-id").asLong());
        assertEquals(List.of("size-kib", "used-kib", "utilization"), names(summary.get("jvm-heap")));
        long size = summary.get("jvm-heap").get("size-kib").asLong();
        long used = summary.get("jvm-heap").get("used-kib").asLong();
        assertEquals(100.0 * used / size, summary.get("jvm-heap").get("utilization").asDouble(), 0.1);
        assertTrue(summary.get("jvm-nonheap-kib").asLong() > 1000);
        assertTrue(summary.get("cpu-seconds").asDouble() > 0);
        assertTrue(summary.get("linux-mem-available").isIntegralNumber());
        assertTrue(summary.get("process-rss-kib").asLong() > used, summary.toString());
    }

    @Test
    void stat() throws Exception {
        JsonNode stat = get("/sys-stat");
        assertEquals(List.of("heap", "meminfo", "process", "runtime", "cgroup"), names(stat));
        assertEquals(List.of("gc", "heap-usage", "nonheap-usage", "pool"), names(stat.get("heap")));
        assertTrue(stat.get("heap").get("pool").has("metaspace"), stat.toString());
        stat.get("heap").get("gc").forEach(collector -> assertEquals(List.of("count", "time"), names(collector)));
        assertTrue(stat.get("meminfo").get("mem-total").asLong() > stat.get("meminfo").get("mem-free").asLong());
        assertTrue(stat.get("process").get("time").asDouble() >= stat.get("process").get("user").asDouble());
        assertEquals(Runtime.getRuntime().maxMemory(), stat.get("runtime").get("max-memory").asLong());
        assertEquals(List.of("version", "path", "limit-bytes", "usage-bytes"), names(stat.get("cgroup")));
    }

    @Test
    void whatIsPutIsReadBack() throws Exception {
        HttpResponse<String> put = send("PUT", "/sys-stat");
        assertEquals(201, put.statusCode());
        long id = json(put).get("id").asLong();
        assertEquals("/sys-stat/" + id, put.headers().firstValue("Location").orElse(""));
        JsonNode entry = get("/sys-stat/" + id);
        assertEquals(List.of("id", "stat_time", "stat"), names(entry));
        assertEquals(id, entry.get("id").asLong());
        assertEquals(ProcessHandle.current().pid(), entry.get("stat").get("process").get("pid").asLong());
    }

    @Test
    void work() throws Exception {
        assertEquals(300, get("/work?alloc-kib=300&hold-ms=1&cpu-us=100").get("touched-kib").asLong());
        assertEquals(0, get("/work").get("touched-kib").asLong());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "/work?alloc-kib=-1", "/work?alloc-kib=4194305", "/work?hold-ms=60001", "/work?cpu-us=x", "/work?what=1",
        "/sys-stat/x", "/sys-stat/-1", "/sys-stat/9999999999999999999"
    })
    void nonsenseIs400(String target) throws Exception {
        HttpResponse<String> response = send("GET", target);
        assertEquals(400, response.statusCode());
        assertTrue(json(response).get("error").asText().matches(".+"), response.body());
    }

    @Test
    void moreThanTheHeapFailsAndTheServiceGoesOn() throws Exception {
        HttpResponse<String> response = send("GET", "/work?alloc-kib=4194304");
        assertEquals(500, response.statusCode());
        assertTrue(json(response).get("error").asText().startsWith("out of memory"), response.body());
        assertEquals(200, send("GET", "/health").statusCode());
    }

    @ParameterizedTest
    @ValueSource(strings = {"/", "/nothing", "/sys-stat/", "/sys-stat/1/2", "/health/", "/sys-stat/123456789"})
    void whatIsNotThereIs404(String target) throws Exception {
        HttpResponse<String> response = send("GET", target);
        assertEquals(404, response.statusCode());
        assertTrue(json(response).has("error"));
    }

    @ParameterizedTest
    @CsvSource({
        "POST, /sys-summary, 'GET, HEAD'", "DELETE, /sys-stat, 'GET, HEAD, PUT'", "PUT, /sys-stat/1, 'GET, HEAD'",
        "PUT, /work, 'GET, HEAD'"
    })
    void theWrongMethodIs405(String method, String target, String allowed) throws Exception {
        HttpResponse<String> response = send(method, target);
        assertEquals(405, response.statusCode());
        assertEquals(allowed, response.headers().firstValue("Allow").orElse(""));
    }

    @ParameterizedTest
    @CsvSource({"/health, 200", "/sys-stat, 200", "/sys-stat/x, 400", "/nothing, 404"})
    void headIsGetWithoutTheBody(String target, int status) throws Exception {
        HttpResponse<String> head = send("HEAD", target);
        assertEquals(status, head.statusCode());
        assertEquals("", head.body());
        assertEquals("application/json", head.headers().firstValue("Content-Type").orElse(""));
        assertTrue(head.headers().firstValueAsLong("Content-Length").orElse(0) > 10, head.headers().toString());
    }

    /** As many clients as there are threads begin a request and never end it. */
    @Test
    void stalledClientsLoseTheirConnections() throws Exception {
        List<Socket> stalled = new ArrayList<>();
        try {
            for (int i = 0; i < THREADS; i++) {
                Socket socket = new Socket(service.address().getAddress(), service.address().getPort());
                stalled.add(socket);
                socket.getOutputStream().write("GET /health HTTP/1.1\r\nHost: a\r\n".getBytes(StandardCharsets.US_ASCII));
            }
            HttpRequest health = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + service.address().getPort() + "/health"))
                    .timeout(Duration.ofSeconds(60)).build();
            assertEquals(200, client.send(health, HttpResponse.BodyHandlers.ofString()).statusCode());
        } finally {
            for (Socket socket : stalled) {
                socket.close();
            }
        }
    }

    @Test
    void moreRequestsThanThreadsAllGetTheirAnswer() throws Exception {
        List<CompletableFuture<HttpResponse<String>>> all = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            all.add(client.sendAsync(request("GET", "/work?alloc-kib=100&hold-ms=2"), HttpResponse.BodyHandlers.ofString()));
        }
        for (CompletableFuture<HttpResponse<String>> one : all) {
            assertEquals(200, one.get().statusCode());
        }
    }
}
