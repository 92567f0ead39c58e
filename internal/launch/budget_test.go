package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
)

const (
	v2Systemd = "v2-systemd-6.1"
	v2Docker  = "v2-docker-6.1"
	v1Docker  = "v1-docker-6.18"
	v1Hybrid  = "v1-hybrid-6.18"
	appFiles  = "sys/fs/cgroup/system.slice/app.service/"
)

// container is a system of a recorded tree of process 100, with 2 GiB of which
// half is available, 2 processors, Linux 6.1 and huge pages on request; files
// replace its own.
func container(t testing.TB, tree string, files map[string]string) System {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("..", "linux", "testdata", "cgroup", tree))); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"proc/meminfo":                               "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n",
		"proc/sys/kernel/osrelease":                  "6.1.0-18-amd64\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		writeFile(t, filepath.Join(root, name), text)
	}
	proc := linux.NewFS(filepath.Join(root, "proc"))
	return System{Proc: proc, Groups: linux.NewCgroupFS(proc, root), Sys: filepath.Join(root, "sys"), PID: 100, CPUs: 2}
}

// limited is a container of cgroup v2 with a memory limit.
func limited(t testing.TB, bytes int64) System {
	return container(t, v2Systemd, map[string]string{
		appFiles + "memory.max": fmt.Sprintf("%d\n", bytes), "sys/fs/cgroup/system.slice/memory.max": "max\n",
		"proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 33554432 kB\n",
	})
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBudgetMemory(t *testing.T) {
	const max, slice = appFiles + "memory.max", "sys/fs/cgroup/system.slice/memory.max"
	for _, c := range []struct {
		name, tree string
		files      map[string]string
		mebibytes  int64
		from       string
	}{
		{"own limit", v2Systemd, nil, 256, "app.service"},
		{"limit above", v2Systemd, map[string]string{slice: "134217728\n"}, 128, "memory.max of"},
		{"memory.high", v2Systemd, map[string]string{appFiles + "memory.high": "104857600\n"}, 100, "memory.high of"},
		{"max", v2Systemd, map[string]string{max: "max\n", slice: "max\n"}, 2048, "the machine"},
		{"more than the machine", v2Systemd, map[string]string{max: "9223372036854771712\n", slice: "max\n"}, 2048, "the machine"},
		{"namespace", v2Docker, nil, 96, "memory.max of"},
		{"v1", v1Docker, nil, 256, "memory.limit_in_bytes of"},
		{"v1, limit above all that is visible", v1Docker, map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 256, "a control group above"},
		{"hybrid", v1Hybrid, nil, 256, "memory.limit_in_bytes of"},
	} {
		b := readBudget(container(t, c.tree, c.files), jvmopts.Release{Feature: 21})
		if b.Problem != nil || b.MemoryBytes != c.mebibytes*mib || !strings.Contains(b.MemoryFrom, c.from) || b.Limited != (c.mebibytes < 2048) {
			t.Errorf("%s: %+v", c.name, b)
		}
		if b.Limited != (b.OthersBytes == 0) {
			t.Errorf("%s: %d bytes of others", c.name, b.OthersBytes)
		}
	}
}

// What is nonsense is no reason not to start.
func TestBudgetNonsense(t *testing.T) {
	for file, text := range map[string]string{
		appFiles + "memory.max": "-1\n", appFiles + "memory.high": "lots\n", "proc/meminfo": "MemTotal: x\n",
		"proc/100/cgroup": "0:\n", "proc/self/mountinfo": "none\n", "sys/fs/cgroup/system.slice/memory.max": "0x10\n",
	} {
		b := readBudget(container(t, v2Systemd, map[string]string{file: text}), jvmopts.Release{Feature: 21})
		if b.Problem == nil || b.MemoryBytes != 0 || b.CPUs != 2 {
			t.Errorf("%s %q: %+v", file, text, b)
		}
	}
	b := readBudget(container(t, v2Systemd, map[string]string{appFiles + "cpu.max": "half\n"}), jvmopts.Release{Feature: 21})
	if b.Problem == nil || b.MemoryBytes != 256*mib || b.CPUs != 2 {
		t.Errorf("a bad quota: %+v", b)
	}
}

func TestBudgetProcessors(t *testing.T) {
	v2 := func(name, text string) map[string]string { return map[string]string{appFiles + name: text} }
	v1 := func(name, text string) map[string]string {
		return map[string]string{"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpu/" + name: text}
	}
	for _, c := range []struct {
		java, tree string
		files      map[string]string
		cpus       int
		set        bool
	}{
		{"21.0.2", v2Systemd, nil, 2, false},
		{"21.0.2", v2Systemd, v2("cpu.max", "50000 100000\n"), 1, false},
		{"21.0.2", v2Systemd, v2("cpu.max", "150000 100000\n"), 2, false},
		{"21.0.2", v2Systemd, v2("cpu.max", "800000 100000\n"), 2, false},
		{"11.0.12", v2Systemd, v2("cpu.max", "50000 100000\n"), 1, true}, // this JVM knows v1 only
		{"11.0.16", v2Systemd, v2("cpu.max", "50000 100000\n"), 1, false},
		{"1.8.0_362", v2Systemd, v2("cpu.max", "50000 100000\n"), 1, true},
		{"1.8.0_372", v2Systemd, v2("cpu.max", "50000 100000\n"), 1, false},
		{"1.8.0_181", v1Docker, v1("cpu.cfs_quota_us", "100000\n"), 1, true},
		{"1.8.0_191", v1Docker, v1("cpu.cfs_quota_us", "100000\n"), 1, false},
		{"21.0.2", v1Docker, v1("cpu.shares", "512\n"), 2, false}, // counts no shares
		{"17.0.4", v1Docker, v1("cpu.shares", "512\n"), 1, false},
		{"17.0.5", v1Docker, v1("cpu.shares", "512\n"), 2, false},
		{"11.0.16", v1Docker, v1("cpu.shares", "512\n"), 1, false},
		{"11.0.17", v1Docker, v1("cpu.shares", "512\n"), 2, false},
		{"1.8.0_504", v1Docker, v1("cpu.shares", "512\n"), 1, false},
		{"1.8.0_504", v1Docker, v1("cpu.shares", "1024\n"), 2, false}, // what every group has
	} {
		b := readBudget(container(t, c.tree, c.files), jvmopts.ParseRelease(c.java))
		if b.Problem != nil || b.CPUs != c.cpus || b.SetCPUs != c.set {
			t.Errorf("%s in %s with %v: %+v", c.java, c.tree, c.files, b)
		}
	}
}
