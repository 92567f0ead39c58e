package dev.tare.sysinfo;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The command line and the one environment variable, checked. */
final class Options {
    static final String USAGE = "usage: java [JVM OPTIONS] -jar sysinfo.jar [OPTIONS]\n"
            + "\n"
            + "  --port N         listen there; 0 takes a free port (default 8080)\n"
            + "  --host ADDRESS   listen on this address (default 127.0.0.1)\n"
            + "  --threads N      answer up to N requests at once (default 16)\n"
            + "  --data DIR       keep the history in an H2 database in DIR (default: in memory)\n"
            + "  --keep N         keep the newest N entries of the history (default 1000)\n"
            + "  --log-level L    error, warn, info or debug; debug logs every request (default info)\n"
            + "\n"
            + "DATABASE_URL=postgres://USER:PASSWORD@HOST:PORT/DATABASE keeps the history in PostgreSQL.\n"
            + "Exit codes: 1 could not start, 2 unusable options, 143 ended by SIGTERM.";

    private static final List<String> NAMES =
            Arrays.asList("--port", "--host", "--threads", "--data", "--keep", "--log-level");
    private static final List<String> LEVELS = Arrays.asList("error", "warn", "info", "debug");

    final InetSocketAddress address;
    final int threads;
    final int keep;
    final String logLevel;
    final Database database;

    private Options(Map<String, String> given, String databaseUrl) throws UsageException {
        int port = number(given, "--port", 8080, 0, 65535);
        threads = number(given, "--threads", 16, 1, 1024);
        keep = number(given, "--keep", 1000, 1, Integer.MAX_VALUE);
        logLevel = given.getOrDefault("--log-level", "info");
        if (!LEVELS.contains(logLevel)) {
            throw new UsageException("--log-level is '" + printable(logLevel) + "': give error, warn, info or debug");
        }
        database = database(given.get("--data"), databaseUrl);
        address = address(given.getOrDefault("--host", "127.0.0.1"), port);
    }

    /**
     * Checks them.
     *
     * @param databaseUrl the value of DATABASE_URL; null or empty when it is not set
     */
    static Options parse(String[] args, String databaseUrl) throws UsageException {
        Map<String, String> given = new HashMap<>();
        for (int i = 0; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            String name = equals < 0 ? args[i] : args[i].substring(0, equals);
            if (!NAMES.contains(name)) {
                throw new UsageException("unknown option '" + printable(name) + "': --help lists the options");
            }
            if (equals < 0 && i + 1 == args.length) {
                throw new UsageException(name + " has no value: --help says what it takes");
            }
            String value = equals < 0 ? args[++i] : args[i].substring(equals + 1);
            if (given.put(name, value) != null) {
                throw new UsageException(name + " is given twice: give it once");
            }
        }
        return new Options(given, databaseUrl);
    }

    private static int number(Map<String, String> given, String name, int byDefault, int min, int max)
            throws UsageException {
        String text = given.get(name);
        if (text == null) {
            return byDefault;
        }
        if (text.matches("[0-9]{1,10}") && Long.parseLong(text) >= min && Long.parseLong(text) <= max) {
            return Integer.parseInt(text);
        }
        throw new UsageException(name + " is '" + printable(text) + "': give a whole number from " + min + " to " + max);
    }

    private static Database database(String folder, String url) throws UsageException {
        boolean hasUrl = url != null && !url.isEmpty();
        if (folder != null && hasUrl) {
            throw new UsageException("both --data and DATABASE_URL say where the history is kept: remove one");
        }
        if (hasUrl) {
            return Database.postgres(url);
        }
        if (folder == null) {
            return Database.inMemory();
        }
        try {
            return Database.inFolder(Paths.get(folder));
        } catch (InvalidPathException e) {
            throw new UsageException("--data is '" + printable(folder) + "', which is not a path: give a folder");
        }
    }

    private static InetSocketAddress address(String host, int port) throws UsageException {
        try {
            if (!host.isEmpty()) {
                return new InetSocketAddress(InetAddress.getByName(host), port);
            }
        } catch (UnknownHostException e) {
            // Said below.
        }
        throw new UsageException("--host is '" + printable(host) + "', which has no address: give one of this machine's");
    }

    private static String printable(String text) {
        String clean = text.replaceAll("\\p{Cntrl}", "?");
        return clean.length() <= 60 ? clean : clean.substring(0, 57) + "...";
    }
}
