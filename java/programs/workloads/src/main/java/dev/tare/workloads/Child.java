package dev.tare.workloads;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Has a child process, in the same control group, do what a request costs: nothing of it is in this process, and no
 * option of this JVM limits it. The child is the same service in another mode.
 */
final class Child implements RequestCost {
    private static final String LISTENS = "listening on 127.0.0.1:";

    private final String heap;
    private final String mode;
    private final int[] arguments;
    private int port;

    Child(String heap, String mode, int... arguments) {
        this.heap = heap;
        this.mode = mode;
        this.arguments = arguments;
    }

    @Override
    public void prepare() throws IOException {
        String java = Paths.get(System.getProperty("java.home"), "bin", "java").toString();
        List<String> command = new ArrayList<>(Arrays.asList(java, heap, "-XX:+UseSerialGC", "-cp",
                System.getProperty("java.class.path"), Main.class.getName(), "verdict", mode, "0"));
        for (int argument : arguments) {
            command.add(String.valueOf(argument));
        }
        Process child = new ProcessBuilder(command).redirectErrorStream(true).start();
        // Where this process is killed, the child is for who killed it: in a group, both end.
        Runtime.getRuntime().addShutdownHook(new Thread(child::destroyForcibly));
        BufferedReader output = new BufferedReader(new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8));
        String line = output.readLine();
        while (line != null && !line.startsWith(LISTENS)) {
            line = output.readLine();
        }
        if (line == null) {
            throw new IOException("the child ended before it listened: give the group more memory");
        }
        port = Integer.parseInt(line.substring(LISTENS.length()));
    }

    @Override
    public void request() throws RequestFailed {
        try {
            URL url = new URL("http", InetAddress.getByAddress(new byte[] {127, 0, 0, 1}).getHostAddress(), port, "/");
            HttpURLConnection connection = (HttpURLConnection) url.openConnection();
            try (InputStream answer = connection.getInputStream()) {
                while (answer.read() >= 0) {
                    // to its end, so that the connection is used again
                }
            }
        } catch (IOException e) {
            throw new RequestFailed();
        }
    }
}
