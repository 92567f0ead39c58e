package dev.tare.workloads;

/** The arguments cannot be used; the message is one line that says which one and what is allowed. */
final class UsageException extends Exception {
    private static final long serialVersionUID = 1L;

    UsageException(String message) {
        super(message);
    }
}
