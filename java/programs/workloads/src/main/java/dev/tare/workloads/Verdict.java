package dev.tare.workloads;

import java.util.Arrays;
import java.util.Locale;

/**
 * An ordinary small HTTP service that ends in a known way under load, to check a judge of runs against.
 *
 * <p>Usage: {@code verdict MODE PORT [ARGUMENT...]}. It listens on 127.0.0.1 at PORT (0: a free port) and prints
 * {@code listening on 127.0.0.1:PORT}; every path answers alike, and the mode decides what a request costs. Exit
 * codes: {@code crash} ends with 7; 1 when the port cannot be had, 2 for unusable arguments, 143 after SIGTERM.
 */
final class Verdict implements Workload {
    /** Request threads: few, so that a mode's memory is its own and not that of stacks. */
    private static final int REQUEST_THREADS = 8;
    private static final int MAX_KB = 1_048_576;

    private enum Mode {
        OK(0, "answers at once (expected: passed)"),
        NATIVE_LEAK(1, "KB: each request keeps KB KiB of native memory outside every JVM limit (expected: oom-killed)"),
        HEAP_LEAK(1, "KB: each request keeps KB KiB of heap (expected: out-of-memory)"),
        THRASH(2, "LIVE_PERCENT KB: keeps LIVE_PERCENT % of the largest heap live, each request makes KB KiB of"
                + " garbage (expected: thrashing)"),
        NEVER_READY(0, "opens no port and stays (expected: never-ready)"),
        CRASH(1, "REQUESTS: ends with exit code 7 at that request, 0: before listening (expected: crashed)"),
        SLOW(1, "MILLIS: each request takes that long (expected: too-slow)"),
        ERRORS(1, "PERCENT: so many of the requests fail with 503 (expected: errors)"),
        RECLAIM(1, "MB: each request reads pages all over a file of MB MiB (expected, where it has no room: stalled)"),
        SLOW_LEAK(1, "KB: keeps KB KiB of native memory more each second (expected: passed, with a warning)"),
        LOCK(1, "MILLIS: each request has the one lock that long (expected: too-slow)"),
        WORK(1, "MILLIS: each request uses that much processor time (expected, beside others' work: too-slow)"),
        SPIN(1, "THREADS: so many threads spin for ever (expected: passed, and idle processors burned)"),
        LATE_FILL(1, "SECONDS: from then on each request keeps 8 MiB of heap (expected: out-of-memory)"),
        START_PEAK(1, "MB: has MB MiB of native memory at its start alone (expected: oom-killed before it is ready)"),
        CHILD_LEAK(1, "KB: each request has a child process keep KB KiB of native memory (expected: oom-killed)"),
        CHILD_THRASH(2, "LIVE_PERCENT KB: each request is one of a child process in mode thrash (expected: thrashing)");

        private final int arguments;
        private final String meaning;

        Mode(int arguments, String meaning) {
            this.arguments = arguments;
            this.meaning = meaning;
        }

        private String word() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    @Override
    public String name() {
        return "verdict";
    }

    @Override
    public String usage() {
        StringBuilder text = new StringBuilder("MODE PORT [ARGUMENT...]\n"
                + "    an HTTP service on 127.0.0.1 (PORT 0: a free one) that ends in a known way under load; MODE is");
        for (Mode mode : Mode.values()) {
            text.append("\n    ").append(mode.word()).append(mode.arguments == 0 ? ": " : " ").append(mode.meaning);
        }
        return text.toString();
    }

    @Override
    public int run(String[] args) throws Exception {
        if (args.length < 2) {
            throw new UsageException("got " + args.length + " arguments: give MODE PORT [ARGUMENT...], --help lists the modes");
        }
        Mode mode = mode(args[0]);
        int port = Args.number("PORT", args[1], 0, 65535);
        String[] rest = Arrays.copyOfRange(args, 2, args.length);
        if (rest.length != mode.arguments) {
            throw new UsageException("mode " + mode.word() + " got " + rest.length + " arguments after PORT, needs "
                    + mode.arguments + ": " + mode.meaning);
        }
        RequestCost cost = cost(mode, rest);
        System.out.println("pid " + ProcessId.get());
        if (mode == Mode.NEVER_READY) {
            System.out.println("not listening, by design");
        } else {
            cost.prepare();
            System.out.println("listening on 127.0.0.1:" + LoopbackServer.start(port, REQUEST_THREADS, cost));
        }
        Thread.sleep(Long.MAX_VALUE);
        return 0;
    }

    private static Mode mode(String word) throws UsageException {
        for (Mode mode : Mode.values()) {
            if (mode.word().equals(word)) {
                return mode;
            }
        }
        throw new UsageException("no mode is named '" + Args.printable(word) + "': --help lists the modes");
    }

    private static RequestCost cost(Mode mode, String[] args) throws UsageException {
        switch (mode) {
            case NATIVE_LEAK:
                return new NativeLeak(Args.number("KB", args[0], 1, MAX_KB));
            case HEAP_LEAK:
                return new HeapLeak(Args.number("KB", args[0], 1, MAX_KB));
            case THRASH:
                return new Thrash(Args.number("LIVE_PERCENT", args[0], 1, 99), Args.number("KB", args[1], 1, MAX_KB));
            case CRASH:
                return new Crash(Args.number("REQUESTS", args[0], 0, Integer.MAX_VALUE));
            case SLOW:
                int millis = Args.number("MILLIS", args[0], 0, 3_600_000);
                return () -> Thread.sleep(millis);
            case ERRORS:
                return new Errors(Args.number("PERCENT", args[0], 1, 100));
            case RECLAIM:
                return new Reclaim(Args.number("MB", args[0], 1, 2047));
            case SLOW_LEAK:
                return new SlowLeak(Args.number("KB", args[0], 1, MAX_KB), System::nanoTime);
            case LOCK:
                int held = Args.number("MILLIS", args[0], 0, 3_600_000);
                Object lock = new Object();
                return () -> {
                    synchronized (lock) {
                        Thread.sleep(held);
                    }
                };
            case WORK:
                return new ProcessorWork(Args.number("MILLIS", args[0], 1, 3_600_000));
            case SPIN:
                return new Spin(Args.number("THREADS", args[0], 1, 64));
            case LATE_FILL:
                return new LateFill(Args.number("SECONDS", args[0], 0, 3600), System::nanoTime);
            case START_PEAK:
                return new StartPeak(Args.number("MB", args[0], 1, 2047));
            case CHILD_LEAK:
                return new Child("-Xmx32m", "native-leak", Args.number("KB", args[0], 1, MAX_KB));
            case CHILD_THRASH:
                return new Child("-Xmx64m", "thrash", Args.number("LIVE_PERCENT", args[0], 1, 99), Args.number("KB", args[1], 1, MAX_KB));
            default:
                return () -> { };
        }
    }
}
