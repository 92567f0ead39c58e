// Package historytest holds what each database of a history must do.
package historytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
)

// Maker makes an empty database and returns its location.
type Maker func(t *testing.T) (location string)

// Run tests the histories of a Maker. Each test has a database of its own.
func Run(t *testing.T, fresh Maker) {
	for name, test := range map[string]func(*testing.T, Maker){
		"ComesBackWhole":         comesBackWhole,
		"TakesEachRecordOnce":    takesEachRecordOnce,
		"OneOfTwoTakesIt":        oneOfTwoTakesIt,
		"KeepsPeaks":             keepsPeaks,
		"EndsWithinASecond":      endsWithinASecond,
		"AgreesWithAll":          agreesWithAll,
		"ForgetsByPolicy":        forgetsByPolicy,
		"TellsKillsApart":        tellsKillsApart,
		"KeepsAutopsies":         keepsAutopsies,
		"GoesByItsOwnClock":      goesByItsOwnClock,
		"RefusesWhatNoAgentSays": refusesWhatNoAgentSays,
		"OneNameOneLedger":       oneNameOneLedger,
		"Tokens":                 tokens,
		"EnrolsMachines":         enrolsMachines,
		"ListsInParts":           listsInParts,
		"OpenAgain":              openAgain,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh) })
	}
}

// Open opens a history, and closes it with the test.
func Open(t testing.TB, location string) *history.DB {
	t.Helper()
	d, err := history.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Boot is the boot of the agents here.
const Boot = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// Now is when the tests take place.
var Now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// Agent makes batches as an agent does.
type Agent struct {
	Ledger  string
	Machine string
	seq     uint64
	pending []ledger.Record
	sent    uint64
}

// NewAgent is an agent with a ledger of its own.
func NewAgent(machine string) *Agent {
	id := make([]byte, 26)
	for i := range id {
		id[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[rand.IntN(32)]
	}
	return &Agent{Ledger: string(id), Machine: machine}
}

// ID is the id of a JVM.
func ID(pid int) ledger.ID { return ledger.ID{Boot: Boot, PID: pid, StartTicks: uint64(pid) * 100} }

// Process is the start of a JVM.
func Process(pid int) *ledger.Process {
	return &ledger.Process{ID: ID(pid), PIDs: []int{pid, 1}, Name: fmt.Sprintf("shop-%d.jar", pid), Kind: "HotSpot", JDK: "25.0.1", Collector: "G1",
		Started: Now.Add(-time.Hour), Group: ledger.Group{Version: 2, Path: fmt.Sprintf("/pods/%d", pid/10), Inode: 7}, Flags: map[string]string{"MaxHeapSize": "1"}}
}

// Footprint is a footprint with so much resident memory.
func Footprint(resident int64) *ledger.Footprint {
	return &ledger.Footprint{Reason: ledger.Moved, Resident: resident, Limit: 1 << 29, Owners: []ledger.Owned{
		{Owner: footprint.JavaHeap, Resident: resident / 2, Committed: resident},
		{Owner: footprint.Malloc, Resident: resident - resident/2, Parts: []ledger.Part{{ID: footprint.PartDirectBuffers, Bytes: 4096}}},
	}, Heap: &ledger.Heap{Max: 1 << 28}}
}

// Add adds a record of a moment before Now.
func (a *Agent) Add(at time.Time, r ledger.Record) {
	a.seq++
	r.Seq, r.At = a.seq, at
	r.Uptime = uptime - Now.Sub(at)
	a.pending = append(a.pending, r)
}

// uptime is that of the machines at Now.
const uptime = 5000 * time.Hour

// Batch is what was added since the last one, as it is sent at a moment.
func (a *Agent) Batch(now time.Time) *history.Batch {
	b := &history.Batch{Ledger: a.Ledger, After: a.sent, Version: "test", Sent: now, Uptime: uptime + now.Sub(Now), Boot: Boot, Records: a.pending}
	a.sent, a.pending = a.seq, nil
	return b
}

// Send has what was added taken at a moment.
func (a *Agent) Send(t testing.TB, d *history.DB, now time.Time) {
	t.Helper()
	got, err := d.Take(t.Context(), a.Machine, a.Batch(now), now)
	if err != nil || got.Refused > 0 || got.Position != a.seq {
		t.Fatalf("%+v, %v", got, err)
	}
}

func one(t *testing.T, d *history.DB, pid int) history.JVM {
	t.Helper()
	all, err := d.JVMs(t.Context(), history.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range all {
		if j.Process.ID.PID == pid {
			return j
		}
	}
	t.Fatalf("no JVM %d among %d", pid, len(all))
	return history.JVM{}
}

func comesBackWhole(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	c := &ledger.Counters{Usage: 300 << 20, Reclaimable: 20 << 20, Limit: 512 << 20, Resident: 270 << 20, HeapUsed: 5, HeapAfterGC: 3, Collections: 9}
	p := Process(11)
	p.Name = "<script>alert('\u2028')</script> $1 ? %s '; DROP TABLE jvms; --"
	a.Add(Now.Add(-3*time.Minute), ledger.Record{Process: ID(11), Start: p})
	a.Add(Now.Add(-2*time.Minute), ledger.Record{Process: ID(11), Counters: c})
	a.Add(Now.Add(-time.Minute), ledger.Record{Process: ID(11), Footprint: Footprint(270 << 20)})
	a.Add(Now.Add(-time.Minute), ledger.Record{Process: ID(11), Findings: []ledger.Finding{{ID: "x", Bytes: 10, Certainty: doctor.Certain, Title: "y"}, {ID: "z", Bytes: 5, Certainty: doctor.Possible}}})
	a.Add(Now.Add(-time.Minute), ledger.Record{Spent: &ledger.Spent{MemTotal: 4, JVMs: 1, Processor: time.Second}})
	a.Add(Now, ledger.Record{Process: ID(11), Event: &ledger.Event{Kind: ledger.LimitReached, Values: map[string]int64{"before": 1, "after": 2}}})
	a.Send(t, d, Now)
	j := one(t, d, 11)
	if j, err := d.JVM(t.Context(), j.ID); err != nil || j.Machine != "web" || !reflect.DeepEqual(j.Process, *p) || j.Counters != *c || !j.CountersAt.Equal(Now.Add(-2*time.Minute)) ||
		!reflect.DeepEqual(j.Footprint, Footprint(270<<20)) || !j.FootprintAt.Equal(Now.Add(-time.Minute)) || len(j.Findings) != 2 || !j.Ended.IsZero() || !j.Last.Equal(Now) {
		t.Errorf("%+v, %v", j, err)
	}
	brief := *p
	brief.Flags = nil
	if all, err := d.JVMs(t.Context(), history.Filter{Limit: 9, Brief: true}); err != nil || len(all) != 1 || !reflect.DeepEqual(all[0].Process, brief) || all[0].Footprint != nil || all[0].Counters != *c {
		t.Errorf("%+v, %v", all, err)
	}
	if left, ok := j.Headroom(); j.Savable() != 10 || j.Needed() != 280<<20 || left != 232<<20 || !ok || j.LiveSet() != 3 || j.Spark.Peaks[0] != 280<<20 {
		t.Errorf("%d, %d, %d, %+v", j.Savable(), j.Needed(), left, j.Spark)
	}
	if m, err := d.Machines(t.Context()); err != nil || len(m) != 1 || m[0].Spent == nil || m[0].Spent.Processor != time.Second || !m[0].Seen.Equal(Now) || m[0].Version != "test" {
		t.Errorf("%+v, %v", m, err)
	}
	if e, err := d.Events(t.Context(), j.ID, Now.Add(-time.Hour), Now.Add(time.Second), 0, 10); err != nil || len(e) != 1 || e[0].Event.Values["after"] != 2 || !e[0].At.Equal(Now) {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := d.JVM(t.Context(), 999); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// Whatever comes again, in whatever parts, is there once.
func takesEachRecordOnce(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	a.Add(Now.Add(-time.Hour), ledger.Record{Process: ID(1), Start: Process(1)})
	for i := range 50 {
		a.Add(Now.Add(-time.Minute), ledger.Record{Process: ID(1), Event: &ledger.Event{Kind: ledger.LimitReached, Values: map[string]int64{"after": int64(i)}}})
	}
	b := a.Batch(Now)
	all := b.Records
	take := func(from, to int, want uint64) {
		t.Helper()
		part := *b
		part.Records, part.After = all[from:to], 0
		if from > 0 {
			part.After = all[from-1].Seq
		}
		got, err := d.Take(t.Context(), "web", &part, Now)
		if err != nil || got.Position != want {
			t.Fatalf("%+v, %v, want %d", got, err, want)
		}
	}
	take(0, 20, 20)
	take(0, 20, 20)
	take(10, 30, 30)
	take(5, 7, 30)
	var gap *history.GapError
	part := *b
	part.Records, part.After = all[40:], all[39].Seq
	if _, err := d.Take(t.Context(), "web", &part, Now); !errors.As(err, &gap) || gap.Position != 30 {
		t.Errorf("%v", err)
	}
	take(30, 51, 51)
	take(0, 51, 51)
	if p, err := d.Position(t.Context(), "web", a.Ledger); err != nil || p != 51 {
		t.Errorf("%d, %v", p, err)
	}
	events, err := d.Events(t.Context(), one(t, d, 1).ID, Now.Add(-time.Hour), Now.Add(time.Hour), 0, 1000)
	if err != nil || len(events) != 50 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, e := range events {
		if e.Event.Values["after"] != int64(i) {
			t.Errorf("event %d is %+v", i, e)
		}
	}
}

// Two processes that take the same at once keep it once.
func oneOfTwoTakesIt(t *testing.T, fresh Maker) {
	location := fresh(t)
	dbs := []*history.DB{Open(t, location), Open(t, location)}
	a := NewAgent("web")
	a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
	for range 20 {
		a.Add(Now, ledger.Record{Process: ID(1), Event: &ledger.Event{Kind: ledger.LimitReached}})
		a.Add(Now, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 1}})
		b := a.Batch(Now)
		var both sync.WaitGroup
		took := make([]bool, len(dbs))
		for i, d := range dbs {
			both.Go(func() {
				_, err := d.Take(t.Context(), "web", b, Now)
				took[i] = err == nil // else the other one was first
			})
		}
		both.Wait()
		if !took[0] && !took[1] {
			t.Fatal("none took it")
		}
	}
	if e, err := dbs[0].Events(t.Context(), one(t, dbs[0], 1).ID, Now.Add(-time.Hour), Now.Add(time.Hour), 0, 1000); err != nil || len(e) != 20 {
		t.Errorf("%d, %v", len(e), err)
	}
}

func keepsPeaks(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	start := Now.Add(-3 * time.Hour)
	a.Add(start, ledger.Record{Process: ID(1), Start: Process(1)})
	for at := start; at.Before(Now); at = at.Add(5 * time.Second) {
		usage := int64(100 << 20)
		if at.Equal(start.Add(35 * time.Minute)) {
			usage = 777 << 20 // for one moment alone
			a.Add(at, ledger.Record{Process: ID(1), Footprint: Footprint(700 << 20)})
		}
		a.Add(at, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: usage, Resident: usage - 5, Limit: 1 << 30}})
		if at.Sub(start)%(5*time.Minute) == 0 {
			a.Add(at, ledger.Record{Process: ID(1), Footprint: Footprint(90 << 20)})
			a.Send(t, d, at.Add(time.Second))
		}
	}
	a.Send(t, d, Now)
	id := one(t, d, 1).ID
	for _, points := range []int{2000, 300, 100, 20, 1} {
		r := history.Range{From: start, To: Now, Points: points}
		s, err := d.Samples(t.Context(), id, r, Now)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Times) == 0 || len(s.Times) > points+1 {
			t.Errorf("%d points for at most %d", len(s.Times), points)
		}
		peaks := 0
		for i, at := range s.Times {
			if s.Columns[0][i] == 777<<20 && s.Columns[2][i] == 777<<20-5 {
				if peaks++; at > start.Add(35*time.Minute).Unix() || at+s.Step <= start.Add(35*time.Minute).Unix() {
					t.Errorf("the peak is at %d, step %d", at, s.Step)
				}
			} else if s.Columns[0][i] != 100<<20 {
				t.Errorf("%d", s.Columns[0][i])
			}
		}
		if peaks != 1 {
			t.Errorf("%d points: %d peaks of %d", points, peaks, len(s.Times))
		}
		all, err := d.Footprints(t.Context(), id, r, Now)
		if err != nil {
			t.Fatal(err)
		}
		peaks = 0
		for _, w := range all {
			var sum int64
			for _, o := range w.Footprint.Owners {
				sum += o.Resident
			}
			if sum != w.Footprint.Resident {
				t.Errorf("%d of %d", sum, w.Footprint.Resident)
			}
			if w.Footprint.Resident == 700<<20 && w.At.Equal(start.Add(35*time.Minute)) {
				peaks++
			}
		}
		if peaks != 1 {
			t.Errorf("%d points: %d footprints of the peak among %d", points, peaks, len(all))
		}
	}
	if w, err := d.FootprintAt(t.Context(), id, start.Add(36*time.Minute)); err != nil || w.Footprint.Resident != 700<<20 || len(w.Footprint.Owners[1].Parts) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := d.FootprintAt(t.Context(), id, start.Add(-time.Hour)); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A range that ends within the first second of an interval has that interval.
func endsWithinASecond(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	end := Now.Add(300 * time.Millisecond)
	a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
	a.Add(Now.Add(100*time.Millisecond), ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 5}})
	a.Add(Now.Add(100*time.Millisecond), ledger.Record{Process: ID(1), Footprint: Footprint(1 << 20)})
	a.Send(t, d, end)
	id, r := one(t, d, 1).ID, history.Range{From: Now.Add(-time.Hour), To: end, Points: history.MaxPoints}
	if s, err := d.Samples(t.Context(), id, r, end); err != nil || len(s.Times) != 1 {
		t.Errorf("%+v, want one interval: %v", s, err)
	}
	if f, err := d.Footprints(t.Context(), id, r, end); err != nil || len(f) != 1 {
		t.Errorf("%d footprints, want one: %v", len(f), err)
	}
}

// Whatever is taken in whichever batches, an interval has the largest of it.
func agreesWithAll(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	rng := rand.New(rand.NewPCG(3, 4))
	start := Now.Add(-2 * time.Hour)
	a.Add(start, ledger.Record{Process: ID(1), Start: Process(1)})
	want := map[int64]map[int64]int64{10: {}, 60: {}, 600: {}}
	for at := start; at.Before(Now); at = at.Add(time.Duration(1+rng.IntN(20000)) * time.Millisecond) {
		usage := rng.Int64N(1 << 40)
		for step, all := range want {
			i := at.Unix() / step * step
			all[i] = max(all[i], usage)
		}
		a.Add(at, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: usage}})
		if rng.IntN(10) == 0 {
			a.Send(t, d, at)
		}
	}
	a.Send(t, d, Now)
	id := one(t, d, 1).ID
	for _, points := range []int{720, 120, 12} {
		s, err := d.Samples(t.Context(), id, history.Range{From: start, To: Now, Points: points}, Now)
		if err != nil {
			t.Fatal(err)
		}
		all := want[s.Step]
		if all == nil || len(all) != len(s.Times) {
			t.Fatalf("step %d, %d intervals, want %d", s.Step, len(s.Times), len(all))
		}
		for i, at := range s.Times {
			if s.Columns[0][i] != all[at] {
				t.Errorf("step %d at %d: %d, want %d", s.Step, at, s.Columns[0][i], all[at])
			}
		}
	}
}

func forgetsByPolicy(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	begin := Now.Add(-8 * 24 * time.Hour)
	a.Add(begin, ledger.Record{Process: ID(1), Start: Process(1)})
	for at := begin; at.Before(Now); at = at.Add(2 * time.Hour) {
		a.Add(at, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 5}})
		a.Add(at, ledger.Record{Process: ID(1), Footprint: Footprint(1 << 20)})
		a.Send(t, d, at)
	}
	id := one(t, d, 1).ID
	count := func(from time.Time, points int, now time.Time) int {
		t.Helper()
		s, err := d.Samples(t.Context(), id, history.Range{From: from, To: now, Points: points}, now)
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Times)
	}
	for range 2 {
		if err := d.Prune(t.Context(), Now); err != nil {
			t.Fatal(err)
		}
		if n := count(Now.Add(-8*24*time.Hour), 2000, Now); n != 96 {
			t.Errorf("of eight days %d are left, want 96", n)
		}
		if n := count(Now.Add(-6*24*time.Hour), 2000, Now); n != 72 {
			t.Errorf("of six days %d are left, want 72", n)
		}
		if n := count(Now.Add(-23*time.Hour), 2000, Now); n != 11 {
			t.Errorf("of a day %d are left, want 11", n)
		}
	}
	later := Now.Add(history.Quarter + time.Hour)
	if err := d.Prune(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if all, err := d.JVMs(t.Context(), history.Filter{Limit: 10}); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func tellsKillsApart(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	kill := func(pid int, at time.Time, before, after int64) {
		a.Add(at, ledger.Record{Process: ID(pid), Event: &ledger.Event{Kind: ledger.OOMKill, Values: map[string]int64{"before": before, "after": after}}})
	}
	end := func(pid int, at time.Time) {
		a.Add(at, ledger.Record{Process: ID(pid), Event: &ledger.Event{Kind: ledger.Ended}})
	}
	t0 := Now.Add(-10 * time.Minute)
	for _, pid := range []int{10, 11, 20, 30} { // 10 and 11 are of one group
		a.Add(t0, ledger.Record{Process: ID(pid), Start: Process(pid)})
	}
	a.Add(t0, ledger.Record{Process: ID(11), Footprint: Footprint(500 << 20)})
	kill(10, t0.Add(time.Minute), 0, 1) // both tell of it
	a.Send(t, d, t0.Add(time.Minute))
	kill(11, t0.Add(time.Minute+time.Second), 0, 1)
	end(11, t0.Add(time.Minute+time.Second))
	a.Send(t, d, t0.Add(61*time.Second))
	a.Add(t0, ledger.Record{Process: ID(20), Footprint: Footprint(100 << 20)})
	kill(20, t0.Add(2*time.Minute), 3, 5) // a child; the JVM lives on
	a.Add(t0.Add(150*time.Second), ledger.Record{Process: ID(20), Footprint: Footprint(200 << 20)})
	end(30, t0.Add(3*time.Minute)) // by itself
	a.Send(t, d, t0.Add(3*time.Minute))
	check := func(n int) {
		t.Helper()
		kills, err := d.Kills(t.Context(), Now.Add(-time.Hour), Now, 0, 10)
		if err != nil || len(kills) != n {
			t.Fatalf("%+v, %v", kills, err)
		}
		if n == 0 {
			return
		}
		if k := kills[1]; k.Name != "shop-11.jar" || k.Verdict != history.JVMEnded || k.Kills != 1 || k.Group != "/pods/1" || k.Footprint == nil || k.Footprint.Resident != 500<<20 || k.Machine != "web" {
			t.Errorf("%+v", k)
		}
		if k := kills[0]; k.Name != "shop-20.jar" || k.Verdict != history.OtherProcess || k.Kills != 2 || k.Footprint == nil || k.Footprint.Resident != 100<<20 {
			t.Errorf("%+v", k)
		}
	}
	check(2)
	counts := []history.KillCount{{Machine: "web", Verdict: history.JVMEnded, Kills: 1}, {Machine: "web", Verdict: history.OtherProcess, Kills: 2}}
	if got, err := d.KillCounts(t.Context()); err != nil || !reflect.DeepEqual(got, counts) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := d.Prune(t.Context(), Now.Add(2*history.Quarter)); err != nil {
		t.Fatal(err)
	}
	check(0)
	if got, err := d.KillCounts(t.Context()); err != nil || !reflect.DeepEqual(got, counts) {
		t.Errorf("forgotten with the rows: %+v, %v", got, err)
	}
}

// The last autopsy of a JVM is kept with it and its kills; each is counted once, for good.
func keepsAutopsies(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	examined := func(pid int, verdict string, at time.Time) {
		a.Add(at, ledger.Record{Autopsy: &ledger.Autopsy{JVM: ID(pid), Verdict: verdict, Confidence: "certain", Headline: "shop was killed",
			Evidence: []ledger.Fact{{Source: "kernel log", Text: "killed process 10"}}, Growth: []ledger.Change{{Account: "direct-buffers", From: 1, To: 9}}, Do: []ledger.Step{{Option: "-Xmx1g", Text: "less"}}}})
	}
	t0 := Now.Add(-10 * time.Minute)
	a.Add(t0, ledger.Record{Process: ID(10), Start: Process(10)})
	a.Add(t0, ledger.Record{Process: ID(10), Event: &ledger.Event{Kind: ledger.OOMKill, Values: map[string]int64{"before": 0, "after": 1}}})
	examined(10, "child", t0.Add(30*time.Second))
	a.Add(t0.Add(time.Minute), ledger.Record{Process: ID(10), Event: &ledger.Event{Kind: ledger.Ended}})
	examined(99, "killed", t0.Add(time.Minute)) // nobody knows it
	sent := a.Batch(Now)
	for range 2 { // it is sent again
		if _, err := d.Take(t.Context(), "web", sent, Now); err != nil {
			t.Fatal(err)
		}
	}
	examined(10, "container-limit", t0.Add(61*time.Second))
	a.Send(t, d, Now)
	j := one(t, d, 10)
	got, err := d.Autopsy(t.Context(), j.ID)
	if err != nil || got == nil || got.Verdict != "container-limit" || got.JVM != ID(10) || got.Growth[0].To != 9 || got.Evidence[0].Source != "kernel log" || got.Do[0].Option != "-Xmx1g" {
		t.Fatalf("%+v, %v", got, err)
	}
	kills, err := d.Kills(t.Context(), Now.Add(-time.Hour), Now, 0, 10)
	if err != nil || len(kills) != 1 || !reflect.DeepEqual(kills[0].Autopsy, got) {
		t.Errorf("%+v, %v", kills, err)
	}
	if err := d.Prune(t.Context(), Now.Add(2*history.Quarter)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Autopsy(t.Context(), j.ID); got != nil || err != nil {
		t.Errorf("it outlives its JVM: %+v, %v", got, err)
	}
	counts := []history.AutopsyCount{{Machine: "web", Verdict: "child", Autopsies: 1}, {Machine: "web", Verdict: "container-limit", Autopsies: 1}}
	if got, err := d.AutopsyCounts(t.Context()); err != nil || !reflect.DeepEqual(got, counts) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 100 {
		examined(10, "verdict-"+strconv.Itoa(i), Now)
	}
	a.Add(Now, ledger.Record{Process: ID(10), Start: Process(10)})
	for i := range 100 {
		examined(10, "verdict-"+strconv.Itoa(i), Now)
	}
	a.Send(t, d, Now)
	if got, err := d.AutopsyCounts(t.Context()); err != nil || len(got) > 40 {
		t.Errorf("%d verdicts, %v", len(got), err)
	}
}

// The clocks of machines are off, and jump.
func goesByItsOwnClock(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	for name, off := range map[string]time.Duration{"right": time.Second, "late": -300 * 24 * time.Hour, "early": 20 * time.Hour} {
		a := NewAgent(name)
		a.Add(Now.Add(-time.Minute), ledger.Record{Process: ID(1), Start: Process(1)})
		a.Add(Now.Add(-time.Minute), ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 1}})
		a.Add(Now, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 1}})
		b := a.Batch(Now)
		b.Sent = b.Sent.Add(off)
		for i := range b.Records {
			b.Records[i].At = b.Records[i].At.Add(off)
		}
		b.Records[2].At = b.Records[2].At.Add(-7 * time.Hour) // it jumped
		if _, err := d.Take(t.Context(), name, b, Now); err != nil {
			t.Fatal(err)
		}
		all, err := d.JVMs(t.Context(), history.Filter{Machine: name, Limit: 10})
		if err != nil || len(all) != 1 || all[0].First.Sub(Now.Add(-time.Minute)).Abs() > 5*time.Second || all[0].CountersAt.Sub(Now).Abs() > 5*time.Second {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	// From before a boot, spooled for long.
	a := NewAgent("old")
	id := ledger.ID{Boot: strings.Repeat("1", 8) + Boot[8:], PID: 1, StartTicks: 1}
	a.Add(Now.Add(-48*time.Hour), ledger.Record{Process: id, Counters: &ledger.Counters{Usage: 1}})
	b := a.Batch(Now)
	b.Uptime = time.Hour
	if _, err := d.Take(t.Context(), "old", b, Now); err != nil {
		t.Fatal(err)
	}
	if all, err := d.JVMs(t.Context(), history.Filter{Machine: "old", Limit: 10}); err != nil || len(all) != 1 || !all[0].Last.Equal(Now.Add(-48*time.Hour)) {
		t.Errorf("%+v, %v", all, err)
	}
}

func refusesWhatNoAgentSays(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	short := Footprint(100)
	short.Resident++
	twice := Footprint(100)
	twice.Owners[1].Owner = twice.Owners[0].Owner
	strange := Footprint(100)
	strange.Owners[1].Owner = "<b>"
	long := Process(2)
	long.Name = strings.Repeat("x", 5000)
	nul := Process(2)
	nul.Name = "a\x00b"
	foreign := Process(3)
	bad := []ledger.Record{
		{Process: ID(2), Footprint: short}, {Process: ID(2), Footprint: twice}, {Process: ID(2), Footprint: strange},
		{Process: ID(2), Start: long}, {Process: ID(2), Start: nul}, {Process: ID(2), Start: foreign}, {Start: Process(2)},
		{Process: ID(2), Counters: &ledger.Counters{Usage: -1}}, {Process: ID(2), Counters: &ledger.Counters{Usage: 1 << 60}},
		{Process: ledger.ID{Boot: "x", PID: 1}, Counters: &ledger.Counters{}}, {Process: ledger.ID{Boot: Boot, PID: -1}, Counters: &ledger.Counters{}},
		{Process: ID(2), Event: &ledger.Event{Kind: ledger.Kind(strings.Repeat("k", 100))}},
		{Process: ID(2), Findings: []ledger.Finding{{Bytes: -1}}},
		{Spent: &ledger.Spent{Resident: -1}},
	}
	a := NewAgent("web")
	for _, r := range bad {
		a.Add(Now, r)
	}
	a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
	got, err := d.Take(t.Context(), "web", a.Batch(Now), Now)
	if err != nil || got.Refused != len(bad) || got.Position != uint64(len(bad)+1) || !strings.Contains(got.Why, "add up") {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := d.JVMs(t.Context(), history.Filter{Limit: 10}); err != nil || len(all) != 1 || all[0].Process.Name != "shop-1.jar" {
		t.Errorf("%+v, %v", all, err)
	}
	if m, err := d.Machines(t.Context()); err != nil || m[0].Refused != int64(len(bad)) {
		t.Errorf("%+v, %v", m, err)
	}
	for name, spoil := range map[string]func(*history.Batch){
		"no ledger":    func(b *history.Batch) { b.Ledger = "' OR 1" },
		"no boot":      func(b *history.Batch) { b.Boot = "" },
		"out of order": func(b *history.Batch) { b.Records[0].Seq, b.Records[1].Seq = 2, 1 },
		"the same":     func(b *history.Batch) { b.Records[1].Seq = b.Records[0].Seq },
		"too many":     func(b *history.Batch) { b.Records = make([]ledger.Record, history.MaxRecords+1) },
		"too large":    func(b *history.Batch) { b.Records[1].Seq = 1 << 63 },
	} {
		a := NewAgent("other")
		a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
		a.Add(Now, ledger.Record{Process: ID(1), Counters: &ledger.Counters{}})
		b := a.Batch(Now)
		spoil(b)
		if _, err := d.Take(t.Context(), "other", b, Now); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	// Times that nobody has.
	for _, at := range []time.Time{{}, time.Unix(1<<40, 0), time.Unix(-1<<40, 0)} {
		a := NewAgent("times")
		a.Add(Now, ledger.Record{Process: ID(1), Counters: &ledger.Counters{Usage: 1}})
		b := a.Batch(Now)
		b.Sent, b.Uptime, b.Records[0].Uptime, b.Records[0].At = at, 1<<62, 0, at.Add(1<<62)
		if _, err := d.Take(t.Context(), "times", b, Now.Add(24*time.Hour)); err != nil && !errors.Is(err, history.ErrTwoAgents) {
			t.Error(err)
		}
	}
}

func oneNameOneLedger(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	first, second := NewAgent("web"), NewAgent("web")
	for _, a := range []*Agent{first, second} {
		a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
	}
	first.Send(t, d, Now)
	b := second.Batch(Now)
	if _, err := d.Take(t.Context(), "web", b, Now.Add(time.Minute)); !errors.Is(err, history.ErrTwoAgents) {
		t.Errorf("%v", err)
	}
	// The ledger was made anew.
	if _, err := d.Take(t.Context(), "web", b, Now.Add(3*time.Minute)); err != nil {
		t.Error(err)
	}
	first.Add(Now, ledger.Record{Process: ID(1), Counters: &ledger.Counters{}})
	if _, err := d.Take(t.Context(), "web", first.Batch(Now), Now.Add(4*time.Minute)); !errors.Is(err, history.ErrTwoAgents) {
		t.Errorf("%v", err)
	}
}

func tokens(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	read, err1 := d.AddToken(t.Context(), "grafana", history.Read, Now)
	write, err2 := d.AddToken(t.Context(), "web-1", history.Write, Now)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		kind history.Kind
	}{{"grafana", history.Write}, {"", history.Read}, {"a b", history.Read}, {"x", "root"}, {strings.Repeat("x", 300), history.Read}} {
		if s, err := d.AddToken(t.Context(), c.name, c.kind, Now); err == nil {
			t.Errorf("%+v: %s", c, s)
		}
	}
	if got, err := d.Token(t.Context(), write); err != nil || got.Kind != history.Write || got.Name != "web-1" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err := d.Token(t.Context(), read)
	if err != nil || got.Kind != history.Read {
		t.Errorf("%+v, %v", got, err)
	}
	for _, secret := range []string{"", read[1:], read + "x", strings.ToLower(read), strings.Repeat("x", 10000)} {
		if _, err := d.Token(t.Context(), secret); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%q: %v", secret, err)
		}
	}
	if all, err := d.Tokens(t.Context()); err != nil || len(all) != 2 || all[0].Name != "grafana" || !all[0].Made.Equal(Now) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := d.RemoveToken(t.Context(), "grafana", false); err != nil {
		t.Error(err)
	}
	if _, err := d.TokenOf(t.Context(), got.ID); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := d.RemoveToken(t.Context(), "grafana", false); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A token that enrols makes one for each machine, as many as it may and for as long; a
// name belongs to who has it.
func enrolsMachines(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	fleet, err := d.AddEnrolment(t.Context(), "fleet", 3, Now.Add(time.Hour), Now)
	if err != nil {
		t.Fatal(err)
	}
	read, err := d.AddToken(t.Context(), "people", history.Read, Now)
	if err != nil {
		t.Fatal(err)
	}
	secrets := make([]string, 5)
	for i := range secrets {
		secrets[i] = history.NewSecret(history.Write)
	}
	for _, c := range []struct {
		by, name, secret string
		at               time.Time
		want             error
	}{
		{fleet, "web-1", secrets[0], Now, nil},
		{fleet, "web-1", secrets[0], Now, nil}, // it was cut off, and asks again
		{fleet, "web-1", secrets[1], Now, history.ErrNameTaken},
		{fleet, "people", secrets[1], Now, history.ErrNameTaken},
		{fleet, "no name", secrets[1], Now, history.ErrNoName},
		{fleet, "web-2", "tare-write-guessed", Now, history.ErrNoSecret},
		{fleet, "web-2", secrets[1], Now.Add(2 * time.Hour), history.ErrExpired},
		{read, "web-2", secrets[1], Now, history.ErrNoEnrolment},
		{secrets[0], "web-2", secrets[1], Now, history.ErrNoEnrolment},
		{fleet[1:], "web-2", secrets[1], Now, history.ErrNotFound},
		{strings.Repeat("x", 10000), "web-2", secrets[1], Now, history.ErrNotFound},
		{fleet, "web-2", secrets[1], Now, nil},
		{fleet, "web-3", secrets[2], Now, nil},
		{fleet, "web-4", secrets[3], Now, history.ErrAllEnrolled},
		{fleet, "web-3", secrets[2], Now, nil},
	} {
		if err := d.Enrol(t.Context(), c.by, c.name, c.secret, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for i, name := range []string{"web-1", "web-2", "web-3"} {
		if got, err := d.Token(t.Context(), secrets[i]); err != nil || got.Kind != history.Write || got.Name != name {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if all, err := d.Tokens(t.Context()); err != nil || len(all) != 5 || all[0].Name != "fleet" || all[0].Enrolled != 3 || all[0].Machines != 3 ||
		!all[0].Expires.Equal(Now.Add(time.Hour)) || all[2].By != all[0].ID {
		t.Errorf("%+v, %v", all, err)
	}
	// The place of a machine that is gone is another one's.
	if err := errors.Join(d.RemoveToken(t.Context(), "web-1", false), d.Enrol(t.Context(), fleet, "web-4", secrets[3], Now)); err != nil {
		t.Error(err)
	}
	if err := d.RemoveToken(t.Context(), "fleet", true); err != nil {
		t.Error(err)
	}
	for _, secret := range append(secrets, fleet) {
		if _, err := d.Token(t.Context(), secret); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
	if _, err := d.Token(t.Context(), read); err != nil {
		t.Error(err)
	}
	for _, machines := range []int{0, -1, history.MaxMachines + 1} {
		if _, err := d.AddEnrolment(t.Context(), "other", machines, time.Time{}, Now); err == nil {
			t.Errorf("%d machines", machines)
		}
	}
}

func listsInParts(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	for _, name := range []string{"a", "b"} {
		a := NewAgent(name)
		for pid := 1; pid <= 25; pid++ {
			a.Add(Now, ledger.Record{Process: ID(pid), Start: Process(pid)})
		}
		a.Add(Now, ledger.Record{Process: ID(25), Event: &ledger.Event{Kind: ledger.Ended}})
		a.Send(t, d, Now)
	}
	seen, after := map[int64]bool{}, int64(0)
	for {
		part, err := d.JVMs(t.Context(), history.Filter{After: after, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		for _, j := range part {
			if j.ID <= after || seen[j.ID] {
				t.Errorf("%d again", j.ID)
			}
			seen[j.ID], after = true, j.ID
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d", len(seen))
	}
	for f, want := range map[history.Filter]int{{Machine: "a"}: 25, {Live: true}: 48, {Machine: "b", Live: true}: 24, {Since: Now.Add(time.Second)}: 0, {Machine: "c"}: 0} {
		f.Limit = 100
		if all, err := d.JVMs(t.Context(), f); err != nil || len(all) != want {
			t.Errorf("%+v: %d, %v", f, len(all), err)
		}
	}
}

func openAgain(t *testing.T, fresh Maker) {
	location := fresh(t)
	a := NewAgent("web")
	a.Add(Now, ledger.Record{Process: ID(1), Start: Process(1)})
	a.Send(t, Open(t, location), Now)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d, err := history.Open(t.Context(), location)
			if err != nil {
				t.Error(err)
				return
			}
			if jvms, err := d.JVMs(t.Context(), history.Filter{Limit: 9}); err != nil || len(jvms) != 1 {
				t.Errorf("%+v, %v", jvms, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// MakesRoom tests that a machine on which JVMs come and go has as many as it
// may: the one that is gone for longest makes room, and none that was seen a moment
// ago. It takes long: one database tells.
func MakesRoom(t *testing.T, fresh Maker) {
	d := Open(t, fresh(t))
	a := NewAgent("web")
	pid := 0
	add := func(n int, at time.Time) {
		for range n {
			pid++
			a.Add(at, ledger.Record{Process: ID(pid), Counters: &ledger.Counters{Usage: 1}})
		}
	}
	for left := history.MaxJVMs; left > 0; left -= history.MaxRecords {
		add(min(left, history.MaxRecords), Now)
		a.Send(t, d, Now)
	}
	add(3, Now)
	if got, err := d.Take(t.Context(), "web", a.Batch(Now), Now); err != nil || got.Refused != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	later := Now.Add(2 * time.Hour)
	add(3, later)
	a.Send(t, d, later)
	all, err := d.JVMs(t.Context(), history.Filter{Limit: 2 * history.MaxJVMs})
	if err != nil || len(all) != history.MaxJVMs || all[0].Process.ID.PID != 4 || all[len(all)-1].Process.ID.PID != pid {
		t.Errorf("%d, %v", len(all), err)
	}
}
