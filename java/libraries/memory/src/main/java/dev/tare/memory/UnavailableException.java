package dev.tare.memory;

/** This JVM or system cannot tell what was asked; the message says why, and what to change where that helps. */
public final class UnavailableException extends Exception {
    private static final long serialVersionUID = 1L;

    public UnavailableException(String message) {
        super(message);
    }

    public UnavailableException(String message, Throwable cause) {
        super(message, cause);
    }
}
