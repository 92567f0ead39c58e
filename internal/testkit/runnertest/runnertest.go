// Package runnertest is the conformance suite for every runner.Runner: what
// the contract promises, tried on the real kernel.
package runnertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/polltest"
)

const (
	mib = 1 << 20
	// patience is how long anything may take that should happen at once, on a
	// busy machine that is emulated.
	patience = 60 * time.Second
)

// Kind is what runners differ in, as their comments say.
type Kind int

const (
	// Groups are control groups alone: a signal ends a process in one as it
	// does elsewhere, a process ends with its owner, and one that ends leaves
	// others behind.
	Groups Kind = iota
	// Containers have PID namespaces, the first process of which nothing but
	// SIGKILL from outside ends, and with which all others end. They outlive
	// their owner. An engine tells SIGKILL as exit code 137.
	Containers
	// Agents run groups elsewhere: on the same terms, but that an agent ends
	// all that it started for a client that is gone.
	Agents
)

// inGroups says that a process ends as one in a group does.
func (k Kind) inGroups() bool { return k != Containers }

// Run runs the suite over the runners that make returns. The package needs
//
//	func TestMain(m *testing.M) { runnertest.Main(m) }
//
// and make must also work in a process that was started by the test, for
// runners of another process that is killed.
func Run(t *testing.T, kind Kind, make func(t *testing.T) runner.Runner) {
	if os.Getenv(ownerEnv) != "" {
		beOwner(t, make(t))
		return
	}
	alone.Measures(t, "control groups") // and no other's leftovers
	test := func(name string, f func(t *testing.T, r runner.Runner)) {
		t.Run(name, func(t *testing.T) { f(t, make(t)) })
	}
	test("Inside", testInside)
	test("Available", testAvailable)
	test("Exit", testExit)
	test("Signalled", func(t *testing.T, r runner.Runner) { testSignalled(t, r, kind) })
	test("Output", testOutput)
	test("EnvAndDir", testEnvAndDir)
	test("StartFails", testStartFails)
	test("BadLimits", testBadLimits)
	test("OverLimit", testOverLimit)
	test("UnderLimit", testUnderLimit)
	test("Charged", testCharged)
	test("Cold", testCold)
	test("ColdAgain", func(t *testing.T, r runner.Runner) { testColdAgain(t, r, kind) })
	test("Stalled", testStalled)
	test("SetMemoryLimit", testSetMemoryLimit)
	test("LowerTooFar", testLowerTooFar)
	test("Quota", testQuota)
	test("Times", testTimes)
	test("Cpuset", testCpuset)
	test("StopGracefully", func(t *testing.T, r runner.Runner) { testStopGracefully(t, r, kind) })
	test("StopStubborn", testStopStubborn)
	test("StopLeftBehind", testStopLeftBehind)
	test("OutputHeldOpen", func(t *testing.T, r runner.Runner) { testOutputHeldOpen(t, r, kind) })
	test("CloseKills", testCloseKills)
	test("Concurrent", testConcurrent)
	test("HugePages", testHugePages)
	name := t.Name()
	test("SweepDead", func(t *testing.T, r runner.Runner) { testSweepDead(t, r, kind, name) })
	test("SweepSparesLiving", func(t *testing.T, r runner.Runner) { testSweepSparesLiving(t, r, name) })
}

// Transcript collects the output of a process.
type Transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run is a started helper.
type run struct {
	runner.Process
	t        *testing.T
	mark     string
	out, err *Transcript
}

// spec is a helper of the test binary.
func spec(t *testing.T, mark string, limits runner.Limits, args ...string) runner.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return runner.Spec{
		Args:   append([]string{self}, args...),
		Env:    []string{helperEnv + "=1", markEnv + "=" + mark},
		Limits: limits,
	}
}

func start(t *testing.T, r runner.Runner, limits runner.Limits, args ...string) *run {
	t.Helper()
	x := &run{t: t, mark: rand.Text(), out: &Transcript{}, err: &Transcript{}}
	s := spec(t, x.mark, limits, args...)
	s.Stdout, s.Stderr = x.out, x.err
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatalf("start %v: %v", args, err)
	}
	x.Process = p
	t.Cleanup(x.close)
	return x
}

// close closes twice: Close is idempotent. Nothing is left afterwards.
func (x *run) close() {
	for range 2 {
		if err := x.Close(); err != nil {
			x.t.Errorf("close: %v", err)
		}
	}
	select {
	case <-x.Done():
	default:
		x.t.Error("closed, but not done")
	}
	expectGone(x.t, x.mark)
	if _, err := x.Usage(context.Background()); !errors.Is(err, os.ErrClosed) {
		x.t.Errorf("usage of a closed group: %v", err)
	}
}

// ready waits until the helper says so.
func (x *run) ready() {
	x.t.Helper()
	polltest.UntilNil(x.t, func() error {
		select {
		case <-x.Done():
			x.t.Fatalf("ended too early: %+v, %s%s", x.Exit(), x.out, x.err)
		default:
		}
		if !strings.Contains(x.out.String(), "ready\n") {
			return fmt.Errorf("not ready: %s%s", x.out, x.err)
		}
		return nil
	})
}

// wait waits for the end.
func (x *run) wait() runner.Exit {
	x.t.Helper()
	select {
	case <-x.Done():
		return x.Exit()
	case <-time.After(patience):
		x.t.Fatalf("does not end: %s%s", x.out, x.err)
		return runner.Exit{}
	}
}

func (x *run) usage() runner.Usage {
	x.t.Helper()
	u, err := x.Usage(context.Background())
	if err != nil {
		x.t.Fatal(err)
	}
	return u
}

// pid is the process's id here, of the one process of the helper.
func (x *run) pid() int {
	x.t.Helper()
	pids := living(x.t, x.mark)
	if len(pids) != 1 {
		x.t.Fatalf("processes %v, want one", pids)
	}
	return pids[0]
}

func living(t *testing.T, mark string) []int {
	t.Helper()
	pids, err := marked(mark)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// expectGone fails when a process with the mark lives. Those of a killed
// group may take a moment to vanish from /proc.
func expectGone(t *testing.T, mark string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		if pids := living(t, mark); len(pids) != 0 {
			return fmt.Errorf("processes %v are left", pids)
		}
		return nil
	})
}

// A limit below what is in use either is refused and changes nothing, or ends
// the process.
func testLowerTooFar(t *testing.T, r runner.Runner) {
	const before = 64 * mib
	x := start(t, r, runner.Limits{MemoryBytes: before}, "eat", strconv.Itoa(48*mib))
	x.ready()
	if err := x.SetMemoryLimit(context.Background(), 16*mib); err != nil {
		if u := x.usage(); u.LimitBytes != before || u.OOMKills != 0 {
			t.Errorf("%v, but %+v", err, u)
		}
		return
	}
	if e := x.wait(); e.Signal != syscall.SIGKILL || x.usage().OOMKills == 0 {
		t.Errorf("%+v, %+v", e, x.usage())
	}
}

// The process is inside from its start: its first look at its own group shows
// the limit.
func testInside(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{MemoryBytes: 96 * mib}, "cgroup")
	if e := x.wait(); e != (runner.Exit{}) {
		t.Fatalf("%+v: %s", e, x.err)
	}
	if want := fmt.Sprintf("limit %d\nleader true\n", 96*mib); x.out.String() != want {
		t.Errorf("%q, want %q", x.out, want)
	}
	if u := x.usage(); u.LimitBytes != 96*mib || u.PeakBytes == 0 || u.CPUTime == 0 || u.Time.IsZero() || u.OOMKills != 0 {
		t.Errorf("%+v", u)
	}
	if n := r.Name(); n == "" {
		t.Error("the runner has no name")
	}
}

// A process in a group has no more available than its limit leaves.
func testAvailable(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{MemoryBytes: 96 * mib}, "available")
	if e := x.wait(); e != (runner.Exit{}) {
		t.Fatalf("%+v: %s", e, x.err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(x.out.String()), 10, 64)
	if err != nil || n < 48*mib || n > 96*mib {
		t.Errorf("%d bytes available with a limit of %d, %v", n, 96*mib, err)
	}
	if all, err := r.Available(t.Context()); err != nil || all <= 96*mib {
		t.Errorf("%d bytes available outside, %v", all, err)
	}
}

func testExit(t *testing.T, r runner.Runner) {
	for _, c := range []struct {
		args []string
		want runner.Exit
	}{
		{[]string{"exit", "0"}, runner.Exit{}},
		{[]string{"exit", "7"}, runner.Exit{Code: 7}},
		{[]string{"exit", "143"}, runner.Exit{Code: 143}}, // as a JVM after SIGTERM
		{[]string{"exit", "255"}, runner.Exit{Code: 255}},
	} {
		if e := start(t, r, runner.Limits{}, c.args...).wait(); e != c.want {
			t.Errorf("%v: %+v, want %+v", c.args, e, c.want)
		}
	}
}

// The end by a signal from outside is told apart from an exit code.
func testSignalled(t *testing.T, r runner.Runner, kind Kind) {
	want := map[syscall.Signal]runner.Exit{syscall.SIGKILL: {Code: -1, Signal: syscall.SIGKILL}}
	if kind.inGroups() {
		want[syscall.SIGTERM] = runner.Exit{Code: -1, Signal: syscall.SIGTERM}
		if e := start(t, r, runner.Limits{}, "exit", "137").wait(); e != (runner.Exit{Code: 137}) {
			t.Errorf("exit code 137: %+v", e)
		}
	}
	for signal, exit := range want {
		x := start(t, r, runner.Limits{}, "hold")
		x.ready()
		if err := syscall.Kill(x.pid(), signal); err != nil {
			t.Fatal(err)
		}
		if e := x.wait(); e != exit {
			t.Errorf("%v: %+v, want %+v", signal, e, exit)
		}
	}
}

func testOutput(t *testing.T, r runner.Runner) {
	out, errs := strings.Repeat("out ", 20000), "err"
	x := start(t, r, runner.Limits{}, "print", out, errs)
	if e := x.wait(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	if x.out.String() != out || x.err.String() != errs {
		t.Errorf("stdout %d bytes of %d, stderr %q", len(x.out.String()), len(out), x.err)
	}

	// One writer for both, and none.
	both := &Transcript{}
	s := spec(t, "", runner.Limits{}, "print", "a", "b")
	s.Stdout, s.Stderr = both, both
	end(t, r, s)
	if both.String() != "ab" {
		t.Errorf("%q", both)
	}
	s.Stdout, s.Stderr = nil, nil
	end(t, r, s)

	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Stdout = f
	end(t, r, s)
	if text, err := os.ReadFile(f.Name()); string(text) != "a" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// end runs a process to its end, and expects that it ends well.
func end(t *testing.T, r runner.Runner, s runner.Spec) {
	t.Helper()
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if e := p.Exit(); e != (runner.Exit{}) {
		t.Errorf("%+v", e)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func testEnvAndDir(t *testing.T, r runner.Runner) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := &Transcript{}
	s := spec(t, "x", runner.Limits{}, "where")
	s.Env = append(s.Env, "GREETING=good day", "EMPTY=")
	s.Dir, s.Stdout = dir, out
	end(t, r, s)
	want := dir + "\n" + strings.Join(s.Env, "\n") + "\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func testStartFails(t *testing.T, r runner.Runner) {
	noExec := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(noExec, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	ok := spec(t, "", runner.Limits{}, "exit", "0")
	for name, c := range map[string]struct {
		spec runner.Spec
		want error
	}{
		"no such command": {runner.Spec{Args: []string{"tare-no-such-command"}}, exec.ErrNotFound},
		"no such file":    {runner.Spec{Args: []string{"/no/such/file"}}, fs.ErrNotExist},
		"no program":      {runner.Spec{Args: []string{noExec}}, fs.ErrPermission},
		"no such dir":     {runner.Spec{Args: ok.Args, Env: ok.Env, Dir: "/no/such/dir"}, fs.ErrNotExist},
	} {
		if _, err := r.Start(t.Context(), c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	if _, err := r.Start(t.Context(), runner.Spec{}); err == nil {
		t.Error("started nothing without an error")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Start(cancelled, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func testBadLimits(t *testing.T, r runner.Runner) {
	for _, l := range []runner.Limits{
		{MemoryBytes: -1}, {MemoryBytes: 1}, {MemoryBytes: runner.MinMemoryBytes - 1},
		{CPUs: -1}, {CPUs: 0.001}, {CPUs: 1e9}, {Cpuset: "x"}, {Cpuset: "4095"},
	} {
		if p, err := r.Start(t.Context(), spec(t, "", l, "exit", "0")); err == nil {
			t.Errorf("%+v: no error", l)
			p.Close()
		}
	}
	// The smallest limit: whatever becomes of the process, it was started.
	x := start(t, r, runner.Limits{MemoryBytes: runner.MinMemoryBytes}, "eat", strconv.Itoa(64*mib))
	if e := x.wait(); e.Signal != syscall.SIGKILL || x.usage().OOMKills == 0 {
		t.Errorf("%+v, %+v: %s", e, x.usage(), x.err)
	}
}

// Swap does not help: with it the limit is the same.
func testOverLimit(t *testing.T, r runner.Runner) {
	const limit = 48 * mib
	x := start(t, r, runner.Limits{MemoryBytes: limit}, "eat", strconv.Itoa(2*limit))
	if e := x.wait(); e != (runner.Exit{Code: -1, Signal: syscall.SIGKILL}) {
		t.Fatalf("%+v: %s", e, x.err)
	}
	u := x.usage()
	// What dies may exceed the limit by a few pages.
	if u.OOMKills == 0 || u.LimitBytes != limit || u.PeakBytes > limit+mib || u.PeakBytes < limit*3/4 {
		t.Errorf("%+v", u)
	}
	if u.UsageBytes > limit/2 {
		t.Errorf("%d bytes are in use after the end", u.UsageBytes)
	}
}

func testUnderLimit(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{MemoryBytes: 128 * mib}, "eat", strconv.Itoa(48*mib))
	x.ready()
	u := x.usage()
	if u.UsageBytes < 48*mib || u.PeakBytes < u.UsageBytes || u.PeakBytes > 128*mib || u.OOMKills != 0 {
		t.Errorf("%+v", u)
	}
	if e := x.Exit(); e != (runner.Exit{}) {
		t.Errorf("exit of a living process: %+v", e)
	}
}

// anonymous is what of memory.stat is anonymous, on v1 and v2.
func anonymous(u runner.Usage) int64 {
	if n, ok := u.Stat["total_rss"]; ok {
		return n
	}
	return u.Stat["anon"]
}

// Every anonymous page and every fresh page of the page cache is charged to
// the group. The kernel may add to memory.stat up to two seconds late.
func testCharged(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{MemoryBytes: 256 * mib}, "eat", strconv.Itoa(16*mib))
	x.ready()
	resident, err := linux.NewFS("/proc").SmapsRollup(x.pid())
	if err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error {
		if anon := anonymous(x.usage()); anon < resident.Anonymous {
			return fmt.Errorf("anonymous: %d bytes charged, %d resident", anon, resident.Anonymous)
		}
		return nil
	})
	const size = 64 * mib
	y := start(t, r, runner.Limits{MemoryBytes: 256 * mib}, "cache", filepath.Join(t.TempDir(), "file"), strconv.Itoa(size))
	y.ready()
	checkCacheCharged(t, y, size)
}

// checkCacheCharged wants the pages of a file to have been charged to the group
// of a process that has little other memory. The peak tells, and half the file
// is enough: a kernel that pages out what is not used (DAMON's pageout,
// Documentation/admin-guide/mm/damon) may take the first pages back before the
// last are there.
func checkCacheCharged(t *testing.T, x *run, size int64) {
	t.Helper()
	u := x.usage()
	if anon := anonymous(u); u.PeakBytes < size/2 || anon > size/4 {
		t.Errorf("peak %d bytes, %d of them anonymous, of a file of %d", u.PeakBytes, anon, size)
	}
}

// The pages of a file that somebody else has read are charged to the group all
// the same, for they are dropped before: all are fetched from storage again.
func testCold(t *testing.T, r runner.Runner) {
	const size = 64 * mib
	x := startCold(t, r, 256*mib, newFile(t, size), "read")
	x.ready()
	checkCacheCharged(t, x, size)
	checkFetched(t, x, size)
}

// A process tells which file it uses; and what was in the page cache for one that has ended is
// not there for the next, though nobody names the file. An engine removes a container's group
// before its page cache could be dropped.
func testColdAgain(t *testing.T, r runner.Runner, kind Kind) {
	const size = 64 * mib
	file := newFile(t, size)
	x := startCold(t, r, 256*mib, file, "read")
	x.ready()
	if told, ok := x.Process.(runner.Opener); ok != (kind != Agents) {
		t.Errorf("%T tells its files: %v", x.Process, ok)
	} else if ok {
		if files, err := told.Opened(t.Context()); err != nil || !slices.Contains(files, file) {
			t.Errorf("files %q, %v", files, err)
		}
	}
	if !kind.inGroups() {
		return
	}
	x.close()
	again := start(t, r, runner.Limits{MemoryBytes: 256 * mib}, "read", file)
	again.ready()
	checkFetched(t, again, size-int64(runtime.NumCPU()*batchPages*os.Getpagesize()))
}

// batchPages is how many pages a processor may hold on their way to the kernel's lists, where
// reclaim does not see them (include/linux/pagevec.h, PAGEVEC_SIZE).
const batchPages = 31

// checkFetched wants so many bytes of a file to come from storage.
func checkFetched(t *testing.T, x *run, size int64) {
	t.Helper()
	var fetched int64
	if _, err := fmt.Sscanf(x.out.String(), "fetched %d\n", &fetched); err != nil || fetched < size {
		t.Errorf("%s: some of %d bytes were left in the cache", x.out, size)
	}
}

// newFile makes a file that can be dropped from the page cache.
func newFile(t *testing.T, size int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(file)
	if err == nil {
		_, err = f.Write(bytes.Repeat([]byte("tare"), size/4))
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

// startCold starts a helper that reads a file, none of which is in the page cache.
func startCold(t *testing.T, r runner.Runner, limit int64, file, mode string) *run {
	t.Helper()
	x := &run{t: t, mark: rand.Text(), out: &Transcript{}, err: &Transcript{}}
	s := spec(t, x.mark, runner.Limits{MemoryBytes: limit}, mode, file)
	s.Stdout, s.Stderr, s.Cold.Files = x.out, x.err, []string{filepath.Dir(file)}
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	x.Process = p
	t.Cleanup(x.close)
	return x
}

// A process that reads a file larger than its limit again and again waits for memory,
// and the group of another one does not. Where the kernel does not tell, it never does.
func testStalled(t *testing.T, r runner.Runner) {
	const limit = 24 * mib
	file := newFile(t, 2*limit)
	x, idle := startCold(t, r, limit, file, "reread"), start(t, r, runner.Limits{}, "hold")
	idle.ready()
	polltest.UntilNil(t, func() error {
		u := x.usage()
		if u.Stalled != nil && *u.Stalled == 0 || u.RefaultBytes == 0 {
			return fmt.Errorf("not stalled: %+v", u)
		}
		return nil
	})
	told, other := x.usage().Stalled, idle.usage().Stalled
	if (told == nil) != (other == nil) || other != nil && *other > *told/2 {
		t.Errorf("stalled for %v, and one that idles for %v", told, other)
	}
}

func testSetMemoryLimit(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{MemoryBytes: 32 * mib}, "hold")
	x.ready()
	for _, limit := range []int64{96 * mib, 48 * mib, 0, 64 * mib, 1024 * mib} {
		if err := x.SetMemoryLimit(context.Background(), limit); err != nil {
			t.Fatal(err)
		}
		if u := x.usage(); u.LimitBytes != limit {
			t.Errorf("limit %d, want %d", u.LimitBytes, limit)
		}
	}
	for _, bad := range []int64{-1, 1, runner.MinMemoryBytes - 1} {
		if err := x.SetMemoryLimit(context.Background(), bad); err == nil {
			t.Errorf("limit %d: no error", bad)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.SetMemoryLimit(context.Background(), 64*mib); !errors.Is(err, os.ErrClosed) {
		t.Errorf("limit of a closed group: %v", err)
	}
}

func testQuota(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{CPUs: 0.05}, "burn", "200") // less than a busy machine grants
	if e := x.wait(); e.Code != 0 {
		t.Fatalf("%+v: %s", e, x.err)
	}
	if u := x.usage(); u.CPUTime < 200*time.Millisecond || u.Throttled == 0 {
		t.Errorf("used %v, throttled %v", u.CPUTime, u.Throttled)
	}
	y := start(t, r, runner.Limits{}, "burn", "100")
	y.wait()
	if u := y.usage(); u.CPUTime < 100*time.Millisecond || u.Throttled != 0 {
		t.Errorf("without a quota: used %v, throttled %v", u.CPUTime, u.Throttled)
	}
}

// Each kind of thread has its own time, to a tick or two, and the application what is left
// of the group's. What was seen of threads counts when they have ended.
func testTimes(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{}, "threads", "GC Thread#0", "G1 Conc#11", "VM Thread", "C2 CompilerThre", "VM Periodic Tas", "Zookeeper")
	x.ready()
	times := func() runner.Times {
		got, err := x.Times(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	check := func(got runner.Times) {
		t.Helper()
		const ticks = 20 * time.Millisecond
		for name, c := range map[string]struct {
			got  time.Duration
			want time.Duration
		}{"collector": {got.Collector, 3 * threadBurn}, "compiler": {got.Compiler, threadBurn}, "service": {got.Service, threadBurn}, "application": {got.Application(), threadBurn}} {
			if c.got < c.want-3*ticks {
				t.Errorf("%s: %v, want %v: %+v", name, c.got, c.want, got)
			}
		}
		if !got.JVM || got.Age <= 0 || got.Group < 6*threadBurn || got.Collector+got.Compiler+got.Service > got.Group {
			t.Errorf("%+v", got)
		}
	}
	living := times()
	check(living)
	if err := x.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	check(times())
	if d := times().Since(living); d.Collector != 0 || d.Compiler != 0 || d.Group < 0 {
		t.Errorf("after the end: %+v more", d)
	}
	y := start(t, r, runner.Limits{}, "burn", "100")
	y.wait()
	if got, err := y.Times(context.Background()); err != nil || got.JVM || got.Group < 100*time.Millisecond {
		t.Errorf("of a process that has ended unseen: %+v, %v", got, err)
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := y.Times(context.Background()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed group: %v", err)
	}
}

func testCpuset(t *testing.T, r runner.Runner) {
	cpus, err := affinity()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	x := start(t, r, runner.Limits{Cpuset: strconv.Itoa(last)}, "affinity")
	x.wait()
	if want := fmt.Sprintf("[%d]\n", last); x.out.String() != want {
		t.Errorf("%q, want %q: %s", x.out, want, x.err)
	}
	if after, err := affinity(); err != nil || !slices.Equal(after, cpus) {
		t.Errorf("the caller may run on %v, before on %v", after, cpus)
	}
}

// A Go program that a signal does not end exits with 2.
func testStopGracefully(t *testing.T, r runner.Runner, kind Kind) {
	want := runner.Exit{Code: -1, Signal: syscall.SIGTERM}
	if kind == Containers {
		want = runner.Exit{Code: 2}
	}
	x := start(t, r, runner.Limits{}, "hold")
	x.ready()
	// A grace that would not pass in time.
	if err := x.Stop(t.Context(), 10*patience); err != nil {
		t.Fatal(err)
	}
	if e := x.Exit(); e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	x.usage() // still there
	if err := x.Stop(t.Context(), 0); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func testStopStubborn(t *testing.T, r runner.Runner) {
	killed := runner.Exit{Code: -1, Signal: syscall.SIGKILL}
	x := start(t, r, runner.Limits{}, "stubborn")
	x.ready()
	if err := x.Stop(t.Context(), time.Millisecond); err != nil || x.Exit() != killed {
		t.Errorf("after the grace: %v, %+v", err, x.Exit())
	}
	y := start(t, r, runner.Limits{}, "stubborn")
	y.ready()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := y.Stop(ctx, 10*patience); err != nil || y.Exit() != killed {
		t.Errorf("cancelled: %v, %+v", err, y.Exit())
	}
}

// The process ends on SIGTERM, its child does not.
func testStopLeftBehind(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{}, "tree", "stay")
	polltest.UntilNil(t, func() error {
		if n := strings.Count(x.out.String(), "ready\n"); n != 2 {
			return fmt.Errorf("%d of 2 are ready: %s", n, x.err)
		}
		return nil
	})
	if n := len(living(t, x.mark)); n != 2 {
		t.Fatalf("%d processes, want 2", n)
	}
	if err := x.Stop(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	expectGone(t, x.mark)
}

// A grandchild that holds stdout open does not keep a process from being done.
func testOutputHeldOpen(t *testing.T, r runner.Runner, kind Kind) {
	x := start(t, r, runner.Limits{}, "tree", "leave")
	if e := x.wait(); e.Code != 0 {
		t.Fatalf("%+v: %s", e, x.err)
	}
	if n, want := len(living(t, x.mark)), map[Kind]int{Groups: 1, Agents: 1}[kind]; n != want {
		t.Errorf("%d processes are left, want %d", n, want)
	}
}

func testCloseKills(t *testing.T, r runner.Runner) {
	x := start(t, r, runner.Limits{}, "tree", "stay")
	x.ready()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	expectGone(t, x.mark)
	if e := x.Exit(); e.Signal != syscall.SIGKILL {
		t.Errorf("%+v", e)
	}
}

// Groups do not disturb each other: each has its own limit and usage.
func testConcurrent(t *testing.T, r runner.Runner) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			limit := int64(64+i) * mib
			out := &Transcript{}
			s := spec(t, "", runner.Limits{MemoryBytes: limit}, "cgroup")
			s.Stdout = out
			p, err := r.Start(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			<-p.Done()
			u, err := p.Usage(t.Context())
			if e := p.Exit(); e != (runner.Exit{}) {
				t.Errorf("limit %d: %+v", limit, e)
			}
			if err != nil || u.LimitBytes != limit || u.PeakBytes == 0 || !strings.Contains(out.String(), fmt.Sprintf("limit %d\n", limit)) {
				t.Errorf("limit %d: %v, %+v, %s", limit, err, u, out)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Huge pages are switched off for the process that is to have none, and for
// nobody else, also when several are started at once.
func testHugePages(t *testing.T, r runner.Runner) {
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			out := &Transcript{}
			s := spec(t, "", runner.Limits{}, "hugepages")
			s.Stdout, s.NoHugePages = out, i%2 == 1
			p, err := r.Start(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			<-p.Done()
			if want := fmt.Sprintln(i % 2); out.String() != want {
				t.Errorf("huge pages switched off: %q, want %q", out, want)
			}
		})
	}
	wg.Wait()
	if off, err := hugePagesOff(); off != 0 || err != nil {
		t.Errorf("the caller's huge pages are switched off: %d, %v", off, err)
	}
}

// beOwner starts a process tree and waits to be killed.
func beOwner(t *testing.T, r runner.Runner) {
	s := spec(t, os.Getenv(ownerEnv), runner.Limits{MemoryBytes: 64 * mib}, "tree", "stay")
	s.Stdout = os.Stdout
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	t.Fatalf("the process ended: %+v", p.Exit())
}

// owner runs the test named name in another process, which becomes an owner.
func owner(t *testing.T, name string) (cmd *exec.Cmd, mark string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark = rand.Text()
	pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	cmd = exec.Command(self, "-test.run="+pattern)
	// The mark is on what it starts, not on itself.
	cmd.Env = append(os.Environ(), ownerEnv+"="+mark)
	out := &Transcript{}
	cmd.Stdout, cmd.Stderr = out, out
	// What it leaves behind holds the output.
	cmd.WaitDelay = time.Millisecond
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	polltest.UntilNil(t, func() error {
		if n := strings.Count(out.String(), "ready\n"); n != 2 {
			return fmt.Errorf("the owner's processes are not ready: %s", out)
		}
		return nil
	})
	return cmd, mark
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

func testSweepDead(t *testing.T, r runner.Runner, kind Kind, name string) {
	cmd, mark := owner(t, name)
	kill(cmd)
	if kind == Agents {
		expectGone(t, mark)
		return
	}
	// A process in a group goes with its owner; the grandchild, or the
	// container, is for the sweep.
	want := map[Kind]int{Groups: 1, Containers: 2}[kind]
	polltest.UntilNil(t, func() error {
		if n := len(living(t, mark)); n > want {
			return fmt.Errorf("%d processes live", n)
		}
		return nil
	})
	if n := len(living(t, mark)); n != want {
		t.Errorf("%d processes are left to the sweep, want %d", n, want)
	}
	removed, err := r.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) == 0 {
		t.Error("nothing was removed")
	}
	expectGone(t, mark)
	if again, err := r.Sweep(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("second sweep: %v, %v", again, err)
	}
}

func testSweepSparesLiving(t *testing.T, r runner.Runner, name string) {
	cmd, mark := owner(t, name)
	x := start(t, r, runner.Limits{}, "hold")
	x.ready()
	if _, err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(living(t, mark)); n != 2 {
		t.Errorf("%d processes of another owner live, want 2", n)
	}
	x.usage() // one's own is spared, too
	kill(cmd)
	if _, err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectGone(t, mark)
}
