package dev.tare.sysinfo;

/** An answer other than 200; its message is the one line that the caller gets. */
final class HttpError extends Exception {
    private static final long serialVersionUID = 1L;

    final int status;
    /** The methods that the path knows, for 405; null otherwise. */
    final String allow;

    HttpError(int status, String message) {
        this(status, message, null);
    }

    HttpError(int status, String message, String allow) {
        super(message);
        this.status = status;
        this.allow = allow;
    }
}
