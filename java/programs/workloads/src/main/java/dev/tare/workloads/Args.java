package dev.tare.workloads;

/** Strict reading of positional arguments. */
final class Args {
    private Args() {}

    /** A whole decimal number between {@code min} and {@code max}, both allowed. */
    static int number(String name, String text, int min, int max) throws UsageException {
        if (text.matches("[0-9]{1,10}")) {
            long value = Long.parseLong(text);
            if (value >= min && value <= max) {
                return (int) value;
            }
        }
        throw new UsageException(name + " is '" + printable(text) + "': give a whole number from " + min + " to " + max);
    }

    /** Text fit for one line of a message: no control characters, no more than 60 characters. */
    static String printable(String text) {
        String clean = text.replaceAll("\\p{Cntrl}", "?");
        return clean.length() <= 60 ? clean : clean.substring(0, 57) + "...";
    }
}
