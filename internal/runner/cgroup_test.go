package runner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/runnertest"
)

// parentEnv names the group that the runners of a process that a test starts
// use; it would find the test itself in its own group.
const parentEnv = "TARE_TEST_PARENT"

func newCgroup(t testing.TB, parent string) *runner.Cgroup {
	t.Helper()
	r, err := runner.NewCgroup(runner.CgroupOptions{Parent: parent})
	if err != nil {
		t.Fatal(err)
	}
	c := r.(*runner.Cgroup)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// memoryGroup is the group of this process in the memory controller's
// hierarchy.
func memoryGroup(t testing.TB) (g *linux.Group, controller string) {
	t.Helper()
	g, err := linux.NewCgroupFS(linux.NewFS("/proc"), "/").Group(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if g.Version == 1 {
		controller = "memory"
	}
	return g, controller
}

// testParent makes an empty group for runners: below this process's own, or on
// v2 below the nearest one that may have children with a memory controller.
func testParent(t testing.TB) string {
	t.Helper()
	g, controller := memoryGroup(t)
	path := g.Path
	for g.Version == 2 && path != "/" {
		dir, _ := g.Dir("", path)
		if controls(t, dir, "memory") {
			break
		}
		path = filepath.Dir(path)
	}
	path = filepath.Join(path, fmt.Sprintf("runner-test-%d-%d", os.Getpid(), parents.Add(1)))
	dir, _ := g.Dir(controller, path)
	makeDir(t, dir)
	return path
}

var parents atomic.Int64

func makeDir(t testing.TB, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("not everything was removed: %v", err)
		}
	})
}

func controls(t testing.TB, dir, controller string) bool {
	t.Helper()
	return slices.Contains(strings.Fields(read(t, filepath.Join(dir, "cgroup.subtree_control"))), controller)
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// With a parent that is not the root of the hierarchy.
func TestCgroup(t *testing.T) {
	parent := os.Getenv(parentEnv)
	if parent == "" {
		parent = testParent(t)
		t.Setenv(parentEnv, parent)
	}
	runnertest.Run(t, runnertest.Groups, func(t *testing.T) runner.Runner { return newCgroup(t, parent) })
}

// Another group of the wanted name is neither adopted nor removed, and what
// was made beside it is.
func TestExists(t *testing.T) {
	parent := testParent(t)
	c := newCgroup(t, parent)
	limits := runner.Limits{MemoryBytes: 64 << 20, CPUs: 1, Cpuset: "0"}
	for i := range runner.NextDirs(c) {
		dirs := slices.Sorted(slices.Values(runner.NextDirs(c)))
		taken := dirs[i]
		if err := os.Mkdir(taken, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := c.Start(t.Context(), runner.Spec{Args: []string{"/proc/self/exe"}, Limits: limits})
		if !errors.Is(err, runner.ErrExists) || !strings.Contains(err.Error(), taken) {
			t.Errorf("%s exists: error %v", taken, err)
		}
		if err := os.Remove(taken); err != nil {
			t.Errorf("the other group: %v", err)
		}
		for _, dir := range dirs {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	}
}

// The kernel holds exactly the limits that were asked for, and swap is limited
// together with memory.
func TestLimitFiles(t *testing.T) {
	c := newCgroup(t, testParent(t))
	cpus := oneCPU(t)
	g, err := runner.MakeGroup(c, runner.Limits{MemoryBytes: 64 << 20, CPUs: 1.5, Cpuset: cpus})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	want := map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000",
		"cpuset.cpus": cpus,
	}
	if c.Name() == "cgroup v1" {
		want = map[string]string{
			"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864",
			"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000", "cpuset.cpus": cpus,
		}
	}
	for _, dir := range g.Dirs() {
		for name, value := range want {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				if got := strings.TrimSpace(string(text)); got != value {
					t.Errorf("%s/%s: %s, want %s", dir, name, got, value)
				}
				delete(want, name)
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("not set: %v", want)
	}
}

// cpuList is the processors that groups here can have.
func cpuList(t *testing.T) string {
	t.Helper()
	g, _ := memoryGroup(t)
	if dir, ok := g.Dirs["cpuset"]; ok {
		return read(t, filepath.Join(dir, "cpuset.effective_cpus"))
	}
	return read(t, filepath.Join(g.Top(""), "cpuset.cpus.effective"))
}

// oneCPU is one of them.
func oneCPU(t *testing.T) string {
	t.Helper()
	cpus, err := linux.ParseCPUList(cpuList(t))
	if err != nil || len(cpus) == 0 {
		t.Fatal(cpus, err)
	}
	return strconv.Itoa(cpus[len(cpus)-1])
}

// Whoever starts processes stays where it is, with all its threads.
func TestCallerStays(t *testing.T) {
	c := newCgroup(t, testParent(t))
	before := threadGroups(t)
	p, err := c.Start(t.Context(), runner.Spec{Args: []string{"/proc/self/exe", "hold"}, Env: []string{"TARE_RUNNERTEST_HELPER=1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if after := threadGroups(t); !slices.Equal(after, before) {
		t.Errorf("this process was in %q, is in %q", before, after)
	}
	for _, dir := range runner.GroupDirs(p) {
		if got := read(t, filepath.Join(dir, "cgroup.procs")); got != strconv.Itoa(runner.PID(p)) {
			t.Errorf("in %s are %q, want %d alone", dir, got, runner.PID(p))
		}
	}
}

// threadGroups are the different groups of this process's threads.
func threadGroups(t *testing.T) []string {
	t.Helper()
	fs := linux.NewFS("/proc")
	tids, err := fs.TIDs(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, tid := range tids {
		// A thread may end meanwhile.
		if text, err := os.ReadFile(fs.Path(os.Getpid(), "task", strconv.Itoa(tid), "cgroup")); err == nil {
			groups = append(groups, string(text))
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Leftovers are removed with what is nested in them; what may have an owner,
// or has another kind of name, is not.
func TestSweepNames(t *testing.T) {
	alone.Take(t) // no other tare sweeps, as every fit does
	parent := testParent(t)
	c := newCgroup(t, parent)
	g, controller := memoryGroup(t)
	dir, _ := g.Dir(controller, parent)
	const noProcess = 1 << 30 // above the largest PID
	gone := []string{
		runner.LeftoverName(c, noProcess, false),
		runner.LeftoverName(c, noProcess, true),
		runner.LeftoverName(c, os.Getpid(), false), // the PID was given to another process
	}
	spared := []string{
		"tare", "tare-1", "tare-a-1-1-1", "tare-self-1", "other", runner.ForeignName(c),
		runner.LeftoverName(c, noProcess, false) + "-1", "x" + runner.LeftoverName(c, noProcess, false),
	}
	for _, name := range spared {
		makeDir(t, filepath.Join(dir, name))
	}
	for _, name := range gone {
		if err := os.MkdirAll(filepath.Join(dir, name, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	nested := filepath.Join(dir, "other", runner.LeftoverName(c, noProcess, false))
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	removed, err := c.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{nested}
	for _, name := range gone {
		want = append(want, filepath.Join(dir, name))
	}
	// Other leftovers may have been in hierarchies where there is no such parent.
	removed = slices.DeleteFunc(removed, func(d string) bool { return !strings.HasPrefix(d, dir+"/") })
	slices.Sort(removed)
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	for _, d := range want {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s is left", d)
		}
	}
}

// A group of another PID namespace is removed when nobody holds it, and it was
// not made just now.
func TestSweepOtherNamespace(t *testing.T) {
	alone.Take(t) // no other tare sweeps, as every fit does
	parent := testParent(t)
	c := newCgroup(t, parent)
	g, controller := memoryGroup(t)
	dir, _ := g.Dir(controller, parent)
	path := filepath.Join(dir, runner.ForeignName(c))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	sweep := func() bool {
		if _, err := c.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(path)
		return err != nil
	}
	if sweep() {
		t.Fatal("a group that was made just now was removed")
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	let, err := runner.Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if sweep() {
		t.Fatal("a group that is held was removed")
	}
	let()
	if !sweep() {
		t.Error("a group without an owner is left")
	}
}

// The owner of a group holds it as long as the process is not closed.
func TestHeld(t *testing.T) {
	c := newCgroup(t, testParent(t))
	p, err := c.Start(t.Context(), runner.Spec{Args: []string{"/bin/true"}, Limits: runner.Limits{MemoryBytes: 64 << 20, CPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, dir := range runner.GroupDirs(p) {
		if let, err := runner.Hold(dir); err == nil {
			let()
			t.Errorf("%s is not held", dir)
		}
	}
}

// A process that is killed for the limit of a group above is told from one that
// reached its own.
func TestKilledForParent(t *testing.T) {
	parent := testParent(t)
	g, controller := memoryGroup(t)
	dir, _ := g.Dir(controller, parent)
	files := []string{"memory.swap.max", "memory.max"}
	values := []string{"0", "33554432"}
	if g.Version == 1 {
		files, values = []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}, []string{"33554432", "33554432"}
	}
	for i, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(values[i]), 0); err != nil {
			t.Fatal(err)
		}
	}
	c := newCgroup(t, parent)
	for limit, own := range map[int64]bool{16 << 20: true, 128 << 20: false, 0: false} {
		p, err := c.Start(t.Context(), runner.Spec{Args: []string{"/proc/self/exe", "eat", strconv.Itoa(64 << 20)},
			Env: []string{"TARE_RUNNERTEST_HELPER=1"}, Limits: runner.Limits{MemoryBytes: limit}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		u, err := p.Usage(t.Context())
		if err != nil || u.OOMKills == 0 || (u.LimitHits > 0) != own {
			t.Errorf("limit %d: %+v, %v", limit, u, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoSuchParent(t *testing.T) {
	_, err := runner.NewCgroup(runner.CgroupOptions{Parent: "/no/such/group"})
	if err == nil || !strings.Contains(err.Error(), "cgroup /no/such/group; make it first") {
		t.Errorf("error %v", err)
	}
}

func expectUnavailable(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want ErrUnavailable in one line with %q", err, text)
	}
}

// What a start costs: the group, the process inside it, and the end of both.
func BenchmarkStart(b *testing.B) {
	c := newCgroup(b, testParent(b))
	limits := runner.Limits{MemoryBytes: 64 << 20, CPUs: 1}
	var starting, closing time.Duration
	for b.Loop() {
		t0 := time.Now()
		p, err := c.Start(b.Context(), runner.Spec{Args: []string{"/bin/true"}, Limits: limits})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		<-p.Done()
		t2 := time.Now()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		starting += t1.Sub(t0)
		closing += time.Since(t2)
	}
	b.ReportMetric(starting.Seconds()*1e3/float64(b.N), "ms-start/op")
	b.ReportMetric(closing.Seconds()*1e3/float64(b.N), "ms-close/op")
}

// On v1, where the hierarchy of v2 is mounted beside and counts pressure, a group has a
// twin in it: it tells pressure, and is gone with the group.
func TestTwin(t *testing.T) {
	g, controller := memoryGroup(t)
	own, mounted := g.Dirs[""]
	if controller == "" || !mounted {
		t.Skip("no hierarchy of cgroup v2 beside that of v1")
	}
	if _, err := linux.ReadCgroupPressure(own, "memory.pressure"); err != nil {
		t.Skip(err)
	}
	r := newCgroup(t, "")
	p, err := r.Start(t.Context(), runner.Spec{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	twins := func() []string {
		found, err := filepath.Glob(filepath.Join(own, fmt.Sprintf("tare-*-%d-*", os.Getpid())))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if u, err := p.Usage(t.Context()); err != nil || u.Stalled == nil {
		t.Errorf("%+v, %v", u, err)
	}
	if got := twins(); len(got) != 1 {
		t.Errorf("twins %v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := twins(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
