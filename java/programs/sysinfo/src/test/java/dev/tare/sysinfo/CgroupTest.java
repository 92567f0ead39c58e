package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CgroupTest {
    private static final String V1_UNLIMITED = "9223372036854771712\n";
    private static final String V2_MOUNT =
            "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    private static final String V1_MOUNTS =
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
            + "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
            + "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
            + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    @TempDir
    private Path root;
    private Tree tree;

    @BeforeEach
    void emptyTree() {
        tree = new Tree(root);
    }

    private Cgroup read() throws IOException {
        return Cgroup.read(tree.files());
    }

    @Test
    void v2NestedGroup() throws IOException {
        tree.file("/proc/self/cgroup", "0::/user.slice/app.scope\n").file("/proc/self/mountinfo", V2_MOUNT)
                .file("/sys/fs/cgroup/user.slice/memory.max", "max\n")
                .file("/sys/fs/cgroup/user.slice/app.scope/memory.max", "104857600\n")
                .file("/sys/fs/cgroup/user.slice/app.scope/memory.current", "52428800\n");
        Cgroup group = read();
        assertEquals(2, group.version);
        assertEquals("/sys/fs/cgroup/user.slice/app.scope", group.path);
        assertEquals(104857600L, group.limitBytes);
        assertEquals(52428800L, group.usageBytes);
    }

    @Test
    void v2LimitOfAGroupAbove() throws IOException {
        tree.file("/proc/self/cgroup", "0::/pod/app\n").file("/proc/self/mountinfo", V2_MOUNT)
                .file("/sys/fs/cgroup/pod/memory.max", "1000\n")
                .file("/sys/fs/cgroup/pod/app/memory.max", "max\n")
                .file("/sys/fs/cgroup/pod/app/memory.current", "10\n");
        assertEquals(1000L, read().limitBytes);
    }

    @Test
    void v2RootHasNeitherLimitNorUsage() throws IOException {
        tree.file("/proc/self/cgroup", "0::/\n").file("/proc/self/mountinfo", V2_MOUNT)
                .file("/sys/fs/cgroup/cgroup.procs", "1\n");
        Cgroup group = read();
        assertEquals("/sys/fs/cgroup", group.path);
        assertNull(group.limitBytes);
        assertNull(group.usageBytes);
    }

    @Test
    void v2InAContainerWithItsOwnNamespace() throws IOException {
        tree.file("/proc/self/cgroup", "0::/\n")
                .file("/proc/self/mountinfo", "600 590 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n")
                .file("/sys/fs/cgroup/memory.max", "268435456\n").file("/sys/fs/cgroup/memory.current", "7\n");
        assertEquals(268435456L, read().limitBytes);
    }

    @Test
    void v2GroupOutsideOfTheNamespaceIsNotGuessed() throws IOException {
        tree.file("/proc/self/cgroup", "0::/../../etc\n").file("/proc/self/mountinfo", V2_MOUNT)
                .file("/etc/memory.max", "1\n").file("/sys/fs/cgroup/memory.current", "7\n");
        assertEquals("/sys/fs/cgroup", read().path);
        assertNull(read().limitBytes);
    }

    @Test
    void v1OnAHybridSystem() throws IOException {
        tree.file("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/batch/job7\n1:cpu,cpuacct:/x\n0::/\n")
                .file("/proc/self/mountinfo", V1_MOUNTS)
                .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED)
                .file("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "536870912\n")
                .file("/sys/fs/cgroup/memory/batch/job7/memory.limit_in_bytes", V1_UNLIMITED)
                .file("/sys/fs/cgroup/memory/batch/job7/memory.usage_in_bytes", "246984704\n");
        Cgroup group = read();
        assertEquals(1, group.version);
        assertEquals("/sys/fs/cgroup/memory/batch/job7", group.path);
        assertEquals(536870912L, group.limitBytes);
        assertEquals(246984704L, group.usageBytes);
    }

    @Test
    void v1InAContainerThatSeesTheHostsPath() throws IOException {
        // Docker without a cgroup namespace: the container's group is bind-mounted as the root.
        tree.file("/proc/self/cgroup", "4:memory:/docker/abc\n")
                .file("/proc/self/mountinfo", "700 690 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n")
                .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n")
                .file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
        Cgroup group = read();
        assertEquals("/sys/fs/cgroup/memory", group.path);
        assertEquals(104857600L, group.limitBytes);
    }

    @Test
    void v1UnlimitedIsNull() throws IOException {
        tree.file("/proc/self/cgroup", "4:memory:/\n").file("/proc/self/mountinfo", V1_MOUNTS)
                .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED)
                .file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
        assertNull(read().limitBytes);
        assertEquals(5L, read().usageBytes);
    }

    @Test
    void aMountPointWithASpace() throws IOException {
        tree.file("/proc/self/cgroup", "0::/a b\n")
                .file("/proc/self/mountinfo", "29 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n")
                .file("/mnt/my groups/a b/memory.max", "4096\n");
        assertEquals(4096L, read().limitBytes);
    }

    @Test
    void noGroupInSight() throws IOException {
        tree.file("/proc/self/cgroup", "").file("/proc/self/mountinfo", "");
        assertEquals(0, read().version);
        tree.file("/proc/self/cgroup", "garbage\n0::relative\n:::\n").file("/proc/self/mountinfo", " - \n - cgroup2\nx\n");
        assertEquals(0, read().version);
        assertNull(read().path);
    }

    @Test
    void aLimitThatIsNoNumberIsAnErrorWithTheFile() {
        tree.file("/proc/self/cgroup", "0::/\n").file("/proc/self/mountinfo", V2_MOUNT)
                .file("/sys/fs/cgroup/memory.max", "-1\n");
        String message = assertThrows(IOException.class, this::read).getMessage();
        assertEquals("/sys/fs/cgroup/memory.max: '-1' is not a number of bytes", message);
    }

    @Test
    void thisMachine() throws IOException {
        Cgroup group = Cgroup.read(new ProcFs(Path.of("/")));
        assertTrue(group.version >= 0 && group.version <= 2);
        assertTrue(group.limitBytes == null || group.limitBytes > 0);
    }
}
