package dev.tare.sysinfo;

/** The command line or the environment cannot be used; the message is one line that says what is allowed. */
final class UsageException extends Exception {
    private static final long serialVersionUID = 1L;

    UsageException(String message) {
        super(message);
    }
}
