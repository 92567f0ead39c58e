package dev.tare.sysinfo;

import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The machine's memory, {@code /proc/meminfo}: lines {@code Name: NUMBER kB}, where kB means 1024 bytes, proc(5). */
final class MemInfo {
    private static final Pattern LINE = Pattern.compile("([A-Za-z0-9_()]+):\\s+([0-9]{1,18}) kB");

    /** KiB by the kernel's name, in the kernel's order. */
    private final Map<String, Long> kib;

    private MemInfo(Map<String, Long> kib) {
        this.kib = Collections.unmodifiableMap(kib);
    }

    static MemInfo read(ProcFs files) throws IOException {
        return parse(files.text("/proc/meminfo"));
    }

    /** Parses the file. Lines without a unit count pages, not memory, and are left out, as are unknown forms. */
    static MemInfo parse(String text) throws IOException {
        Map<String, Long> kib = new LinkedHashMap<>();
        for (String line : text.split("\n")) {
            Matcher matcher = LINE.matcher(line.trim());
            if (matcher.matches()) {
                kib.put(matcher.group(1), Long.parseLong(matcher.group(2)));
            }
        }
        if (!kib.containsKey("MemTotal")) {
            throw new IOException("/proc/meminfo: no line 'MemTotal: NUMBER kB'");
        }
        return new MemInfo(kib);
    }

    /** One line's value in KiB; null when this kernel does not tell it (MemAvailable: Linux 3.14). */
    Long kib(String name) {
        return kib.get(name);
    }
}
