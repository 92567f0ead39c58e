package dev.tare.junit;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Sizes as people write them. */
final class Bytes {
    private static final Pattern SIZE = Pattern.compile("([0-9]{1,9})(?:\\.([0-9]{1,3}))? ?(B|KiB|MiB|GiB)");

    private Bytes() {
    }

    /**
     * Reads "2 MiB" or "1.5 KiB" as bytes.
     *
     * @param suffix what must stand behind it, "" or "/op"
     * @throws IllegalArgumentException that says how to write it
     */
    static long parse(String what, String text, String suffix) {
        Matcher matcher = SIZE.matcher(text.endsWith(suffix) ? text.substring(0, text.length() - suffix.length()) : "");
        if (!matcher.matches()) {
            throw new IllegalArgumentException(what + " = \"" + text + "\" is not a size: write \"2 MiB" + suffix
                    + "\" or the like, with B, KiB, MiB or GiB");
        }
        double number = Double.parseDouble(matcher.group(1) + "." + (matcher.group(2) == null ? "0" : matcher.group(2)));
        return Math.round(number * unit(matcher.group(3)));
    }

    private static long unit(String name) {
        switch (name) {
            case "KiB": return 1L << 10;
            case "MiB": return 1L << 20;
            case "GiB": return 1L << 30;
            default: return 1;
        }
    }

    /** "2.0 MiB", "512 B". */
    static String format(long bytes) {
        long size = Math.abs(bytes);
        if (size < 10_000) {
            return bytes + " B";
        }
        return size < 10 << 20 ? String.format(Locale.ROOT, "%.1f KiB", bytes / 1024.0)
                : String.format(Locale.ROOT, "%.1f MiB", bytes / 1048576.0);
    }
}
