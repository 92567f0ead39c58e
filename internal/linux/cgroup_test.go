package linux

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recorded is a tree of testdata/cgroup: what a reader saw of a real machine,
// named after the kernel.
func recorded(tree string) CgroupFS {
	root := filepath.Join("testdata", "cgroup", tree)
	return NewCgroupFS(NewFS(filepath.Join(root, "proc")), root)
}

const dockerGroup = "/docker/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestGroup(t *testing.T) {
	for _, c := range []struct {
		tree    string
		pid     int
		version int
		path    string
		dirs    map[string]string // below /sys/fs/cgroup
	}{
		{"v1-hybrid-6.18", 100, 1, dockerGroup + "/app", map[string]string{
			"memory": "memory" + dockerGroup + "/app", "cpu": "cpu", "cpuacct": "cpuacct", "cpuset": "cpuset",
			"name=systemd": "systemd", "": "unified"}},
		{"v1-docker-6.18", 100, 1, dockerGroup + "/app", map[string]string{
			"memory": "memory/app", "cpu": "cpu", "cpuacct": "cpuacct", "cpuset": "cpuset", "name=systemd": "systemd"}},
		{"v1-docker-cgroupns-6.18", 100, 1, "/app", map[string]string{"memory": "memory/app", "cpuacct": "cpuacct"}},
		{"v2-systemd-6.1", 100, 2, "/system.slice/app.service", map[string]string{"": "system.slice/app.service"}},
		{"v2-systemd-6.1", 1, 2, "/", map[string]string{"": ""}},
		{"v2-docker-6.1", 100, 2, "/", map[string]string{"": ""}},
	} {
		fs := recorded(c.tree)
		g, err := fs.Group(c.pid)
		if err != nil {
			t.Errorf("%s, %d: %v", c.tree, c.pid, err)
			continue
		}
		for controller, dir := range c.dirs {
			c.dirs[controller] = filepath.Join(fs.root, "sys/fs/cgroup", dir)
		}
		if g.Version != c.version || g.Path != c.path || !reflect.DeepEqual(g.Dirs, c.dirs) {
			t.Errorf("%s, %d: v%d %s %v, want v%d %s %v", c.tree, c.pid, g.Version, g.Path, g.Dirs, c.version, c.path, c.dirs)
		}
		controller := ""
		if g.Version == 1 {
			controller = "memory"
		}
		if dir, ok := g.Dir(controller, g.Path); !ok || dir != g.Dirs[controller] {
			t.Errorf("%s: Dir of its own path is %s, %v", c.tree, dir, ok)
		}
	}
}

// A process outside of the reader's cgroup namespace has a path through "..",
// which no mount shows.
func TestGroupOutsideNamespace(t *testing.T) {
	_, err := recorded("v2-docker-6.1").Group(101)
	if err == nil || !strings.Contains(err.Error(), "/../app.service of process 101 is not visible here") {
		t.Fatalf("error %v", err)
	}
}

// A node's hierarchy that is mounted in a container shows what is outside of the
// container's cgroup namespace: mountinfo and cgroup are as Linux 6.18 writes them.
func TestGroupFromAbove(t *testing.T) {
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/pod[1].slice"
	root := t.TempDir()
	for file, text := range map[string]string{
		"proc/self/mountinfo": "34 33 0:25 /../../../.. /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n",
		"proc/1/cgroup":       "0::/\n", "proc/7/cgroup": "0::/../app\n", "proc/8/cgroup": "0::/../app/jobs[*]\n",
		"proc/9/cgroup": "0::/../../../../system.slice\n", "proc/10/cgroup": "0::/../gone\n",
		"proc/11/cgroup": "0::/../../../../../x\n", "proc/12/cgroup": "0::/../../app/../app\n",
		pod + "/agent/cgroup.procs": "1\n", pod + "/app/cgroup.procs": "0\n7\n", pod + "/app/jobs[*]/cgroup.procs": "8\n",
		strings.Replace(pod, "[1]", "2", 1) + "/app/cgroup.procs": "70\n0\n", "sys/fs/cgroup/system.slice/cgroup.procs": "9\n",
	} {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, name, text)
	}
	fs := NewCgroupFS(NewFS(filepath.Join(root, "proc")), root)
	for pid, dir := range map[int]string{1: pod + "/agent", 7: pod + "/app", 8: pod + "/app/jobs[*]", 9: "sys/fs/cgroup/system.slice"} {
		g, err := fs.Group(pid)
		if err != nil {
			t.Errorf("%d: %v", pid, err)
			continue
		}
		if got, ok := g.Dir("", g.Path); g.Dirs[""] != filepath.Join(root, dir) || pid != 9 && "sys/fs/cgroup"+g.Path != dir || got != g.Dirs[""] || !ok || g.Top("") != filepath.Join(root, "sys/fs/cgroup") {
			t.Errorf("%d: %+v, %s", pid, g, got)
		}
	}
	for _, pid := range []int{10, 11, 12} {
		if g, err := fs.Group(pid); err == nil {
			t.Errorf("%d: %+v", pid, g)
		}
	}
}

func TestMemoryOf(t *testing.T) {
	for _, c := range []struct {
		tree         string
		pid          int
		limit, usage int64
		dir          string // below /sys/fs/cgroup
	}{
		{"v1-hybrid-6.18", 100, 256 << 20, 8470528, "memory" + dockerGroup},
		{"v1-docker-6.18", 100, 256 << 20, 790528, "memory"},
		{"v1-docker-cgroupns-6.18", 100, 256 << 20, 2273280, "memory"},
		{"v2-systemd-6.1", 100, 256 << 20, 360448, "system.slice/app.service"},
		{"v2-systemd-6.1", 101, 0, 3178496, "user.slice/user-1000.slice"},
		{"v2-docker-6.1", 100, 96 << 20, 3092480, ""},
	} {
		fs := recorded(c.tree)
		m, err := fs.MemoryOf(c.pid)
		if err != nil {
			t.Errorf("%s, %d: %v", c.tree, c.pid, err)
			continue
		}
		if dir := filepath.Join(fs.root, "sys/fs/cgroup", c.dir); m.LimitBytes != c.limit || m.UsageBytes != c.usage ||
			m.Dir != dir || m.LimitHidden || len(m.Stat) < 20 {
			t.Errorf("%s, %d: %+v, want limit %d, usage %d, dir %s", c.tree, c.pid, m, c.limit, c.usage, dir)
		}
	}
}

// The root of the v2 hierarchy has no memory.current.
func TestMemoryOfRoot(t *testing.T) {
	m, err := recorded("v2-systemd-6.1").MemoryOf(1)
	if err != nil {
		t.Fatal(err)
	}
	if m.LimitBytes != 0 || m.UsageBytes == 0 || m.UsageBytes != m.Stat["anon"]+m.Stat["file"] {
		t.Fatalf("%+v", m)
	}
}

// edited is a copy of a recorded tree in which one file is different.
func edited(t *testing.T, tree, file, text string) CgroupFS {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", "cgroup", tree))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, file), text)
	return NewCgroupFS(NewFS(filepath.Join(root, "proc")), root)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The limit of the outermost of several equal groups is the one that binds.
func TestMemoryOfEqualLimits(t *testing.T) {
	fs := edited(t, "v2-systemd-6.1", "sys/fs/cgroup/system.slice/memory.max", "268435456\n")
	m, err := fs.MemoryOf(100)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(fs.root, "sys/fs/cgroup/system.slice"); m.Dir != want || m.UsageBytes != 663552 {
		t.Fatalf("%+v, want %s", m, want)
	}
}

// Cgroup v1 tells of a limit above what a container sees.
func TestMemoryOfHiddenLimit(t *testing.T) {
	fs := edited(t, "v1-docker-6.18", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	m, err := fs.MemoryOf(100)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(fs.root, "sys/fs/cgroup/memory/app"); m.LimitBytes != 256<<20 || !m.LimitHidden || m.Dir != want {
		t.Fatalf("%+v", m)
	}
}

// Without the memory controller a group has no memory files; the next group
// above counts for it.
func TestMemoryOfControllerOff(t *testing.T) {
	fs := edited(t, "v2-systemd-6.1", "sys/fs/cgroup/system.slice/app.service/cpu.stat", "")
	dir := filepath.Join(fs.root, "sys/fs/cgroup/system.slice")
	names, err := filepath.Glob(filepath.Join(dir, "app.service", "memory.*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, n := range names {
		os.Remove(n)
	}
	m, err := fs.MemoryOf(100)
	if err != nil || m.LimitBytes != 512<<20 || m.Dir != dir {
		t.Fatalf("%+v, %v", m, err)
	}
}

// memory.high of any group on the path counts, the smallest of them.
func TestMemoryLimitHigh(t *testing.T) {
	limit := func(fs CgroupFS) (MemoryLimit, error) {
		t.Helper()
		g, err := fs.Group(100)
		if err != nil {
			t.Fatal(err)
		}
		return g.MemoryLimit()
	}
	fs := edited(t, "v2-systemd-6.1", "sys/fs/cgroup/system.slice/app.service/memory.high", "201326592\n")
	write(t, filepath.Join(fs.root, "sys/fs/cgroup/system.slice/memory.high"), "402653184\n")
	l, err := limit(fs)
	if err != nil || l.Bytes != 256<<20 || l.HighBytes != 192<<20 || l.HighDir != filepath.Join(fs.root, "sys/fs/cgroup/system.slice/app.service") {
		t.Errorf("%+v, %v", l, err)
	}
	fs = edited(t, "v2-systemd-6.1", "sys/fs/cgroup/system.slice/app.service/memory.high", "lots\n")
	if _, err := limit(fs); err == nil || !strings.Contains(err.Error(), "app.service/memory.high") {
		t.Errorf("error %v", err)
	}
}

func TestMemoryOfErrors(t *testing.T) {
	for _, c := range []struct{ tree, file, text, want string }{
		{"v2-systemd-6.1", "sys/fs/cgroup/system.slice/memory.max", "plenty\n",
			`system.slice/memory.max: line 1: the value is not a number: "plenty"`},
		{"v2-systemd-6.1", "sys/fs/cgroup/system.slice/app.service/memory.stat", "anon 1\nfile x\n",
			`app.service/memory.stat: line 2: the value is not a number: "file x"`},
		{"v1-hybrid-6.18", "sys/fs/cgroup/memory" + dockerGroup + "/app/memory.stat", "cache 1\n",
			"app/memory.stat: no hierarchical_memory_limit"},
		{"v1-hybrid-6.18", "proc/100/cgroup", "4:memory\n", `100/cgroup: line 1: want hierarchy:controllers:path: "4:memory"`},
		{"v1-hybrid-6.18", "proc/self/mountinfo", "22 27 0:21 / /proc rw\n", "self/mountinfo: line 1: no separator"},
		{"v1-hybrid-6.18", "proc/100/cgroup", "3:cpuset:/\n", "process 100 is in no cgroup with a memory controller"},
	} {
		if _, err := edited(t, c.tree, c.file, c.text).MemoryOf(100); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.file, err, c.want)
		}
	}
	if _, err := recorded("v2-systemd-6.1").MemoryOf(7); !os.IsNotExist(err) {
		t.Errorf("no such process: %v", err)
	}
}

func TestMemoryGroup(t *testing.T) {
	for _, c := range []struct {
		group            MemoryGroup
		limit, low, high int64
	}{
		{MemoryGroup{1, "testdata/cgroup/v1-hybrid-6.18/sys/fs/cgroup/memory" + dockerGroup}, 256 << 20, 8470528, 64 << 20},
		{MemoryGroup{2, "testdata/cgroup/v2-systemd-6.1/sys/fs/cgroup/system.slice/app.service"}, 256 << 20, 360448, 64 << 20},
	} {
		limit, limited, err := c.group.Limit()
		if err != nil || !limited || limit != c.limit {
			t.Errorf("%+v: limit %d, %v, %v", c.group, limit, limited, err)
		}
		if usage, err := c.group.Usage(); err != nil || usage != c.low {
			t.Errorf("%+v: usage %d, %v", c.group, usage, err)
		}
		if peak, err := c.group.Peak(); err != nil || peak < c.low || peak > c.high {
			t.Errorf("%+v: peak %d, %v", c.group, peak, err)
		}
		if kills, err := c.group.OOMKills(); err != nil || kills != 0 {
			t.Errorf("%+v: kills %d, %v", c.group, kills, err)
		}
	}
	unlimited := MemoryGroup{1, "testdata/cgroup/v1-hybrid-6.18/sys/fs/cgroup/memory"}
	if n, limited, err := unlimited.Limit(); n != 0 || limited || err != nil {
		t.Errorf("unlimited: %d, %v, %v", n, limited, err)
	}
}

func TestReadCgroupPressure(t *testing.T) {
	if _, err := ReadCgroupPressure("testdata/cgroup/v2-systemd-6.1/sys/fs/cgroup/system.slice", "memory.pressure"); err != nil {
		t.Fatal(err)
	}
	p, err := ParsePressure(strings.NewReader(
		"some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\nfull avg10=0.22 avg60=0.16 avg300=1.08 total=58464525\n"))
	if err != nil || p.Some.Microseconds() != 58761459 || p.Full.Microseconds() != 58464525 || p.Some300 != 1.11 {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "full total=1", "some avg10=0", "some total=x", "some total=-1", "some avg300=x total=1", "some avg300=101 total=1", "some avg300=NaN total=1"} {
		if _, err := ParsePressure(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseCPUList(t *testing.T) {
	for s, want := range map[string][]int{
		"": nil, "\n": nil, "0\n": {0}, "0-1,3": {0, 1, 3}, "3,0-1,1": {0, 1, 3}, "8191": {8191},
	} {
		if got, err := ParseCPUList(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, bad := range []string{"a", "1-", "-1", "3-1", "0,,1", "8192", "0-99999999999", "+1", "0 1"} {
		if got, err := ParseCPUList(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestRelativeTo(t *testing.T) {
	for _, c := range []struct {
		root, path, want string
		ok               bool
	}{
		{"/", "/", "", true}, {"/", "/a/b", "a/b", true}, {"/a", "/a", "", true}, {"/a", "/a/b", "b", true},
		{"/a", "/ab", "", false}, {"/a", "/", "", false}, {"/", "/../b", "", false}, {"/..", "/../b", "b", true},
		{"/..", "/../..", "", false}, {"/../..", "/", "", false},
	} {
		if got, ok := relativeTo(c.root, c.path); got != c.want || ok != c.ok {
			t.Errorf("%s in %s: %q, %v", c.path, c.root, got, ok)
		}
	}
}

func FuzzParseProcCgroup(f *testing.F) {
	addFiles(f, "testdata/cgroup/*/proc/*/cgroup")
	f.Fuzz(func(t *testing.T, text string) {
		hierarchies, err := ParseProcCgroup(strings.NewReader(text))
		if err != nil {
			return
		}
		if n := strings.Count(text, "\n") + 1; len(hierarchies) > n {
			t.Fatalf("%d hierarchies from %d lines", len(hierarchies), n)
		}
		for _, h := range hierarchies {
			if !strings.HasPrefix(h.Path, "/") || h.ID < 0 || (h.ID == 0) != (len(h.Controllers) == 0) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

func FuzzParseCgroupMounts(f *testing.F) {
	addFiles(f, "testdata/cgroup/*/proc/self/mountinfo")
	f.Add(`36 35 98:0 /a\040b /mnt\134 rw - cgroup  rw,memory`)
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := parseCgroupMounts(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range mounts {
			if m.version != 1 && m.version != 2 || m.root[0] != '/' || m.point[0] != '/' {
				t.Fatalf("%+v", m)
			}
			// What is found below a mount stays below it.
			if rel, ok := relativeTo(m.root, "/x/../y"); ok && strings.Contains("/"+rel+"/", "/../") {
				t.Fatalf("%q leads out of %q", rel, m.root)
			}
		}
	})
}

func FuzzParseCgroupKeyed(f *testing.F) {
	addFiles(f, "testdata/cgroup/*/sys/fs/cgroup/memory.stat")
	f.Add("oom_kill 18446744073709551615\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := ParseCgroupKeyed(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, n := range values {
			if n < 0 || name == "" || !strings.Contains(text, name+" ") {
				t.Fatalf("%q %d", name, n)
			}
		}
	})
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-1,3")
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := ParseCPUList(s)
		for i, c := range cpus {
			if err != nil || c < 0 || c >= maxCPUs || i > 0 && cpus[i-1] >= c {
				t.Fatalf("%q: %v", s, cpus)
			}
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	addFiles(f, "testdata/cgroup/*/sys/fs/cgroup/memory.pressure")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePressure(strings.NewReader(text)); err == nil && (p.Some < 0 || p.Full < 0 || !(p.Some300 >= 0 && p.Some300 <= 100)) {
			t.Fatalf("%+v", p)
		}
	})
}

func addFiles(f *testing.F, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		f.Fatalf("%s: %v, %v", pattern, names, err)
	}
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
}
