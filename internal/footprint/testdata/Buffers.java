import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.concurrent.CountDownLatch;

/** Holds direct buffers, and virtual threads that wait: COUNT KIB VIRTUAL. */
class Buffers {
    public static void main(String[] args) throws Exception {
        ByteBuffer[] held = new ByteBuffer[Integer.parseInt(args[0])];
        for (int i = 0; i < held.length; i++) {
            held[i] = ByteBuffer.allocateDirect(Integer.parseInt(args[1]) << 10);
        }
        int virtual = Integer.parseInt(args[2]);
        CountDownLatch started = new CountDownLatch(virtual), never = new CountDownLatch(1);
        if (virtual > 0) { // this class is compiled for JDK 8, which has none
            Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
            for (int i = 0; i < virtual; i++) {
                start.invoke(null, (Runnable) () -> park(50, started, never));
            }
        }
        started.await();
        System.out.println("ready");
        never.await();
        System.out.println(held.length);
    }

    private static void park(int frames, CountDownLatch started, CountDownLatch never) {
        if (frames > 0) {
            park(frames - 1, started, never);
            return;
        }
        started.countDown();
        try {
            never.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
