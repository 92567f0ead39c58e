package dev.tare.sysinfo;

import java.util.Map;

/** Writes JSON, RFC 8259: maps, strings, whole and finite numbers, booleans, null, and text that is JSON already. */
final class Json {
    private Json() {}

    /** JSON text to be put in as it is, for example what was stored before. */
    static final class Raw {
        private final String text;

        Raw(String text) {
            this.text = text;
        }
    }

    /** The text of a value, in one line. */
    static String text(Object value) {
        StringBuilder out = new StringBuilder(256);
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof Double) {
            double number = (Double) value;
            if (Double.isNaN(number) || Double.isInfinite(number)) {
                throw new IllegalArgumentException("JSON has no " + number);
            }
            out.append(number);
        } else if (value instanceof Map) {
            writeObject(out, (Map<?, ?>) value);
        } else if (value instanceof Raw) {
            out.append(((Raw) value).text);
        } else if (value instanceof String) {
            writeString(out, (String) value);
        } else {
            throw new IllegalArgumentException("no JSON for " + value.getClass());
        }
    }

    private static void writeObject(StringBuilder out, Map<?, ?> members) {
        char separator = '{';
        for (Map.Entry<?, ?> member : members.entrySet()) {
            out.append(separator);
            writeString(out, (String) member.getKey());
            out.append(':');
            write(out, member.getValue());
            separator = ',';
        }
        out.append(members.isEmpty() ? "{}" : "}");
    }

    private static void writeString(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                // Everything but printable ASCII, so that lone surrogates and control characters stay harmless.
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
