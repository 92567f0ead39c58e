package dev.tare.workloads;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;

/** An HTTP server on 127.0.0.1 that pays the cost of a request and answers 200 "ok", or 503 where that fails. */
final class LoopbackServer {
    private static final byte[] OK = "ok\n".getBytes(StandardCharsets.US_ASCII);

    private LoopbackServer() {}

    /**
     * Starts it with threads of its own that keep the process alive.
     *
     * @param port 0 for a free one
     * @return the port it listens on
     * @throws IOException when the port cannot be had; the message says what to do
     */
    static int start(int port, int threads, RequestCost cost) throws IOException {
        // Without it the answer's second packet waits for the client's delayed acknowledgement, 40 ms.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server;
        try {
            InetAddress loopback = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
            server = HttpServer.create(new InetSocketAddress(loopback, port), 0);
        } catch (BindException e) {
            throw new IOException("port " + port + " cannot be had (" + e.getMessage()
                    + "): stop what listens there or give another PORT, 0 for a free one", e);
        }
        server.setExecutor(Executors.newFixedThreadPool(threads));
        server.createContext("/", exchange -> answer(exchange, cost));
        server.start();
        return server.getAddress().getPort();
    }

    private static void answer(HttpExchange exchange, RequestCost cost) throws IOException {
        try {
            cost.request();
            exchange.sendResponseHeaders(200, OK.length);
            exchange.getResponseBody().write(OK);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RequestFailed e) {
            exchange.sendResponseHeaders(503, -1);
        } catch (OutOfMemoryError e) {
            // As frameworks do: the error is logged, the request fails, the service stays up.
            System.err.println(e);
            exchange.sendResponseHeaders(500, -1);
        } finally {
            exchange.close();
        }
    }
}
