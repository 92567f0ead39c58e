import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

/**
 * A service that holds as much memory of each kind as it is told, so that a version which holds a known part more can
 * be told from it.
 *
 * <p>Usage: {@code Subject PORT [heap=KB] [classes=COUNT] [threads=COUNT] [direct=KB] [malloc=KB] [spin=MICROSECONDS]}.
 * A request makes some garbage and spins for so long.
 */
public final class Subject {
    private static final int PIECE = 1024;
    /** Of a thread that waits: deep enough for its stack to be more than what a thread begins with. */
    private static final int DEPTH = 400;
    private static final List<Object> HELD = new ArrayList<>();

    private Subject() {}

    public static void main(String[] args) throws Exception {
        Map<String, Integer> more = new TreeMap<>();
        for (int i = 1; i < args.length; i++) {
            String[] parts = args[i].split("=", 2);
            more.put(parts[0], Integer.valueOf(parts[1]));
        }
        for (int i = more.getOrDefault("heap", 0); i > 0; i--) {
            HELD.add(new byte[PIECE - 16]);
        }
        for (int i = more.getOrDefault("direct", 0); i > 0; i -= 64) {
            HELD.add(ByteBuffer.allocateDirect(Math.min(i, 64) * 1024));
        }
        malloc(more.getOrDefault("malloc", 0));
        HELD.add(new Copies(more.getOrDefault("classes", 0)));
        threads(more.getOrDefault("threads", 0));
        serve(Integer.parseInt(args[0]), more.getOrDefault("spin", 0));
    }

    private static void serve(int port, int spin) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            long end = System.nanoTime() + 1000L * spin;
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 200; i++) {
                text.append(i).append(' ');
            }
            while (System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            byte[] answer = text.toString().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
        System.out.println("listening on " + server.getAddress().getPort());
    }

    private static void malloc(int kb) throws ReflectiveOperationException {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
        for (int i = kb; i > 0; i -= 4) {
            unsafe.setMemory(unsafe.allocateMemory(4096), 4096, (byte) 1);
        }
    }

    private static void threads(int count) throws InterruptedException {
        CountDownLatch deep = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            Thread t = new Thread(() -> descend(DEPTH, deep), "worker-" + i);
            t.setDaemon(true);
            t.start();
        }
        deep.await();
    }

    private static int descend(int depth, CountDownLatch deep) {
        if (depth > 0) {
            return descend(depth - 1, deep) + 1;
        }
        deep.countDown();
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return 0;
    }

    /** Defines copies of a class under names of the same length. */
    private static final class Copies extends ClassLoader {
        private final List<Class<?>> classes = new ArrayList<>();

        Copies(int count) throws ReflectiveOperationException, IOException {
            super(Subject.class.getClassLoader());
            byte[] code;
            try (InputStream in = Subject.class.getResourceAsStream("Model00000.class")) {
                code = in.readAllBytes();
            }
            String text = new String(code, StandardCharsets.ISO_8859_1);
            for (int i = 1; i <= count; i++) {
                String name = String.format("Model%05d", i);
                byte[] copy = text.replace("Model00000", name).getBytes(StandardCharsets.ISO_8859_1);
                classes.add(defineClass(name, copy, 0, copy.length));
                Class.forName(name, true, this); // links it, as its use would
            }
        }
    }
}

/** What is copied: some fields and methods, as a class of an application has. */
class Model00000 {
    private int a;
    private long b;
    private String c = "";

    Model00000() {}

    int a() {
        return a;
    }

    void a(int value) {
        a = value;
    }

    long b() {
        return b;
    }

    void b(long value) {
        b = value;
    }

    String c() {
        return c;
    }

    void c(String value) {
        c = value;
    }

    @Override
    public String toString() {
        return "Model(" + a() + ", " + b() + ", " + c() + ")";
    }

    @Override
    public int hashCode() {
        return 31 * (31 * a + Long.hashCode(b)) + c.hashCode();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Model00000 && ((Model00000) other).a == a && ((Model00000) other).b == b && ((Model00000) other).c.equals(c);
    }
}
