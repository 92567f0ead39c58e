package dev.tare.workloads;

/** What one request does besides answering. Called by several threads at once. */
@FunctionalInterface
interface RequestCost {
    void request() throws InterruptedException;

    /** Done once, before the port opens. */
    default void prepare() {}
}
