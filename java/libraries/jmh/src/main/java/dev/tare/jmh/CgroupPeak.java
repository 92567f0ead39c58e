package dev.tare.jmh;

import dev.tare.memory.UnavailableException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;

/**
 * The highest usage of the process's own control group: memory.peak of v2 (kernel 5.19), memory.max_usage_in_bytes of
 * v1. On v2 of kernel 6.12 or newer a write to memory.peak lets the same open file tell the peak since then, which
 * disturbs nobody else. On v1 a reset would take the peak away from others who watch the group, so it is left alone.
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst.
 */
final class CgroupPeak {
    private final KernelFiles files;
    private final String file;
    /** Open for reset and reading; null where the kernel does not reset for one reader. */
    private RandomAccessFile own;

    private CgroupPeak(KernelFiles files, String file) {
        this.files = files;
        this.file = file;
    }

    /** Finds the group of this process where its hierarchy is usually mounted. */
    static CgroupPeak find(KernelFiles files) throws UnavailableException {
        String groups = files.text("/proc/self/cgroup");
        for (String line : groups.split("\n")) {
            String[] parts = line.split(":", 3); // ID:CONTROLLERS:PATH, cgroups(7)
            if (parts.length == 3 && Arrays.asList(parts[1].split(",")).contains("memory")) {
                return at(files, "/sys/fs/cgroup/memory", parts[2], "memory.max_usage_in_bytes");
            }
        }
        for (String line : groups.split("\n")) {
            if (line.startsWith("0::/")) {
                return at(files, "/sys/fs/cgroup", line.substring("0::".length()), "memory.peak");
            }
        }
        throw new UnavailableException("/proc/self/cgroup names no memory group");
    }

    private static CgroupPeak at(KernelFiles files, String mount, String group, String name) throws UnavailableException {
        if (!Arrays.asList(group.split("/")).contains("..")) {
            String file = mount + (group.equals("/") ? "" : group) + "/" + name;
            if (Files.isReadable(files.path(file))) {
                return new CgroupPeak(files, file);
            }
        }
        // In a container the group itself is mounted as the root.
        if (Files.isReadable(files.path(mount + "/" + name))) {
            return new CgroupPeak(files, mount + "/" + name);
        }
        throw new UnavailableException("the control group " + group + " has no readable " + name);
    }

    /** Starts a new peak. False: the kernel keeps one since the group was made. */
    boolean reset() {
        if (!file.endsWith("memory.peak")) {
            return false;
        }
        try {
            if (own == null) {
                own = new RandomAccessFile(files.path(file).toFile(), "rw");
            }
            own.seek(0);
            own.write("reset\n".getBytes(StandardCharsets.US_ASCII));
            return true;
        } catch (IOException e) {
            close();
            return false;
        }
    }

    private void close() {
        RandomAccessFile open = own;
        own = null;
        try {
            if (open != null) {
                open.close();
            }
        } catch (IOException e) {
            // Nothing was written that could be lost.
        }
    }

    /** The peak in bytes. */
    long bytes() throws UnavailableException {
        String text;
        if (own == null) {
            text = files.text(file).trim();
        } else {
            try {
                own.seek(0);
                text = String.valueOf(own.readLine()).trim();
            } catch (IOException e) {
                throw new UnavailableException(file + " cannot be read: " + e.getMessage(), e);
            }
        }
        if (!text.matches("[0-9]{1,18}")) {
            throw new UnavailableException(file + " does not say a number of bytes");
        }
        return Long.parseLong(text);
    }
}
