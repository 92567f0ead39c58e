package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Native memory tracking's summary: the committed bytes of each category, and of all under "Total". Lines
 * {@code Total: reserved=NKB, committed=NKB} and {@code - CATEGORY (reserved=NKB, committed=NKB)}, since JDK 21 with
 * more behind; MemSummaryReporter of HotSpot's nmt/memReporter.cpp.
 */
final class NmtSummary {
    private static final Pattern LINE = Pattern.compile(
            "(?:Total|-\\s+([A-Za-z][A-Za-z0-9 ]*?)):? *\\(?reserved=\\d{1,15}KB, committed=(\\d{1,15})KB.*");

    private NmtSummary() {
    }

    /**
     * Committed bytes by category.
     *
     * @throws UnavailableException when this is no summary, most often because tracking is off
     */
    static Map<String, Long> parse(String text) throws UnavailableException {
        Map<String, Long> committed = new LinkedHashMap<>();
        for (String line : text.split("\n")) {
            Matcher matcher = LINE.matcher(line.trim());
            if (matcher.matches()) {
                String category = matcher.group(1) == null ? "Total" : matcher.group(1);
                committed.put(category, Long.parseLong(matcher.group(2)) * 1024);
            }
        }
        if (!committed.containsKey("Total")) {
            String said = text.trim().replaceAll("\\s+", " ");
            throw new UnavailableException("no native memory tracking (" + (said.length() > 80 ? said.substring(0, 80) : said)
                    + "): add -jvmArgsAppend -XX:NativeMemoryTracking=summary");
        }
        return Collections.unmodifiableMap(committed);
    }
}
