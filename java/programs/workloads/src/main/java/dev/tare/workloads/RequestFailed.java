package dev.tare.workloads;

/** Says that a request is to be answered as failed. */
final class RequestFailed extends Exception {
    private static final long serialVersionUID = 1;

    RequestFailed() {
        super("by design", null, false, false);
    }
}
