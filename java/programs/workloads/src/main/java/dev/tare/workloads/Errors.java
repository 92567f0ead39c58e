package dev.tare.workloads;

import java.util.concurrent.atomic.AtomicLong;

/** Fails a share of the requests, evenly spread: with 10 %, each tenth. */
final class Errors implements RequestCost {
    private final int percent;
    private final AtomicLong requests = new AtomicLong();

    Errors(int percent) {
        this.percent = percent;
    }

    @Override
    public void request() throws RequestFailed {
        long before = requests.getAndIncrement();
        if ((before + 1) * percent / 100 > before * percent / 100) {
            throw new RequestFailed();
        }
    }
}
