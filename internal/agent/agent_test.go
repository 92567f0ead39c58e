package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
)

// clock is a clock that tests move. Each record takes so much processor time.
type clock struct{ up, processor, record time.Duration }

func (c *clock) Now() time.Time {
	c.processor += c.record
	return time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC).Add(c.up)
}
func (c *clock) Uptime() time.Duration    { return c.up }
func (c *clock) Processor() time.Duration { return c.processor }

// machine is a proc file system that a test makes, and an agent on it.
type machine struct {
	*testing.T
	root, dir string
	clock     *clock
	agent     *Agent
	said      []string
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, root: t.TempDir(), dir: t.TempDir(), clock: &clock{up: 1000 * time.Second}}
	m.file("sys/kernel/random/boot_id", "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f\n")
	m.file("self/mountinfo", "")
	m.begin(0)
	return m
}

// begin begins an agent on the machine's ledger.
func (m *machine) begin(bytes int64) {
	w, err := ledger.Create(m.dir, bytes)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { w.Close() })
	m.agent, err = New(Config{Proc: linux.NewFS(m.root), Ledger: w, Interval: 10 * time.Second, WeighEvery: 5 * time.Minute, Share: 0.01,
		Clock: m.clock, Say: func(err error) { m.said = append(m.said, err.Error()) }})
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) file(name, text string) {
	m.Helper()
	name = filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

// process makes or replaces a process that maps a library.
func (m *machine) process(pid int, ticks uint64, library string) {
	m.Helper()
	dir := strconv.Itoa(pid)
	m.file(dir+"/stat", fmt.Sprintf("%d (java) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 1 1\n", pid, ticks))
	m.file(dir+"/status", fmt.Sprintf("Name:\tjava\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nNSpid:\t%d\t7\nVmRSS:\t   2048 kB\nThreads:\t3\n", pid))
	m.file(dir+"/maps", "7f0000000000-7f0000100000 r-xp 00000000 08:01 77 "+library+"\n")
	m.file(dir+"/cmdline", "java\x00-jar\x00shop.jar\x00")
	m.file(dir+"/cgroup", "0::/\n")
}

func (m *machine) remove(pid int) {
	m.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, strconv.Itoa(pid))); err != nil {
		m.Fatal(err)
	}
}

// pass lets time pass, and the agent do what is due.
func (m *machine) pass(d time.Duration) {
	m.Helper()
	for end := m.clock.up + d; ; {
		wait := m.agent.Step(m.Context())
		if wait <= 0 {
			m.Fatal("the agent does not wait")
		}
		if m.clock.up+wait > end {
			m.clock.up = end
			return
		}
		m.clock.up += wait
	}
}

// kinds lists what the ledger has of a process: "start", "counters" or the event.
func (m *machine) kinds(id ledger.ID) []string {
	m.Helper()
	r, err := ledger.OpenReader(m.dir)
	if err != nil {
		m.Fatal(err)
	}
	var out []string
	if _, err := r.Read(id, func(rec ledger.Record) bool {
		switch {
		case rec.Start != nil:
			out = append(out, "start")
		case rec.Counters != nil:
			out = append(out, "counters")
		case rec.Event != nil:
			out = append(out, string(rec.Event.Kind))
		}
		return true
	}); err != nil {
		m.Fatal(err)
	}
	return out
}

const libjvm = "/jdk/lib/server/libjvm.so"

func (m *machine) id(pid int, ticks uint64) ledger.ID {
	return ledger.ID{Boot: "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f", PID: pid, StartTicks: ticks}
}

// A process id that is used again is another JVM, and each has one ring.
func TestProcessIDsAreUsedAgain(t *testing.T) {
	m := newMachine(t)
	m.process(7, 100, libjvm)
	m.pass(time.Second)
	m.process(7, 99000, libjvm)
	m.pass(15 * time.Second)
	if got := m.kinds(m.id(7, 100)); !slices.Equal(got, []string{"start", "counters", "ended"}) {
		t.Errorf("the first: %v", got)
	}
	got := m.kinds(m.id(7, 99000))
	if len(got) < 2 || got[0] != "start" || slices.Contains(got, "ended") {
		t.Errorf("the second: %v", got)
	}
	m.remove(7)
	m.pass(10 * time.Second)
	if got := m.kinds(m.id(7, 99000)); got[len(got)-1] != "ended" {
		t.Errorf("the second: %v", got)
	}
	if n := m.agent.Stats.JVMs.Load(); n != 0 {
		t.Errorf("%d JVMs are watched", n)
	}
}

// A shell becomes a JVM, and is found although it was seen before.
func TestExecIsFound(t *testing.T) {
	m := newMachine(t)
	m.process(8, 100, "/bin/sh")
	m.pass(time.Second)
	m.process(8, 100, libjvm)
	m.pass(3 * time.Second)
	if got := m.kinds(m.id(8, 100)); len(got) == 0 || got[0] != "start" {
		t.Errorf("%v", got)
	}
}

// On a proc file system of other namespaces a JVM may have the PID that the agent has in its own.
func TestOwnPIDElsewhereIsFound(t *testing.T) {
	m := newMachine(t)
	m.process(os.Getpid(), 100, libjvm)
	m.pass(time.Second)
	if got := m.kinds(m.id(os.Getpid(), 100)); len(got) == 0 || got[0] != "start" {
		t.Errorf("%v", got)
	}
}

// A shell that takes long to become a JVM, as one of many that start at once, is found as
// soon as it is one.
func TestYoungIsFoundSoon(t *testing.T) {
	m := newMachine(t)
	m.process(8, 100, "/bin/sh")
	m.file("8/statm", "500 100 50 8 0 60 0\n")
	m.pass(17 * time.Second)
	m.process(8, 100, libjvm)
	m.file("8/statm", "500000 9000 50 8 0 60 0\n")
	m.pass(3 * time.Second)
	if got := m.kinds(m.id(8, 100)); len(got) == 0 || got[0] != "start" {
		t.Errorf("%v", got)
	}
}

// A process that goes on to be no JVM is looked at ever more rarely.
func TestOthersAreLeftAlone(t *testing.T) {
	m := newMachine(t)
	m.process(9, 100, "/bin/sh")
	looks := 0
	for range 1000 {
		f := m.agent.finder
		if f.seen[9] == nil || f.round+1 >= f.seen[9].next {
			looks++
		}
		m.pass(2 * time.Second)
	}
	if looks < 5 || looks > 30 {
		t.Errorf("%d looks in 1000 rounds", looks)
	}
}

// One whose address space has the size that it had when it was no JVM is none now: it is not
// read again.
func TestSameSizeIsNotReadAgain(t *testing.T) {
	m := newMachine(t)
	m.process(9, 100, "/bin/sh")
	m.file("9/statm", "500 100 50 8 0 60 0\n")
	m.pass(3 * time.Second)
	m.file("9/maps", "7f0000000000-7f0000100000 r-xp 00000000 08:01 77 "+libjvm+"\n")
	m.pass(10 * time.Second)
	if m.agent.jvms[9] != nil {
		t.Error("its mappings were read though it has mapped nothing")
	}
	m.file("9/statm", "900 100 50 8 0 60 0\n")
	m.pass(30 * time.Second)
	if m.agent.jvms[9] == nil {
		t.Error("it was not found")
	}
}

// A thousand that start at once, on a budget: each has its start, the looks go on,
// and nothing is told twice.
func TestThousandAtOnce(t *testing.T) {
	m := newMachine(t)
	for pid := 1; pid <= 1000; pid++ {
		m.process(pid+10, uint64(pid), libjvm)
	}
	m.pass(30 * time.Second)
	for pid := 1; pid <= 1000; pid += 50 {
		got := m.kinds(m.id(pid+10, uint64(pid)))
		if len(got) < 3 || got[0] != "start" || slices.Contains(got[1:], "start") {
			t.Fatalf("process %d: %v", pid, got)
		}
	}
	r, err := ledger.OpenReader(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	if all, _, err := r.Processes(); err != nil || len(all) != 1000 {
		t.Errorf("%d JVMs, %v", len(all), err)
	}
}

// Without budget nothing is looked at; a budget that is spent comes back with time.
func TestBudgetHolds(t *testing.T) {
	m := newMachine(t)
	m.process(7, 100, libjvm)
	m.pass(time.Second)
	m.clock.processor += 2 * time.Second // at a hundredth: 200 s of budget
	before := m.agent.Stats.Looks.Load()
	m.pass(100 * time.Second)
	if got := m.agent.Stats.Looks.Load(); got > before+1 {
		t.Errorf("%d looks without budget", got-before)
	}
	m.pass(200 * time.Second)
	if got := m.agent.Stats.Looks.Load(); got < before+5 {
		t.Errorf("%d looks when the budget had come back", got-before)
	}
}

// A new JVM is weighed within a minute, whatever was spent before and though the looks at
// others would take more than there is; and those go on.
func TestFirstWeighingComesInTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		others int
		look   time.Duration // what one takes
	}{
		{"alone", 0, 0},
		{"among few", 20, 2 * time.Millisecond},
		{"among too many", 400, 2 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			for pid := range c.others {
				m.process(pid+100, uint64(pid), libjvm)
			}
			m.clock.record = c.look
			m.pass(5 * time.Minute)
			m.agent.settle()
			m.clock.processor += m.agent.budget.left + m.agent.budget.credit() // by last looks
			m.process(7, uint64(m.clock.up/(time.Second/ticksPerSecond)), libjvm)
			born, looks := m.clock.up, m.agent.Stats.Looks.Load()
			m.pass(time.Minute)
			if j := m.agent.jvms[7]; j == nil || j.weighed == 0 {
				t.Errorf("it was not weighed within %v", m.clock.up-born)
			}
			if got := m.agent.Stats.Looks.Load() - looks; got < 3 {
				t.Errorf("%d looks in that minute", got)
			}
		})
	}
}

// Where limits are small and glances could take all that there is, looks go on, and JVMs that
// come are found; one that is on its way to its limit has its last look. What the agent takes
// is real.
func TestSmallLimitsLeaveTimeForOthers(t *testing.T) {
	m := newMachine(t)
	groups := t.TempDir()
	m.file("self/mountinfo", "30 23 0:26 / "+groups+" rw,relatime - cgroup2 cgroup2 rw\n")
	c := &spending{clock: clock{up: m.clock.up}}
	share := func(s float64) { m.agent.cfg.Share, m.agent.budget = s, newBudget(s, c.up, c.Processor()) }
	m.agent.cfg.Clock = c
	share(1)
	live := func(d time.Duration) {
		for end := c.up + d; c.up < end; {
			c.step(t, m.agent, end-c.up)
		}
	}
	group := func(pid int, file, text string) {
		m.Helper()
		if err := os.WriteFile(filepath.Join(groups, fmt.Sprint(pid), file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(pid int) {
		if err := os.Mkdir(filepath.Join(groups, fmt.Sprint(pid)), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"memory.max": "100663296", "memory.high": "max", "memory.current": "31457280", "memory.events": "max 0\noom 0\noom_kill 0\n",
			"memory.stat": "inactive_file 0\nactive_file 0\n", "cgroup.procs": fmt.Sprint(pid)} {
			group(pid, file, text)
		}
		for n, library := range []string{libjvm, "/bin/pause", "/bin/shim"} {
			m.process(pid+n, uint64(c.up/(time.Second/ticksPerSecond)), library)
			m.file(fmt.Sprintf("%d/cgroup", pid+n), fmt.Sprintf("0::/%d\n", pid))
		}
	}
	const pods, more = 100, 30
	for n := range pods {
		pod(1000 + 10*n)
	}
	weighed := func() { // there is nothing to weigh, and each look would have it tried again
		for _, j := range m.agent.jvms {
			j.known, j.want, j.weighed, j.at = true, "", c.up, j.counters.Resident
		}
	}
	live(20 * time.Second)
	weighed()
	begun := c.Processor()
	live(time.Minute)
	all := (c.Processor() - begun).Minutes() // a share of one processor
	t.Logf("all looks and glances take %.2f %% of a processor", 100*all)
	share(all / 2)
	weighed()
	live(2 * time.Minute)
	looks := m.agent.Stats.Looks.Load()
	for n := range more {
		pod(5000 + 10*n)
	}
	live(20 * time.Second)
	if got := len(m.agent.jvms); got != pods+more {
		t.Errorf("%d JVMs are watched", got)
	}
	weighed()
	live(40 * time.Second)
	if looks = m.agent.Stats.Looks.Load() - looks; looks < pods*4 {
		t.Errorf("%d looks in a minute", looks)
	}
	for n := range 30 { // 2 MiB a second
		group(1070, "memory.current", fmt.Sprint(30<<20+n<<21))
		live(time.Second)
	}
	group(1070, "memory.current", fmt.Sprint(95<<20))
	live(10 * time.Second)
	if m.agent.jvms[1070].lastLook == 0 {
		t.Error("no last look at the one that grows")
	}
}

// On a full disk the agent says so once, goes on, and tells what was lost.
func TestFullDiskIsSaidOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	m := newMachine(t)
	m.agent.cfg.Ledger.Close()
	if err := unix.Mount("tare-test", m.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	m.begin(0)
	m.process(7, 100, libjvm)
	m.pass(time.Second)
	fill := filepath.Join(m.dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("the disk is larger than 64 KiB")
	}
	for pid := 20; pid < 26; pid++ { // each needs a file
		m.process(pid, 100, libjvm)
	}
	m.pass(time.Minute)
	if len(m.said) != 1 || !strings.Contains(m.said[0], "no space left") {
		t.Errorf("said %q", m.said)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	m.pass(4 * time.Minute)
	if len(m.said) != 2 {
		t.Errorf("said %q", m.said)
	}
	if got := m.kinds(m.id(20, 100)); len(got) == 0 || got[0] != "start" || !slices.Contains(got, "counters") {
		t.Errorf("%v", got)
	}
	if got := m.kinds(ledger.ID{}); !slices.Contains(got, string(ledger.Lost)) {
		t.Errorf("the machine: %v", got)
	}
}

func TestBudget(t *testing.T) {
	b := newBudget(0.01, 0, 0)
	if b.left != 600*time.Millisecond {
		t.Errorf("left %v", b.left)
	}
	b.settle(10*time.Second, time.Second) // full already: 0.6 - 1
	if b.left != -400*time.Millisecond || b.allows(0) || !b.allows(-b.most) {
		t.Errorf("left %v", b.left)
	}
	if wait := b.wait(0); wait < 40*time.Second || wait > 41*time.Second {
		t.Errorf("wait %v", wait)
	}
	b.settle(10*time.Second+b.wait(0), time.Second)
	if !b.allows(0) {
		t.Errorf("left %v", b.left)
	}
	filled := time.Duration(b.share * float64(breath))
	b.settle(5*time.Second, time.Second) // a clock that goes back gives nothing
	if left := b.left; left > filled {
		t.Errorf("left %v", left)
	}
	b.settle(5*time.Second, 1300*time.Millisecond)
	b.settle(5*time.Second, time.Second) // excused in the end
	if left := b.left; left < 0 || left > filled {
		t.Errorf("left %v", left)
	}
	b.settle(5*time.Second, -time.Hour)
	if b.left != b.most {
		t.Errorf("left %v", b.left)
	}
}

// What is excused is not paid by the budget.
func TestExcused(t *testing.T) {
	var excused time.Duration
	m := newMachine(t)
	m.agent.cfg.Excused = func() time.Duration { return excused }
	m.agent.settle()
	before := m.agent.budget.left
	m.clock.processor += time.Hour
	m.agent.settle()
	if m.agent.budget.allows(0) {
		t.Error("an hour is paid by a budget of less")
	}
	excused = time.Hour
	m.agent.settle()
	if left := m.agent.budget.left; left != before {
		t.Errorf("left %v, before %v", left, before)
	}
}

func TestVolume(t *testing.T) {
	v := newVolume(0)
	if !v.take(0, 9<<30) || v.take(0, 1) || v.take(time.Second/2, 1) || !v.take(2*time.Second, 1) {
		t.Errorf("%+v", v)
	}
}

func TestUntil(t *testing.T) {
	for left, want := range map[int64]time.Duration{0: soonest, 1 << 20: soonest, 200 << 20: time.Second, 1 << 40: latest, -5: soonest} {
		if got := until(left); got != want {
			t.Errorf("%d: %v, want %v", left, got, want)
		}
	}
}

// A young JVM is weighed when it has grown up; one that cannot be weighed is tried and
// looked at no more often than any other.
func TestYoungIsWeighed(t *testing.T) {
	m := newMachine(t)
	m.process(7, 100000, libjvm) // it starts now
	m.pass(2900 * time.Millisecond)
	if n := m.agent.Stats.Failed.Load(); n != 0 {
		t.Errorf("tried %d times while it was young", n)
	}
	m.pass(200 * time.Millisecond)
	if n := m.agent.Stats.Failed.Load(); n != 1 {
		t.Errorf("tried %d times when it had grown up", n)
	}
	m.pass(41 * time.Second)
	looks, tries := m.agent.Stats.Looks.Load(), m.agent.Stats.Failed.Load()
	if looks != 5 || tries != 5 {
		t.Errorf("%d looks and %d tries in its first 44 seconds", looks, tries)
	}
}

// While the machine waits for memory and has little left, the heaviest JVMs are weighed,
// and the less often the longer that lasts.
func TestMachineIsPressed(t *testing.T) {
	m := newMachine(t)
	for pid := 7; pid < 12; pid++ {
		m.process(pid, 100, libjvm)
		m.file(fmt.Sprintf("%d/status", pid), fmt.Sprintf("Name:\tjava\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nNSpid:\t%d\nVmRSS:\t%d kB\nThreads:\t3\n", pid, 1000*pid))
	}
	m.pass(15 * time.Second)
	m.agent.alarms = &alarms{stalls: map[int]bool{}}
	wanted := func(available int) (pids []int) {
		m.file("meminfo", fmt.Sprintf("MemTotal: 1000 kB\nMemAvailable: %d kB\n", available))
		m.agent.rouse(wholeMachine)
		for pid, j := range m.agent.jvms {
			if j.want == ledger.LastLook {
				pids = append(pids, pid)
			}
			j.want = ""
		}
		slices.Sort(pids)
		return pids
	}
	if got := wanted(500); got != nil {
		t.Errorf("with half of the memory left: %v", got)
	}
	if got := wanted(50); !slices.Equal(got, []int{9, 10, 11}) {
		t.Errorf("with little left: %v", got)
	}
	looks := 0
	for range 10 * 60 {
		m.clock.up += time.Second
		if wanted(50) != nil {
			looks++
		}
	}
	if looks < 10 || looks > 20 {
		t.Errorf("%d looks in ten minutes of pressure", looks)
	}
}
