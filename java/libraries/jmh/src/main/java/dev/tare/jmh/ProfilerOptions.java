package dev.tare.jmh;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.openjdk.jmh.profile.ProfilerException;

/** A profiler's options, {@code name=value} separated by semicolons as in JMH's own profilers. */
final class ProfilerOptions {
    private final String profiler;
    private final Map<String, String> given;

    private ProfilerOptions(String profiler, Map<String, String> given) {
        this.profiler = profiler;
        this.given = given;
    }

    /**
     * Reads options.
     *
     * @param known the names of the options there are, each with what it means
     * @throws ProfilerException that says which option is wrong and which there are
     */
    static ProfilerOptions parse(Class<?> profiler, String text, Map<String, String> known) throws ProfilerException {
        Map<String, String> given = new LinkedHashMap<>();
        for (String option : text.split(";")) {
            String[] pair = option.trim().split("=", 2);
            if (pair[0].isEmpty()) {
                continue;
            }
            if (pair.length < 2 || !known.containsKey(pair[0]) || given.put(pair[0], pair[1]) != null) {
                throw new ProfilerException(profiler.getName() + ": '" + option.trim() + "' is not an option, or given twice."
                        + " Options, separated by semicolons: " + known);
            }
        }
        return new ProfilerOptions(profiler.getName(), given);
    }

    /** For a profiler without options. */
    static void none(Class<?> profiler, String text) throws ProfilerException {
        parse(profiler, text, Collections.emptyMap());
    }

    int number(String name, int otherwise, int min, int max) throws ProfilerException {
        String value = given.get(name);
        if (value == null) {
            return otherwise;
        }
        if (value.matches("\\d{1,9}") && Integer.parseInt(value) >= min && Integer.parseInt(value) <= max) {
            return Integer.parseInt(value);
        }
        throw new ProfilerException(profiler + ": " + name + "=" + value + " is not a number from " + min + " to " + max);
    }

    String text(String name, String otherwise) {
        return given.getOrDefault(name, otherwise);
    }
}
