package agent

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// ticksPerSecond is USER_HZ, the unit of start times: 100 on every architecture
// that tare is built for.
const ticksPerSecond = 100

// sinceBoot is when a process started, as time since boot.
func sinceBoot(b linux.Birth) time.Duration {
	return time.Duration(b.StartTicks) * (time.Second / ticksPerSecond)
}

// identify says who a JVM is. group is nil where it has none that is visible.
func identify(proc linux.FS, boot string, t *process.Target, group *linux.Group, limit linux.MemoryLimit, now time.Time, uptime time.Duration) ledger.Process {
	age := uptime - sinceBoot(t.Birth)
	p := ledger.Process{
		ID:   ledger.ID{Boot: boot, PID: t.PID, StartTicks: t.Birth.StartTicks},
		PIDs: t.Status.NSpid, Name: t.Name, UID: t.Status.UID, Kind: string(t.Kind), Started: now.Add(-age),
	}
	p.Dir, p.Root, p.OwnRoot = filesOf(proc, t.PID)
	if group == nil {
		return p
	}
	p.Group = ledger.Group{Version: group.Version, Path: group.Path, Inode: inode(group.Dirs[controller(group)])}
	if dir := limit.Group.Dir; dir != "" && dir != group.Dirs[controller(group)] {
		p.Group.LimitPath = above(group, dir)
	}
	p.Container, p.PodUID = ledger.ContainerOf(group.Path)
	return p
}

// filesOf is where a process writes files: its working directory as it sees it, and
// of one with a root of its own the folder of this machine that they land in.
func filesOf(proc linux.FS, pid int) (dir, root string, ownRoot bool) {
	dir, err := os.Readlink(proc.Path(pid, "cwd"))
	if err != nil {
		return "", "", false
	}
	theirs, err1 := os.Stat(proc.Path(pid, "root") + "/")
	ours, err2 := os.Stat("/")
	if err1 != nil || err2 != nil || os.SameFile(theirs, ours) {
		return dir, "", false
	}
	return dir, upperDir(proc, pid), true
}

// passes says that a JVM is in a folder for a moment: at its start HotSpot goes into that of
// the performance data, and back (JDK: open_directory_secure_cwd of perfMemory_posix.cpp).
func passes(dir string) bool { return strings.HasPrefix(filepath.Base(dir), "hsperfdata_") }

// upperDir is the folder that the writes to a process's root go to, when that is an
// overlay (proc_pid_mountinfo(5); mount options of
// Documentation/filesystems/overlayfs.rst).
func upperDir(proc linux.FS, pid int) string {
	f, err := os.Open(proc.Path(pid, "mountinfo"))
	if err != nil {
		return ""
	}
	defer f.Close()
	sc := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 5 || fields[4] != "/" {
			continue
		}
		for option := range strings.SplitSeq(fields[len(fields)-1], ",") {
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(dir) {
				return filepath.Clean(dir)
			}
		}
	}
	return ""
}

// controller is the key of the memory controller in a group's Dirs.
func controller(g *linux.Group) string {
	if g.Version == 1 {
		return "memory"
	}
	return ""
}

// above is the path of the group at dir, which lies above g.
func above(g *linux.Group, dir string) string {
	below, ok := strings.CutPrefix(g.Dirs[controller(g)], dir)
	if !ok {
		return ""
	}
	path := strings.TrimSuffix(g.Path, below)
	if path == "" {
		return "/"
	}
	return path
}

func inode(dir string) uint64 {
	st, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
}
