package dev.tare.sysinfo;

import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.file.Paths;
import java.sql.SQLException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts the service; {@code --help} lists the options.
 *
 * <p>It logs {@code listening on HOST:PORT} when it answers, and {@code GET /health} answers 200 once the history can
 * be used. Exit codes: 0 help, 1 it could not start (port, database, kernel files), 2 unusable options, 143 ended by
 * SIGTERM, within a second.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        if (args.length == 1 && (args[0].equals("--help") || args[0].equals("-h"))) {
            System.out.println(Options.USAGE);
            return;
        }
        Options options = null;
        try {
            options = Options.parse(args, System.getenv("DATABASE_URL"));
        } catch (UsageException e) {
            fail(2, e.getMessage());
        }
        LogConfiguration.level(options.logLevel);
        run(options);
    }

    private static void run(Options options) {
        Service service = listen(options);
        Logger log = LoggerFactory.getLogger(Main.class);
        log.info("listening on {}:{}", service.address().getAddress().getHostAddress(), service.address().getPort());
        try {
            History history = History.open(options.database, options.keep);
            // First: whoever sees the service ready may stop it at once.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(service, history), "stop"));
            service.use(history);
            log.info("history in {}", options.database);
        } catch (SQLException | RuntimeException e) { // the latter of the pool: a driver is missing or refuses the URL
            fail(1, "cannot use the database, " + options.database + ": " + firstLine(String.valueOf(e.getMessage()))
                    + ": check that it runs, or change DATABASE_URL or --data");
        }
    }

    private static Service listen(Options options) {
        InetSocketAddress address = options.address;
        try {
            return Service.start(new SystemInfo(new ProcFs(Paths.get("/"))), address, options.threads);
        } catch (BindException e) {
            String why = String.valueOf(e.getMessage());
            if (why.contains("in use")) {
                fail(1, "port " + address.getPort() + " is in use: stop what listens there or pass --port");
            }
            fail(1, "cannot listen on " + address.getAddress().getHostAddress() + ":" + address.getPort() + ": "
                    + firstLine(why) + ": pass another --host or --port");
        } catch (IOException e) {
            fail(1, "cannot start: " + firstLine(String.valueOf(e.getMessage())) + ": this needs Linux with /proc mounted");
        }
        throw new AssertionError("unreachable");
    }

    private static void stop(Service service, History history) {
        try {
            LoggerFactory.getLogger(Main.class).info("stopping");
            service.stop();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        history.close();
        LogConfiguration.stop();
    }

    private static String firstLine(String text) {
        return text.split("\\R", 2)[0];
    }

    private static void fail(int code, String message) {
        System.err.println("sysinfo: " + message);
        System.exit(code);
    }
}
