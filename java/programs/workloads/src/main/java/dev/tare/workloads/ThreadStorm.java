package dev.tare.workloads;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Starts threads without waiting for one another, and replaces them as they end.
 *
 * <p>Usage: {@code thread-storm THREADS DELAY_MICROS LIFE_MILLIS}. It starts a thread every DELAY_MICROS until THREADS
 * run, and prints {@code ready}. Each thread sleeps for LIFE_MILLIS and is then replaced by a new one, 0: it stays. The
 * process stays until SIGTERM. Written for what happens between the start of a thread and its guard pages: "JDK-8312182:
 * THPs cause huge RSS due to thread start timing issue", https://bugs.openjdk.org/browse/JDK-8312182.
 *
 * <p>Exit codes: 1 when a thread cannot be started, 2 for unusable arguments, 143 after SIGTERM.
 */
final class ThreadStorm implements Workload {
    private static final int MAX_THREADS = 1_000_000;
    private static final int MAX_DELAY_MICROS = 1_000_000;
    private static final int MAX_LIFE_MILLIS = 3_600_000;

    private final AtomicInteger started = new AtomicInteger();
    private final AtomicInteger running = new AtomicInteger();

    @Override
    public String name() {
        return "thread-storm";
    }

    @Override
    public String usage() {
        return "THREADS DELAY_MICROS LIFE_MILLIS\n"
                + "    a thread started every DELAY_MICROS until THREADS run; each sleeps for LIFE_MILLIS and is then\n"
                + "    replaced, 0: it stays";
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length != 3) {
            throw new UsageException("got " + args.length + " arguments: give THREADS DELAY_MICROS LIFE_MILLIS");
        }
        int threads = Args.number("THREADS", args[0], 1, MAX_THREADS);
        int delayMicros = Args.number("DELAY_MICROS", args[1], 0, MAX_DELAY_MICROS);
        int lifeMillis = Args.number("LIFE_MILLIS", args[2], 0, MAX_LIFE_MILLIS);
        System.out.println("pid " + ProcessId.get());
        boolean ready = false;
        while (true) {
            if (running.get() < threads) {
                start(lifeMillis);
            } else if (!ready) {
                System.out.println("ready");
                ready = true;
            }
            Thread.sleep(delayMicros / 1000, delayMicros % 1000 * 1000);
        }
    }

    private void start(int lifeMillis) {
        Thread thread = new Thread(() -> live(lifeMillis), "storm-" + started.incrementAndGet());
        thread.setDaemon(true);
        running.incrementAndGet();
        try {
            thread.start();
        } catch (OutOfMemoryError e) {
            System.err.println("thread-storm: thread " + started.get() + " did not start (" + e.getMessage()
                    + "): lower THREADS, or raise the process or memory limit");
            // Thousands of threads are asleep: no orderly shutdown.
            Runtime.getRuntime().halt(1);
        }
    }

    private void live(int lifeMillis) {
        try {
            Thread.sleep(lifeMillis == 0 ? Long.MAX_VALUE : lifeMillis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            running.decrementAndGet();
        }
    }
}
