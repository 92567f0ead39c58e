package dev.tare.workloads;

import java.util.concurrent.atomic.AtomicInteger;

/** Ends the process with exit code 7 at a given request, with a last line on stderr and without any clean-up. */
final class Crash implements RequestCost {
    static final int EXIT_CODE = 7;

    private final int atRequest;
    private final AtomicInteger requests = new AtomicInteger();

    /** {@code atRequest} 0: before the port opens. */
    Crash(int atRequest) {
        this.atRequest = atRequest;
    }

    @Override
    public void prepare() {
        if (atRequest == 0) {
            crash("at start");
        }
    }

    @Override
    public void request() {
        if (requests.incrementAndGet() == atRequest) {
            crash("at request " + atRequest);
        }
    }

    private static void crash(String when) {
        System.err.println("fatal: crashed " + when + ", by design");
        Runtime.getRuntime().halt(EXIT_CODE);
    }
}
