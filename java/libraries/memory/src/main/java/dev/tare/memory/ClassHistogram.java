package dev.tare.memory;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The objects that are alive, by class: what {@code jcmd PID GC.class_histogram} prints, which collects first, or walks
 * from the roots (ZGC, Shenandoah). Format: {@code NUMBER: INSTANCES BYTES CLASS [(MODULE)]}, and a line {@code Total
 * INSTANCES BYTES}; KlassInfoHisto::print_histo_on of HotSpot's memory/heapInspection.cpp. The name of a class may hold
 * any characters but {@code . ; [ /}, blanks too (Java Virtual Machine Specification, 4.2.2); that of a module holds none.
 */
public final class ClassHistogram {
    private static final Pattern LINE = Pattern.compile("\\s*\\d+:\\s+\\d{1,18}\\s+(\\d{1,18})\\s+(\\S.*?)(?:\\s+\\(\\S+\\))?\\s*");
    private static final Pattern TOTAL = Pattern.compile("Total\\s+\\d{1,18}\\s+(\\d{1,18})\\s*");

    private final Map<String, Long> bytes;
    private final long totalBytes;

    private ClassHistogram(Map<String, Long> bytes, long totalBytes) {
        this.bytes = bytes;
        this.totalBytes = totalBytes;
    }

    /**
     * Counts the live objects of this JVM.
     *
     * @throws UnavailableException when it cannot, or never collects
     */
    public static ClassHistogram take() throws UnavailableException {
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (collector.getName().startsWith("Epsilon")) {
                throw new UnavailableException("the Epsilon collector never collects, so dead objects count as alive:"
                        + " take another collector");
            }
        }
        return parse(DiagnosticCommand.run("gcClassHistogram"));
    }

    /**
     * Reads a printed histogram. Classes of one name in several loaders are one.
     *
     * @throws UnavailableException when it is none, or its lines do not add up to its total
     */
    public static ClassHistogram parse(String text) throws UnavailableException {
        Map<String, Long> bytes = new HashMap<>();
        long sum = 0;
        for (String line : text.split("\n")) {
            Matcher total = TOTAL.matcher(line);
            if (total.matches()) {
                if (Long.parseLong(total.group(1)) != sum) {
                    throw new UnavailableException("the class histogram adds up to " + sum + " bytes, but says " + line.trim());
                }
                return new ClassHistogram(bytes, sum);
            }
            Matcher matcher = LINE.matcher(line);
            if (matcher.matches()) {
                long size = Long.parseLong(matcher.group(1));
                sum += size;
                bytes.merge(className(matcher.group(2)), size, Long::sum);
            }
        }
        throw new UnavailableException("the class histogram has no line Total: " + excerpt(text));
    }

    private static String excerpt(String text) {
        String line = text.trim().replaceAll("\\s+", " ");
        return line.length() > 80 ? line.substring(0, 80) + "…" : line;
    }

    /** The name as in source: "[[I" is "int[][]" (Java Virtual Machine Specification, 4.3.2). */
    private static String className(String name) {
        int dimensions = 0;
        while (dimensions < name.length() && name.charAt(dimensions) == '[') {
            dimensions++;
        }
        if (dimensions == 0) {
            return name;
        }
        StringBuilder readable = new StringBuilder(elementName(name.substring(dimensions)));
        for (int i = 0; i < dimensions; i++) {
            readable.append("[]");
        }
        return readable.toString();
    }

    private static String elementName(String descriptor) {
        switch (descriptor) {
            case "B": return "byte";
            case "C": return "char";
            case "D": return "double";
            case "F": return "float";
            case "I": return "int";
            case "J": return "long";
            case "S": return "short";
            case "Z": return "boolean";
            default:
                return descriptor.startsWith("L") && descriptor.endsWith(";")
                        ? descriptor.substring(1, descriptor.length() - 1) : descriptor;
        }
    }

    /** The shallow sizes of all live objects together: the live heap. */
    public long totalBytes() {
        return totalBytes;
    }

    /** The shallow sizes of a class's live objects; arrays are named as in source, "byte[]". */
    public long bytes(String className) {
        return bytes.getOrDefault(className, 0L);
    }

    /** The classes whose objects take more (or, negative, less) than before, the largest growth first. */
    public List<Growth> since(ClassHistogram before) {
        TreeSet<String> names = new TreeSet<>(bytes.keySet());
        names.addAll(before.bytes.keySet());
        List<Growth> all = new ArrayList<>();
        for (String name : names) {
            long growth = bytes(name) - before.bytes(name);
            if (growth != 0) {
                all.add(new Growth(name, growth));
            }
        }
        Collections.sort(all, (a, b) -> Long.compare(b.bytes, a.bytes));
        return all;
    }

    /** How much more one class's objects take. */
    public static final class Growth {
        public final String className;
        /** Negative when they take less. */
        public final long bytes;

        Growth(String className, long bytes) {
            this.className = className;
            this.bytes = bytes;
        }
    }
}
