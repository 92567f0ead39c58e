package agent

import (
	"testing"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/grouptest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// spending is a clock that a test moves, on which what the agent takes is real.
type spending struct {
	clock
	began time.Duration // this process's time when the step began; 0 between steps
}

func (c *spending) Processor() time.Duration {
	if c.began == 0 {
		return c.processor
	}
	return c.processor + machineClock{}.Processor() - c.began
}

// step has the agent do what is due, and lets the time pass that it waits, at most so much.
func (c *spending) step(t *testing.T, a *Agent, most time.Duration) {
	c.began = machineClock{}.Processor()
	wait := a.Step(t.Context())
	c.processor, c.began = c.Processor(), 0
	c.up += min(wait, most)
}

// A JVM grows to its limit and is killed, in a ledger that is full of others. The next JVM
// has its first footprint within a minute, and the budget holds all the while.
func TestFirstFootprintAfterAKill(t *testing.T) {
	alone.Measures(t, "JVMs") // the end of others' takes of the budget
	const share = 0.01
	dir, proc := t.TempDir(), linux.NewFS("/proc")
	w, err := ledger.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fill(t, w, 300)
	c := &spending{clock: clock{up: machineClock{}.Uptime() + time.Minute}} // the JVMs are not new
	made, autopsies := examine(t, dir), map[int]int{}                       // by process id: the machine may have JVMs of others
	counted := func(id ledger.ID) (*ledger.Autopsy, error) {
		autopsies[id.PID]++
		return made(id)
	}
	a, err := New(Config{Proc: proc, Ledger: w, Interval: 10 * time.Second, WeighEvery: 5 * time.Minute, Share: share, Clock: c, Examine: counted,
		Say: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	began := c.up
	live := func(d time.Duration) {
		for end := c.up + d; c.up < end; {
			c.step(t, a, end-c.up)
		}
	}
	group := grouptest.Limited(t, "", 256<<20)
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx32m", "-XX:MaxDirectMemorySize=2g"}, 1)
	live(15 * time.Second)
	for h.Try(t, "direct 512") { // by 5 MiB a second
		live(100 * time.Millisecond)
	}
	live(time.Second)
	next := jvmtest.StartHolderFrom(t, "", jvmtest.Java(t, 17), []string{"-Xmx32m"}, 1)
	t.Logf("%v of budget were left after %d last looks", a.budget.left, a.Stats.LastLook.Load())
	a.budget.left = -a.budget.credit() // the most that they may owe
	born := c.up
	for a.jvms[next.PID()] == nil || !a.jvms[next.PID()].known {
		c.step(t, a, time.Second)
		if c.up > born+time.Minute {
			t.Fatalf("no footprint in a minute; %v of budget are left", a.budget.left)
		}
	}
	t.Logf("the footprint of the next came after %v; %v spent in %v", c.up-born, c.processor, c.up-began)
	live(2 * time.Minute)
	if autopsies[h.PID()] != 1 || a.Stats.LastLook.Load() == 0 {
		t.Errorf("%d autopsies of it, %d last looks", autopsies[h.PID()], a.Stats.LastLook.Load())
	}
	// A bucket, the credit of last looks, and one piece of work.
	most := time.Duration(share*float64(c.up-began)) + a.budget.most + a.budget.credit() + a.budget.most/2
	if c.processor > most {
		t.Errorf("it took %v in %v, more than %v", c.processor, c.up-began, most)
	}
}

// fill fills a ledger with JVMs that are gone.
func fill(t *testing.T, w *ledger.Writer, jvms int) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	for pid := range jvms {
		p := ledger.Process{ID: ledger.ID{Boot: "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f", PID: pid + 1, StartTicks: 1}, Name: "gone.jar"}
		records := []ledger.Record{{At: at, Process: p.ID, Start: &p}}
		for n := range 500 {
			records = append(records, ledger.Record{At: at.Add(time.Duration(n) * time.Second), Process: p.ID, Counters: &ledger.Counters{Resident: 1 << 28, Usage: int64(n) << 20}})
		}
		for _, r := range append(records, ledger.Record{At: at, Process: p.ID, Event: &ledger.Event{Kind: ledger.Ended}}) {
			if err := w.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// examine makes autopsies as tare agent does.
func examine(t *testing.T, dir string) func(ledger.ID) (*ledger.Autopsy, error) {
	return func(id ledger.ID) (*ledger.Autopsy, error) {
		r, err := ledger.OpenReader(dir)
		if err != nil {
			return nil, err
		}
		s := autopsy.Sources{Ledger: r, Proc: linux.NewFS("/proc")}
		s.Log, _ = kernellog.Kmsg()
		found, err := s.Examine(id)
		if err != nil {
			return nil, err
		}
		t.Logf("the autopsy: %s", found.Headline)
		return found.Kept(), nil
	}
}
