package dev.tare.workloads;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;

/** This process's id, on every Java since 8, which has no call for it. */
final class ProcessId {
    private ProcessId() {}

    /**
     * The process id as this process sees itself (inside a container: the container's number).
     *
     * <p>{@code /proc/self} is a link to the caller's process id. Where there is no proc file system, the name of
     * the runtime bean is {@code PID@HOST} on HotSpot.
     *
     * @throws IllegalStateException when neither tells
     */
    static long get() {
        try {
            return Long.parseLong(new File("/proc/self").getCanonicalFile().getName());
        } catch (IOException | NumberFormatException noProc) {
            String name = ManagementFactory.getRuntimeMXBean().getName();
            int at = name.indexOf('@');
            if (at > 0 && name.substring(0, at).matches("[0-9]{1,18}")) {
                return Long.parseLong(name.substring(0, at));
            }
            throw new IllegalStateException("cannot tell the process id: no /proc/self, and the JVM calls itself '" + name + "'");
        }
    }
}
