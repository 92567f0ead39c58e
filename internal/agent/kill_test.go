package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/grouptest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// A JVM that grows by 50 MiB a second to its limit, and is killed: the ledger has a
// footprint of its last second that saw nine tenths of the limit, who grew, and the
// kill. Time is the test's own, so that a busy machine tells nothing against it: the
// JVM takes 5 MiB for every tenth of a second that the agent lives through.
func TestLastLook(t *testing.T) {
	alone.Uses(t, "a JVM")
	for _, limit := range []int64{256 << 20, 512 << 20} {
		t.Run(fmt.Sprint(limit>>20), func(t *testing.T) { lastLook(t, limit) })
	}
}

func lastLook(t *testing.T, limit int64) {
	group := grouptest.Limited(t, "", limit)
	clock := &clock{up: machineClock{}.Uptime() + time.Minute} // the JVM is not new
	dir := t.TempDir()
	w, err := ledger.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx32m", "-XX:MaxDirectMemorySize=2g"}, 1)
	a, err := New(Config{Proc: linux.NewFS("/proc"), Ledger: w, Interval: 10 * time.Second, WeighEvery: 5 * time.Minute, Share: 0.01, Clock: clock,
		Say: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	live := func(d time.Duration) {
		for end := clock.up + d; clock.up < end; {
			clock.up += min(a.Step(t.Context()), end-clock.up)
		}
	}
	live(15 * time.Second)
	for h.Try(t, "direct 5120") {
		live(100 * time.Millisecond)
	}
	killed := clock.up
	live(11 * time.Second) // the next look sees its end

	last, kill, ended := readEnd(t, dir, h.PID())
	if last.Footprint == nil || !kill || !ended {
		t.Fatalf("last %+v, kill %v, ended %v", last, kill, ended)
	}
	f := last.Footprint
	if f.Reason != ledger.LastLook || f.Usage < limit*9/10 || f.Limit != limit {
		t.Errorf("the last footprint, by %s, saw %d of %d", f.Reason, f.Usage, limit)
	}
	if age := killed - last.Uptime; age > time.Second {
		t.Errorf("the last footprint was %v old", age)
	}
	for _, o := range f.Owners {
		if o.Owner == footprint.Malloc && o.Resident < limit/2 {
			t.Errorf("malloc had %d", o.Resident)
		}
	}
	t.Logf("saw %.1f %% of the limit, %v before the kill, in %d last looks", 100*float64(f.Usage)/float64(limit), killed-last.Uptime, a.Stats.LastLook.Load())
}

// readEnd reads the last footprint of a process, and whether its kill and its end
// were told.
func readEnd(t *testing.T, dir string, pid int) (last ledger.Record, kill, ended bool) {
	t.Helper()
	r, err := ledger.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Since(0, func(rec ledger.Record) bool {
		switch {
		case rec.Process.PID != pid:
		case rec.Footprint != nil:
			last = rec
		case rec.Event != nil:
			kill = kill || rec.Event.Kind == ledger.OOMKill
			ended = ended || rec.Event.Kind == ledger.Ended
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return last, kill, ended
}

// The kernel rings for a group that passes nine tenths of its limit, and for no
// other.
func TestAlarm(t *testing.T) {
	alone.Uses(t, "a JVM")
	const limit = 128 << 20
	group := grouptest.Limited(t, "", limit)
	if _, err := os.Stat(filepath.Join(group, "cgroup.event_control")); err != nil {
		t.Skip("needs cgroup v1; TestAlarmOfEvents has v2")
	}
	a, err := newAlarms(linux.NewFS("/proc"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx16m", "-XX:MaxDirectMemorySize=2g"}, 1)
	g := linux.MemoryGroup{Version: 1, Dir: group}
	unset, err := a.set(h.PID(), g, limit)
	if err != nil {
		t.Fatal(err)
	}
	usage := func() int64 {
		n, err := g.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for usage() < limit*8/10 {
		h.Take(t, "direct 1024")
	}
	if len(a.ring) > 0 && usage() < limit*88/100 {
		t.Errorf("it rang at %d of %d", usage(), limit)
	}
	for usage() < limit*93/100 {
		h.Take(t, "direct 1024")
	}
	polltest.Until(t, "the alarm", func() bool { return len(a.ring) > 0 })
	if pid := <-a.ring; pid != h.PID() {
		t.Errorf("it rang for %d", pid)
	}
	unset()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.bells {
		if b.pid == h.PID() {
			t.Errorf("%v is still set", b)
		}
	}
}

// On cgroup v2 the kernel rings when a group has reached its limit.
func TestAlarmOfEvents(t *testing.T) {
	alone.Uses(t, "a JVM")
	const limit = 128 << 20
	group := grouptest.Limited(t, "", limit)
	if _, err := os.Stat(filepath.Join(group, "memory.events")); err != nil {
		t.Skip("needs cgroup v2; TestAlarm has v1")
	}
	a, err := newAlarms(linux.NewFS("/proc"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx16m", "-XX:MaxDirectMemorySize=2g"}, 1)
	unset, err := a.set(h.PID(), linux.MemoryGroup{Version: 2, Dir: group}, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer unset()
	if len(a.ring) > 0 {
		t.Error("it rang at once")
	}
	for h.Try(t, "direct 2048") { // until it is killed
	}
	polltest.Until(t, "the alarm", func() bool { return len(a.ring) > 0 })
	if pid := <-a.ring; pid != h.PID() {
		t.Errorf("it rang for %d", pid)
	}
}

// On cgroup v2 a JVM whose group waits for memory, far below its limit, is weighed at
// once, and not again a moment later.
func TestAlarmOfPressure(t *testing.T) {
	alone.Uses(t, "a JVM")
	const high = 96 << 20
	group := grouptest.Limited(t, "", 1<<30)
	if _, err := os.Stat(filepath.Join(group, "memory.pressure")); err != nil {
		t.Skip("needs cgroup v2 and a kernel that keeps pressure")
	}
	// Beyond memory.high the kernel keeps the group waiting, and kills nobody.
	if err := os.WriteFile(filepath.Join(group, "memory.high"), fmt.Append(nil, high), 0); err != nil {
		t.Fatal(err)
	}
	w, err := ledger.Create(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	proc := linux.NewFS("/proc")
	clock := &clock{up: machineClock{}.Uptime() + time.Minute} // the JVM is not new
	a, err := New(Config{Proc: proc, Ledger: w, Interval: 10 * time.Second, WeighEvery: time.Hour, Share: 0.01, Clock: clock, Say: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if a.alarms, err = newAlarms(proc); err != nil {
		t.Fatal(err)
	}
	defer a.alarms.close()
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx16m", "-XX:MaxDirectMemorySize=2g"}, 1)
	for end := clock.up + 15*time.Second; clock.up < end; { // it is found, and weighed first
		clock.up += a.Step(t.Context())
	}
	j := a.jvms[h.PID()]
	if j == nil || !j.known || j.alarmed != 1<<30 {
		t.Fatalf("%+v", j)
	}
	stalled := func() bool {
		a.alarms.mu.Lock()
		defer a.alarms.mu.Unlock()
		return a.alarms.stalls[h.PID()]
	}
	for !stalled() {
		h.Take(t, "direct 512")
	}
	if left := headroom(&j.counters); left < 1<<29 {
		t.Fatalf("%d are left", left)
	}
	for range 2 {
		a.alarms.mu.Lock()
		a.alarms.stalls[h.PID()] = true
		a.alarms.mu.Unlock()
		a.rouse(h.PID())
		a.Step(t.Context())
	}
	if n := a.Stats.LastLook.Load(); n != 1 {
		t.Errorf("%d last looks", n)
	}
}

// How a JVM ended is known, whether its end has rung or not.
func TestAlarmOfEnd(t *testing.T) {
	alone.Uses(t, "a process")
	proc := linux.NewFS("/proc")
	a, err := newAlarms(proc)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for _, rings := range []bool{true, false} {
		cmd := exec.Command("/bin/sh", "-c", "read wait; exit 3")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		birth, err := proc.Birth(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.setEnd(cmd.Process.Pid, linux.Birth{StartTicks: birth.StartTicks + 1}); err == nil {
			t.Error("set for another process")
		}
		unset, err := a.setEnd(cmd.Process.Pid, birth)
		if err != nil {
			t.Fatal(err)
		}
		if _, told := a.exit(cmd.Process.Pid); told {
			t.Error("told while it runs")
		}
		fmt.Fprintln(in, "go")
		if rings {
			if pid := <-a.ring; pid != cmd.Process.Pid {
				t.Errorf("it rang for %d", pid)
			}
		} else {
			polltest.Until(t, "the end", func() bool { b, err := proc.Birth(cmd.Process.Pid); return err != nil || b.Ended })
		}
		if e, told := a.exit(cmd.Process.Pid); !told || e.Code != 3 || e.Signal != 0 {
			t.Errorf("%+v, %v", e, told)
		}
		_ = cmd.Wait() // it exits with 3
		unset()
		for len(a.ring) > 0 {
			<-a.ring
		}
	}
}

// A JVM that sits at its limit and rises no more is looked at every second for some
// time, then ever less.
func TestLooksWhileAtTheLimit(t *testing.T) {
	const limit = 256 << 20
	j := &jvm{}
	j.relax()
	var looks []time.Duration
	for up := time.Second; up < 3*time.Minute; up += 100 * time.Millisecond {
		left := max(0, limit-int64(up.Seconds()*50*(1<<20)))
		j.slope.add(limit-left, up)
		if j.slope.nearEnd(left, limit) && j.worth(left, up) {
			j.looked(left, up)
			looks = append(looks, up)
		}
	}
	reached := 0
	for _, at := range looks {
		if at > 5200*time.Millisecond && at <= 15*time.Second {
			reached++
		}
	}
	if reached < 9 || len(looks) > 30 || looks[0] > 5*time.Second {
		t.Errorf("%d looks in the ten seconds at the limit: %v", reached, looks)
	}
}
