package dev.tare.check;

/** The program does not keep its memory budget, or it is not known whether it does; the message says which. */
public final class BudgetException extends Exception {
    private static final long serialVersionUID = 1L;

    BudgetException(String message) {
        super(message);
    }
}
