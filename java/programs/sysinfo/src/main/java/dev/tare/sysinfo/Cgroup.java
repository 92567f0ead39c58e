package dev.tare.sysinfo;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Memory limit and usage of the control group that this process is in, v1 or v2.
 *
 * <p>{@code /proc/self/cgroup} names the group, {@code /proc/self/mountinfo} where its hierarchy is mounted and which
 * part of it; a container may see its own group as the root of the mount. Limits of groups above count as well: the
 * smallest in sight is the limit. Formats: cgroups(7), proc(5), Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst of the kernel.
 */
final class Cgroup {
    /** v1 writes "no limit" as the largest number of whole pages; nothing as large is a limit. */
    private static final long UNLIMITED = 1L << 60;

    /** 1 or 2; 0 when no memory group can be seen. */
    final int version;
    /** The group's folder in this mount namespace; null when none can be seen. */
    final String path;
    /** The smallest limit of the group and those above, in bytes; null: none. */
    final Long limitBytes;
    /** What the group is charged with, page cache included, in bytes; null: the kernel does not tell (v2 root). */
    final Long usageBytes;

    private Cgroup(int version, String path, Long limitBytes, Long usageBytes) {
        this.version = version;
        this.path = path;
        this.limitBytes = limitBytes;
        this.usageBytes = usageBytes;
    }

    static Cgroup read(ProcFs files) throws IOException {
        String groups = files.text("/proc/self/cgroup");
        String mounts = files.text("/proc/self/mountinfo");
        // On a hybrid system memory belongs to v1 although a v2 hierarchy is mounted: a controller has one home.
        String v1 = groupPath(groups, "memory");
        if (v1 != null) {
            return at(files, 1, v1, mount(mounts, "cgroup", "memory"));
        }
        String v2 = groupPath(groups, null);
        return v2 == null ? none() : at(files, 2, v2, mount(mounts, "cgroup2", null));
    }

    private static Cgroup none() {
        return new Cgroup(0, null, null, null);
    }

    private static Cgroup at(ProcFs files, int version, String group, Mount mount) throws IOException {
        if (mount == null) {
            return none();
        }
        String limitFile = version == 1 ? "memory.limit_in_bytes" : "memory.max";
        String usageFile = version == 1 ? "memory.usage_in_bytes" : "memory.current";
        String folder = mount.folderOf(group);
        if (!files.exists(folder)) {
            // A mount of another group's subtree, as containers without a cgroup namespace have: its root is ours.
            folder = mount.point;
        }
        return new Cgroup(version, folder, smallestLimit(files, folder, mount.point, limitFile),
                optionalBytes(files, folder + "/" + usageFile));
    }

    /** The smallest limit from a folder up to the mount point, which is the folder itself or above it. */
    private static Long smallestLimit(ProcFs files, String folder, String mountPoint, String file) throws IOException {
        Long smallest = null;
        for (String at = folder; ; at = at.substring(0, at.lastIndexOf('/'))) {
            Long limit = optionalBytes(files, at + "/" + file);
            if (limit != null && (smallest == null || limit < smallest)) {
                smallest = limit;
            }
            if (at.equals(mountPoint)) {
                return smallest;
            }
        }
    }

    /**
     * The path of the process in {@code /proc/self/cgroup}, lines {@code ID:CONTROLLERS:PATH}.
     *
     * @param controller a v1 controller; null: the v2 hierarchy, which has ID 0 and no controllers
     */
    static String groupPath(String groups, String controller) {
        for (String line : groups.split("\n")) {
            String[] parts = line.split(":", 3);
            if (parts.length == 3 && parts[2].startsWith("/")) {
                boolean wanted = controller == null
                        ? parts[0].equals("0") && parts[1].isEmpty()
                        : Arrays.asList(parts[1].split(",")).contains(controller);
                if (wanted) {
                    return parts[2];
                }
            }
        }
        return null;
    }

    /** Where a hierarchy is mounted, and which of its groups is the root there. */
    private static final class Mount {
        private final String root;
        private final String point;

        private Mount(String root, String point) {
            this.root = root;
            this.point = point.equals("/") ? "" : point;
        }

        /** The folder of a group; the mount's own folder when the group is not below its root. */
        private String folderOf(String group) {
            List<String> above = names(root);
            List<String> all = names(group);
            if (all.contains("..") || all.size() < above.size() || !all.subList(0, above.size()).equals(above)) {
                return point;
            }
            StringBuilder folder = new StringBuilder(point);
            for (String name : all.subList(above.size(), all.size())) {
                folder.append('/').append(name);
            }
            return folder.toString();
        }

        private static List<String> names(String path) {
            List<String> names = new ArrayList<>(Arrays.asList(path.split("/")));
            names.removeAll(Collections.singleton(""));
            return names;
        }
    }

    /** A line of mountinfo: ID PARENT DEV ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS. */
    private static Mount mount(String mounts, String type, String superOption) {
        for (String line : mounts.split("\n")) {
            int dash = line.indexOf(" - ");
            if (dash < 0) {
                continue;
            }
            String[] before = line.substring(0, dash).split(" ");
            String[] after = line.substring(dash + 3).split(" ");
            boolean known = before.length >= 6 && after.length >= 3 && after[0].equals(type);
            if (known && (superOption == null || Arrays.asList(after[2].split(",")).contains(superOption))) {
                return new Mount(unescape(before[3]), unescape(before[4]));
            }
        }
        return null;
    }

    /** Space, tab, newline and backslash are written as \ooo. */
    private static String unescape(String field) {
        return field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    }

    /** A number of bytes in a file; null when there is no such file, or it says that there is no limit. */
    private static Long optionalBytes(ProcFs files, String file) throws IOException {
        if (!files.exists(file)) {
            return null;
        }
        String text = files.text(file).trim();
        if (text.equals("max")) {
            return null;
        }
        if (!text.matches("[0-9]{1,19}")) {
            throw new IOException(file + ": '" + (text.length() > 40 ? text.substring(0, 40) : text) + "' is not a number of bytes");
        }
        long bytes = text.length() == 19 && text.compareTo("9223372036854775807") > 0 ? UNLIMITED : Long.parseLong(text);
        return bytes >= UNLIMITED ? null : bytes;
    }
}
