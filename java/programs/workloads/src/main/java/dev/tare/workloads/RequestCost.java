package dev.tare.workloads;

import java.io.IOException;

/** What one request does besides answering. Called by several threads at once. */
@FunctionalInterface
interface RequestCost {
    /** @throws RequestFailed when the request is to fail */
    void request() throws InterruptedException, RequestFailed;

    /** Done once, before the port opens. */
    default void prepare() throws IOException {}
}
