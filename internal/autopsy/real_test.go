package autopsy

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/agent"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/grouptest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// watch runs an agent until the test ends, and returns its ledger.
func watch(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := ledger.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{Proc: linux.NewFS("/proc"), Ledger: w, Interval: time.Second, WeighEvery: time.Minute, Share: 1, Say: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.Close()
	})
	return dir
}

// records are those that a ledger has of a process.
func records(t *testing.T, dir string, pid int) (all []ledger.Record) {
	t.Helper()
	r, err := ledger.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Since(0, func(rec ledger.Record) bool {
		if rec.Process.PID == pid {
			all = append(all, rec)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// awaitRecord waits until a ledger has such a record of a process.
func awaitRecord(t *testing.T, dir string, pid int, what string, is func(ledger.Record) bool) {
	t.Helper()
	polltest.Until(t, what, func() bool {
		for _, r := range records(t, dir, pid) {
			if is(r) {
				return true
			}
		}
		return false
	})
}

func hasEnded(r ledger.Record) bool { return r.Event != nil && r.Event.Kind == ledger.Ended }

// end is one way in which a JVM ends.
type end struct {
	name    string
	options []string
	// group and within are its group, and the one above with the limit.
	limit, parent int64
	die           func(t *testing.T, e *end)
	lives         bool
	want          Verdict
	how           doctor.Certainty
	check         func(t *testing.T, e *end, r *Report)

	// logged says that the kernel's log alone tells of it: by the ledger it is not known.
	logged bool
	// first says that the kernel is to kill it before all others.
	first bool

	group string
	jvm   *jvmtest.Holder
	dir   string // where it is started
	// ledger is that of the agent beside it.
	ledger string
}

// growDirect takes direct buffers until it is killed, and has the agent see some of
// it on the way, however slow that is.
func growDirect(t *testing.T, e *end) {
	if !e.jvm.Try(t, "direct 65536") {
		t.Fatal("it ended too early")
	}
	awaitRecord(t, e.ledger, e.jvm.PID(), "a footprint with direct buffers", func(r ledger.Record) bool {
		return r.Footprint != nil && momentOf(r, 0).Accounts[DirectBuffers] >= 60<<20
	})
	for e.jvm.Try(t, "direct 8192") {
	}
}

func signalled(s syscall.Signal) func(*testing.T, *end) {
	return func(t *testing.T, e *end) {
		if err := e.jvm.Process.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
}

// boundDirect checks what is told of a JVM whose direct buffers grew to a limit.
func boundDirect(t *testing.T, e *end, r *Report) {
	grewDirect(t, e, r)
	if len(r.Do) == 0 || !strings.HasPrefix(r.Do[0].Option, "-XX:MaxDirectMemorySize=") {
		t.Errorf("%+v", r.Do)
	}
}

// grewDirect checks what is told of a JVM whose direct buffers grew.
func grewDirect(t *testing.T, _ *end, r *Report) {
	if len(r.Growth) == 0 || r.Growth[0].Account != DirectBuffers || r.Growth[0].Change() < 20<<20 || !strings.Contains(r.What, "irect buffers grew by ") {
		t.Errorf("%s %+v", r.What, r.Growth)
	}
	if r.Heap == nil || r.Heap.MaxBytes != 16<<20 {
		t.Errorf("%+v", r.Heap)
	}
	for _, m := range r.Moments {
		sum := int64(0)
		for _, n := range m.Accounts {
			sum += n
		}
		if sum != m.ResidentBytes {
			t.Errorf("the accounts of %+v add up to %d", m, sum)
		}
	}
}

const testLimit = 192 << 20

func ends() []*end {
	return []*end{
		{name: "own limit", limit: testLimit, die: growDirect, want: ContainerLimit, how: doctor.Certain, check: boundDirect},
		{name: "parent's limit", parent: testLimit, die: growDirect, want: ParentLimit, how: doctor.Certain, check: boundDirect},
		{name: "child", limit: testLimit, die: killChild, lives: true, want: ChildKilled, how: doctor.Certain},
		{name: "OutOfMemoryError, exit", options: []string{"-XX:+ExitOnOutOfMemoryError"}, die: fillHeap, want: OutOfMemoryError},
		{name: "OutOfMemoryError, crash", options: []string{"-XX:+CrashOnOutOfMemoryError"}, die: fillHeap, want: OutOfMemoryError, how: doctor.Certain},
		{name: "OutOfMemoryError, dump", options: []string{"-XX:+HeapDumpOnOutOfMemoryError"}, die: fillHeap, want: OutOfMemoryError},
		{name: "signal of a fault, sent", die: signalled(syscall.SIGSEGV), want: Killed, how: doctor.Certain},
		{name: "abort", die: signalled(syscall.SIGABRT), options: []string{"-XX:-CreateCoredumpOnCrash"}, want: NativeCrash, how: doctor.Likely},
		{name: "kill -9", limit: testLimit, die: signalled(syscall.SIGKILL), want: Killed},
		{name: "SIGTERM", die: signalled(syscall.SIGTERM), want: Killed, how: doctor.Likely},
		{name: "exit", die: closeInput, want: Exited, how: doctor.Certain},
	}
}

// killChild has another process of the group take more than there is.
// killMeFirst has the kernel kill a shell, and what it becomes, before all others.
const killMeFirst = "echo 1000 >/proc/self/oom_score_adj; "

func killChild(t *testing.T, e *end) {
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", grouptest.Enter(e.group)+killMeFirst+"exec tail /dev/zero").CombinedOutput()
	if err == nil {
		t.Fatalf("the other process was not killed: %s", out)
	}
}

func fillHeap(t *testing.T, e *end) {
	for e.jvm.Try(t, "heap 4096") {
	}
}

func closeInput(t *testing.T, e *end) { e.jvm.Close(t) }

// start starts the JVM where the test wants it.
func (e *end) start(t *testing.T) {
	t.Helper()
	if e.parent > 0 {
		e.group = grouptest.Limited(t, grouptest.Limited(t, "", e.parent), 0)
	} else if e.limit > 0 {
		e.group = grouptest.Limited(t, "", e.limit)
	}
	e.dir = t.TempDir()
	before := "ulimit -c 0; cd " + e.dir + "; "
	if e.first {
		before += killMeFirst
	}
	if e.group != "" {
		before += grouptest.Enter(e.group)
	}
	options := append([]string{"-XX:+UseSerialGC", "-Xmx16m", "-XX:MaxDirectMemorySize=2g"}, e.options...)
	e.jvm = jvmtest.StartHolderFrom(t, before, jvmtest.Java(t, 17), options, 1)
}

// TestEnds has JVMs end in each way for real, beside a real agent: each verdict is
// right, with the ledger and the kernel's log, and with the ledger alone.
func TestEnds(t *testing.T) { judgeEnds(t, ends()) }

// TestKills is the part of TestEnds in which the kernel kills: how a process exited
// the kernel may not tell before Linux 6.15.
func TestKills(t *testing.T) {
	if !vmtest.Inside() {
		t.Skip("TestEnds has it")
	}
	judgeEnds(t, ends()[:3])
}

// TestMachineIsFull has a JVM take all memory of a machine, which is to be a virtual one.
func TestMachineIsFull(t *testing.T) {
	if !vmtest.Inside() {
		return // TestKillsOnV2 runs it
	}
	judgeEnds(t, []*end{{name: "machine", first: true, logged: true, die: growDirect, want: MachineLimit, how: doctor.Certain, check: grewDirect}})
}

var allKernels = flag.Bool("autopsy.kernels", false, "have JVMs killed on Linux 5.10, 6.12 and the newest of Debian too")

// TestKillsOnV2 is TestKills with cgroup v2, and has a machine run out of memory, on Linux 6.1.
func TestKillsOnV2(t *testing.T) {
	suites := []string{"bookworm"}
	if *allKernels {
		suites = append(suites, "bullseye", "trixie", "sid")
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			jvmtest.RunOnKernel(t, suite, "./internal/autopsy", "(TestKills|TestMachineIsFull)", 17)
		})
	}
}

func judgeEnds(t *testing.T, all []*end) {
	alone.Uses(t, "JVMs")
	dir := watch(t)
	for _, e := range all {
		e.start(t)
		e.ledger = dir
	}
	for _, e := range all {
		awaitRecord(t, dir, e.jvm.PID(), "the first footprint: "+e.name, func(r ledger.Record) bool { return r.Footprint != nil })
		e.die(t, e)
		if !e.lives {
			<-e.jvm.Ended()
			awaitRecord(t, dir, e.jvm.PID(), "the end: "+e.name, hasEnded)
		} else {
			awaitRecord(t, dir, e.jvm.PID(), "the kill: "+e.name, func(r ledger.Record) bool { return r.Event != nil && r.Event.Kind == ledger.OOMKill })
		}
	}
	proc := linux.NewFS("/proc")
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := ledger.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, noLog := kernellog.Kmsg()
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			alone := Sources{Ledger: reader, Proc: proc}
			e.judge(t, alone, "the ledger alone", "")
			if noLog == nil {
				e.judge(t, Sources{Ledger: reader, Proc: proc, Log: log, LogBoot: boot}, "both", e.how)
			} else {
				t.Logf("without the kernel's log: %v", noLog)
			}
		})
	}
}

// judge makes the autopsy, and checks it; how is "" when any certainty will do.
func (e *end) judge(t *testing.T, s Sources, with string, how doctor.Certainty) {
	t.Helper()
	r, err := s.Find(strconv.Itoa(e.jvm.PID()))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("with %s: %s %s", with, r.Headline, r.What)
	want := e.want
	if e.logged && s.Log == nil {
		want = Unknown
	}
	if r.Verdict != want || how != "" && r.Confidence != how {
		t.Errorf("with %s: %s, %s, want %s, %s: %s\n%+v", with, r.Verdict, r.Confidence, want, how, r.Headline, r.Evidence)
	}
	if len(r.Evidence) == 0 || len(r.Do) == 0 {
		t.Errorf("with %s: evidence %+v, do %+v", with, r.Evidence, r.Do)
	}
	if e.check != nil {
		e.check(t, e, r)
	}
}

// A JVM that writes where there is no memory has a native crash, with the frame that
// its hs_err file names.
func TestNativeCrash(t *testing.T) {
	alone.Uses(t, "a JVM")
	dir := watch(t)
	where := t.TempDir()
	source := filepath.Join(where, "Fault.java")
	if err := os.WriteFile(source, []byte(`public class Fault {
  public static void main(String[] args) throws Exception {
    java.lang.reflect.Field f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
    f.setAccessible(true);
    System.out.println("ready");
    System.in.read();
    ((sun.misc.Unsafe) f.get(null)).putByte(8L, (byte) 1);
  }
}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(where, "in")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := jvmtest.Start(t, "/bin/sh", "-c", fmt.Sprintf("ulimit -c 0; cd %s; exec %s -Xmx64m %s < %s", where, jvmtest.Java(t, 17), source, fifo))
	p.Await(t, "ready")
	awaitRecord(t, dir, p.PID(), "the first footprint", func(r ledger.Record) bool { return r.Footprint != nil })
	fmt.Fprintln(in, "go")
	<-p.Ended()
	awaitRecord(t, dir, p.PID(), "the end", hasEnded)
	reader, err := ledger.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Sources{Ledger: reader, Proc: linux.NewFS("/proc")}.Find(strconv.Itoa(p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Headline)
	if r.Verdict != NativeCrash || r.Confidence != doctor.Certain || r.Crash == nil || !strings.Contains(r.Crash.Frame, "Unsafe_PutByte") {
		t.Errorf("%s, %+v, %+v, of %+v\n%s", r.Verdict, r.Crash, r.Evidence, r.JVM, p.Output())
	}
}
