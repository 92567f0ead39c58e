package dev.tare.workloads;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Uses processor time in each request, by the thread's own clock: how long that takes is the machine's affair. */
final class ProcessorWork implements RequestCost {
    private final long nanos;
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    ProcessorWork(int millis) {
        nanos = millis * 1_000_000L;
    }

    @Override
    public void request() {
        long end = threads.getCurrentThreadCpuTime() + nanos;
        while (threads.getCurrentThreadCpuTime() < end) {
            // the clock costs enough
        }
    }
}
