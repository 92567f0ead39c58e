package dev.tare.sysinfo;

import java.io.IOException;

/**
 * One process in {@code /proc/PID/stat}: a single line of fields, proc(5). The second, the name, stands in
 * parentheses and may itself contain spaces and parentheses, so the fields after it are counted from the last one.
 */
final class ProcStat {
    /** Fields after the name, as proc(5) numbers all fields from 1: state is number 3. */
    private static final int FIRST_AFTER_NAME = 3;
    private static final int STATE = 3;
    private static final int UTIME = 14;
    private static final int STIME = 15;
    private static final int NUM_THREADS = 20;
    private static final int VSIZE = 23;
    private static final int RSS = 24;

    final long pid;
    final String name;
    final String state;
    /** Clock ticks. */
    final long userTicks;
    /** Clock ticks. */
    final long systemTicks;
    final long threads;
    final long virtualBytes;
    final long residentPages;

    private ProcStat(long pid, String name, String[] fields) throws IOException {
        this.pid = pid;
        this.name = name;
        state = fields[STATE - FIRST_AFTER_NAME];
        userTicks = number(fields, UTIME);
        systemTicks = number(fields, STIME);
        threads = number(fields, NUM_THREADS);
        virtualBytes = number(fields, VSIZE);
        residentPages = number(fields, RSS);
    }

    static ProcStat read(ProcFs files) throws IOException {
        return parse(files.text("/proc/self/stat"));
    }

    /** Parses the line. Fields that newer kernels add at the end are ignored. */
    static ProcStat parse(String line) throws IOException {
        int open = line.indexOf(" (");
        int close = line.lastIndexOf(") ");
        if (open < 1 || close < open + 2) {
            throw new IOException("/proc/self/stat: no name in parentheses: " + start(line));
        }
        String[] fields = line.substring(close + 2).trim().split(" ");
        if (fields.length <= RSS - FIRST_AFTER_NAME) {
            throw new IOException("/proc/self/stat: only " + fields.length + " fields after the name: " + start(line));
        }
        return new ProcStat(number(line.substring(0, open), "pid"), line.substring(open + 2, close), fields);
    }

    private static long number(String[] fields, int field) throws IOException {
        return number(fields[field - FIRST_AFTER_NAME], "field " + field);
    }

    private static long number(String text, String what) throws IOException {
        try {
            long value = Long.parseLong(text);
            if (value >= 0) {
                return value;
            }
        } catch (NumberFormatException e) {
            // Said below.
        }
        throw new IOException("/proc/self/stat: " + what + " is '" + start(text) + "', not a count");
    }

    private static String start(String text) {
        return text.length() <= 80 ? text.trim() : text.substring(0, 80) + "...";
    }
}
