package dev.tare.sysinfo;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A real PostgreSQL server of this test's own: a fresh cluster in a temporary folder, on a free port of the loopback
 * interface, with password authentication. Stopped and deleted on close, and when the JVM ends before that.
 */
final class PostgresCluster implements AutoCloseable {
    static final String USER = "tare";
    static final String PASSWORD = "p@ss/w:rd %";
    static final String PASSWORD_ENCODED = "p%40ss%2Fw%3Ard%20%25";
    private static final String OWNER = "postgres";
    private static final int PORT_ATTEMPTS = 5;

    private final Path bin;
    private final Path folder;
    private final int port;
    private final Thread onExit = new Thread(this::stopAndDelete);

    private PostgresCluster() throws IOException, InterruptedException {
        bin = newestBin();
        folder = Files.createTempDirectory("tare-postgres-");
        Path password = Files.write(folder.resolve("password"), PASSWORD.getBytes());
        if (isRoot()) {
            // initdb refuses root: the cluster belongs to the packages' user.
            run(List.of("chown", "-R", OWNER, folder.toString()));
        }
        Runtime.getRuntime().addShutdownHook(onExit);
        run(asOwner("initdb", "--pgdata", data(), "--username", USER, "--pwfile", password.toString(),
                "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"));
        port = startOnFreePort();
    }

    static PostgresCluster start() throws IOException, InterruptedException {
        return new PostgresCluster();
    }

    /** A URL for DATABASE_URL, with the password. */
    String url() {
        return "postgres://" + USER + ":" + PASSWORD_ENCODED + "@127.0.0.1:" + port + "/postgres";
    }

    int port() {
        return port;
    }

    /** Stops all of the server's processes where they are: connections stay open, and nothing answers. */
    void pause() throws IOException, InterruptedException {
        signal("-STOP");
    }

    private void signal(String signal) throws IOException, InterruptedException {
        long pid = Long.parseLong(Files.readAllLines(folder.resolve("data/postmaster.pid")).get(0).trim());
        List<String> command = new ArrayList<>(List.of("kill", signal, Long.toString(pid)));
        ProcessHandle.of(pid).orElseThrow().descendants().forEach(child -> command.add(Long.toString(child.pid())));
        run(command);
    }

    private static Path newestBin() throws IOException {
        Path versions = Path.of("/usr/lib/postgresql");
        if (Files.isDirectory(versions)) {
            try (Stream<Path> all = Files.list(versions)) {
                return all.filter(version -> Files.isExecutable(version.resolve("bin/initdb")))
                        .max(Comparator.comparingDouble(version -> Double.parseDouble(version.getFileName().toString())))
                        .orElseThrow(PostgresCluster::notInstalled)
                        .resolve("bin");
            }
        }
        throw notInstalled();
    }

    private static AssertionError notInstalled() {
        return new AssertionError("no PostgreSQL server in /usr/lib/postgresql/*/bin: apt-get install postgresql");
    }

    private static boolean isRoot() {
        return "root".equals(System.getProperty("user.name"));
    }

    private String data() {
        return folder.resolve("data").toString();
    }

    private int startOnFreePort() throws IOException, InterruptedException {
        for (int attempt = 1; ; attempt++) {
            int free;
            try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
                free = socket.getLocalPort();
            }
            try {
                run(asOwner("pg_ctl", "start", "--wait", "--pgdata", data(), "--log", folder.resolve("log").toString(),
                        "--options", "-p " + free + " -k " + folder + " -c listen_addresses=127.0.0.1 -c fsync=off"));
                return free;
            } catch (IOException e) {
                // Somebody may have taken the port in between.
                if (attempt == PORT_ATTEMPTS) {
                    throw e;
                }
            }
        }
    }

    private List<String> asOwner(String program, String... arguments) {
        List<String> command = new ArrayList<>();
        if (isRoot()) {
            command.addAll(List.of("runuser", "-u", OWNER, "--"));
        }
        command.add(bin.resolve(program).toString());
        command.addAll(List.of(arguments));
        return command;
    }

    private static void run(List<String> command) throws IOException, InterruptedException {
        // Into a file: the server inherits its starter's output, and a pipe would stay open as long as it runs.
        File output = File.createTempFile("tare-postgres-", ".out");
        try {
            Process process = new ProcessBuilder(command).directory(new File("/"))
                    .redirectErrorStream(true).redirectOutput(output).start();
            if (!process.waitFor(120, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IOException(command + " does not end: " + Files.readString(output.toPath()));
            }
            if (process.exitValue() != 0) {
                throw new IOException(command + " failed: " + Files.readString(output.toPath()));
            }
        } finally {
            Files.delete(output.toPath());
        }
    }

    @Override
    public void close() {
        Runtime.getRuntime().removeShutdownHook(onExit);
        stopAndDelete();
    }

    private void stopAndDelete() {
        try {
            if (Files.exists(folder.resolve("data/postmaster.pid"))) {
                signal("-CONT");
                run(asOwner("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", data()));
            }
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
