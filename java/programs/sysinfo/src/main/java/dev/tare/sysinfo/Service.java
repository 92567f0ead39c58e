package dev.tare.sysinfo;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The HTTP side: routes, answers in JSON, errors as {@code {"error": one line}}. */
final class Service {
    private static final Logger LOG = LoggerFactory.getLogger(Service.class);
    private static final Logger ACCESS = LoggerFactory.getLogger("dev.tare.sysinfo.access");
    private static final Pattern STAT_ID = Pattern.compile("/sys-stat/([^/]+)");
    private static final int MAX_REQUEST_SECONDS = 10;
    private static final int MAX_ANSWER_SECONDS = 300;
    /** How long running requests may take to end once the service stops. */
    private static final long STOP_PATIENCE_MS = 500;

    private final SystemInfo info;
    private final HttpServer server;
    private final ExecutorService threads;
    private final AtomicInteger running = new AtomicInteger();
    private volatile boolean stopping;
    /** Null until the database is usable. */
    private volatile History history;

    private Service(SystemInfo info, HttpServer server, ExecutorService threads) {
        this.info = info;
        this.server = server;
        this.threads = threads;
    }

    /**
     * Listens and answers; what needs the history answers 503 until {@link #use} gives it.
     *
     * @throws java.net.BindException when the address cannot be had
     */
    static Service start(SystemInfo info, InetSocketAddress address, int threadCount) throws IOException {
        // Without it the answer's second packet waits for the client's delayed acknowledgement, 40 ms. The server
        // reads the property once, when its first class is loaded.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        // A request that is not there in full by then loses its connection, which would hold a thread. So does one
        // whose answer is not: /work takes two minutes at most.
        System.setProperty("sun.net.httpserver.maxReqTime", Integer.toString(MAX_REQUEST_SECONDS));
        System.setProperty("sun.net.httpserver.maxRspTime", Integer.toString(MAX_ANSWER_SECONDS));
        HttpServer server = HttpServer.create(address, 0);
        AtomicInteger number = new AtomicInteger();
        ExecutorService threads = Executors.newFixedThreadPool(threadCount,
                task -> new Thread(task, "http-" + number.incrementAndGet()));
        Service service = new Service(info, server, threads);
        server.setExecutor(threads);
        server.createContext("/", service::handle);
        server.start();
        return service;
    }

    /** The address that it listens on, with the real port. */
    InetSocketAddress address() {
        return server.getAddress();
    }

    void use(History opened) {
        history = opened;
    }

    /** Refuses new requests, lets running ones end for a moment, and closes. */
    void stop() throws InterruptedException {
        stopping = true;
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_PATIENCE_MS);
        while (running.get() > 0 && System.nanoTime() < until) {
            Thread.sleep(5);
        }
        server.stop(0);
        threads.shutdownNow();
    }

    /** An answer that is yet to be sent. */
    private static final class Reply {
        private final int status;
        private final Map<String, ?> body;

        private Reply(int status, Map<String, ?> body) {
            this.status = status;
            this.body = body;
        }

        private static Reply error(int status, String message) {
            return new Reply(status, Collections.singletonMap("error", message));
        }
    }

    private void handle(HttpExchange exchange) {
        long started = System.nanoTime();
        running.incrementAndGet();
        try {
            Reply reply = reply(exchange);
            send(exchange, reply);
            ACCESS.debug("{} {} {} {} us", exchange.getRequestMethod(), exchange.getRequestURI().getRawPath(),
                    reply.status, TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - started));
        } catch (IOException e) {
            ACCESS.debug("{} {}: the client went away: {}", exchange.getRequestMethod(),
                    exchange.getRequestURI().getRawPath(), e.getMessage());
        } finally {
            exchange.close();
            running.decrementAndGet();
        }
    }

    /** There is a reply to everything. */
    private Reply reply(HttpExchange exchange) {
        String path = exchange.getRequestURI().getRawPath();
        try {
            if (stopping) {
                exchange.getResponseHeaders().set("Connection", "close");
                throw new HttpError(503, "the service is stopping");
            }
            return route(exchange, path);
        } catch (HttpError e) {
            if (e.allow != null) {
                exchange.getResponseHeaders().set("Allow", e.allow);
            }
            return Reply.error(e.status, e.getMessage());
        } catch (SQLException e) {
            LOG.warn("{} {}: the database failed: {}", exchange.getRequestMethod(), path, e.getMessage());
            return Reply.error(503, "the database is not usable");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Reply.error(503, "the service is stopping");
        } catch (OutOfMemoryError e) {
            // What the request held is garbage by now: this request failed, the service goes on.
            LOG.error("{} {}: {}", exchange.getRequestMethod(), path, e.toString());
            return Reply.error(500, "out of memory: " + e.getMessage());
        } catch (IOException | RuntimeException e) {
            LOG.error("{} {} failed", exchange.getRequestMethod(), path, e);
            return Reply.error(500, "internal error, see the log");
        }
    }

    private Reply route(HttpExchange exchange, String path)
            throws HttpError, SQLException, IOException, InterruptedException {
        switch (path) {
            case "/health":
                allow(exchange, "GET");
                return health();
            case "/sys-summary":
                allow(exchange, "GET");
                return new Reply(200, info.summary());
            case "/sys-stat":
                boolean put = allow(exchange, "GET", "PUT").equals("PUT");
                return put ? putStat(exchange) : new Reply(200, info.stat());
            case "/work":
                allow(exchange, "GET");
                return work(exchange.getRequestURI().getRawQuery());
            default:
                Matcher id = STAT_ID.matcher(path);
                if (!id.matches()) {
                    throw new HttpError(404, "nothing here: try /sys-summary, /sys-stat, /health or /work");
                }
                allow(exchange, "GET");
                return getStat(id.group(1));
        }
    }

    /** The method, when it is one of the given, or HEAD in place of GET. */
    private static String allow(HttpExchange exchange, String... methods) throws HttpError {
        String method = exchange.getRequestMethod();
        if (!Arrays.asList(methods).contains(method.equals("HEAD") ? "GET" : method)) {
            String list = String.join(", ", methods).replace("GET", "GET, HEAD");
            throw new HttpError(405, "this path takes " + list, list);
        }
        return method;
    }

    private Reply health() {
        History opened = history;
        boolean up = opened != null && opened.usable();
        String status = up ? "up" : opened == null ? "starting" : "down";
        return new Reply(up ? 200 : 503, Collections.singletonMap("status", status));
    }

    private Reply putStat(HttpExchange exchange) throws HttpError, SQLException, IOException {
        long id = history().save(Json.text(info.stat()));
        exchange.getResponseHeaders().set("Location", "/sys-stat/" + id);
        return new Reply(201, Collections.singletonMap("id", id));
    }

    private Reply getStat(String id) throws HttpError, SQLException {
        if (!id.matches("[0-9]{1,18}")) {
            throw new HttpError(400, "an id is a whole number");
        }
        History.Entry entry = history().load(Long.parseLong(id));
        if (entry == null) {
            throw new HttpError(404, "no statistic has the id " + id);
        }
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("id", entry.id);
        body.put("stat_time", entry.time.toString());
        body.put("stat", new Json.Raw(entry.stat));
        return new Reply(200, body);
    }

    private static Reply work(String query) throws HttpError, InterruptedException {
        Work work;
        try {
            work = Work.parse(query);
        } catch (IllegalArgumentException e) {
            throw new HttpError(400, e.getMessage());
        }
        return new Reply(200, work.run());
    }

    private History history() throws HttpError {
        History opened = history;
        if (opened == null) {
            throw new HttpError(503, "the database is not usable yet");
        }
        return opened;
    }

    private static void send(HttpExchange exchange, Reply reply) throws IOException {
        byte[] body = (Json.text(reply.body) + "\n").getBytes(StandardCharsets.US_ASCII);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        if (exchange.getRequestMethod().equals("HEAD")) {
            exchange.getResponseHeaders().set("Content-Length", Integer.toString(body.length));
            // No body may follow; -1 says so.
            exchange.sendResponseHeaders(reply.status, -1);
            return;
        }
        exchange.sendResponseHeaders(reply.status, body.length);
        exchange.getResponseBody().write(body);
    }
}
