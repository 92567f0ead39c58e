package fit

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// What memory took of the speed decides whether a slow trial speaks against its limit.
func TestSlowElsewhere(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	small := Setup{Options: []string{"-Xmx64m"}}
	made := func(phase Phase, setup Setup, limit int64, gc, reclaim float64) Trial {
		return Trial{Attempt{Phase: phase, Setup: setup, LimitBytes: limit * mib}, Outcome{Passed: true, Verdict: trial.Passed, Result: &trial.Result{GCShare: share(gc), ReclaimShare: reclaim}}}
	}
	slow := func(v trial.Verdict, asked, askedShare, gc, reclaim float64) Trial {
		tr := made(PhaseRefine, small, 100, gc, reclaim)
		tr.Passed, tr.Verdict, tr.AskedSpeed, tr.AskedShare = false, v, asked, askedShare
		return tr
	}
	unknown := slow(trial.TooSlow, 50, 0.9, 0, 0)
	unknown.Result.GCShare = nil
	bar := made(PhaseBaseline, Setup{}, 1024, 0.03, 0)
	bar.Result.Load, bar.Result.Times = &load.Result{OK: 1000}, &runner.Times{Age: 10 * time.Second, Group: 10 * time.Second, Collector: time.Second, JVM: true}
	// collector spoils a trial by what its collector's threads used in the same time.
	collector := func(tr Trial, used time.Duration) Trial {
		tr.Result.Load, tr.Result.Times = bar.Result.Load, &runner.Times{Age: 10 * time.Second, Group: 10 * time.Second, Collector: used, JVM: true}
		return tr
	}
	blind := func(used time.Duration) Trial {
		tr := collector(slow(trial.TooSlow, 50, 0.9, 0, 0), used)
		tr.Result.GCShare = nil
		return tr
	}
	dearer := func(by float64) Trial {
		tr := slow(trial.TooSlow, 50, 0.9, 0.04, 0)
		tr.LimitCost = by
		return tr
	}
	waiting := slow(trial.TooSlow, 50, 0.9, 0.03, 0)
	waiting.Result.AwaitShare = share(0.3)
	for _, c := range []struct {
		name string
		t    Trial
		want bool
	}{
		{"nothing read again, collections as with room", slow(trial.TooSlow, 50, 0.9, 0.04, 0), true},
		{"a tenth more in collections", slow(trial.TooSlow, 50, 0.9, 0.14, 0), false},
		{"that much, where the objective leaves 0.4", slow(trial.TooSlow, 50, 0.6, 0.14, 0), true},
		{"reclaim took a tenth", slow(trial.TooSlow, 50, 0.9, 0.03, 0.1), false},
		{"both took a half of it", slow(trial.TooSlow, 50, 0.9, 0.08, 0.06), false},
		{"an absolute objective", slow(trial.TooSlow, 50, 0, 0.04, 0), true},
		{"an absolute objective, and reclaim", slow(trial.TooSlow, 50, 0, 0.04, 0.06), false},
		{"an objective of latency", slow(trial.TooSlow, 0, 0, 0.03, 0), false},
		{"killed", slow(trial.OOMKilled, 50, 0.9, 0.03, 0), false},
		{"failed requests", slow(trial.Errors, 50, 0.9, 0.03, 0), false},
		{"no performance data", unknown, false},
		{"no performance data, its threads collected as with room", blind(time.Second + 200*time.Millisecond), true},
		{"no performance data, its threads collected twice as much", blind(2 * time.Second), false},
		{"no pauses, but a concurrent collector took two tenths more", collector(slow(trial.TooSlow, 50, 0.9, 0.03, 0), 3*time.Second), false},
		{"no pauses, but threads wait for heap", waiting, false},
		{"the limit took a tenth in processor time", dearer(0.1), false},
		{"the limit took less than the objective leaves", dearer(0.06), true},
	} {
		s := &Search{bar: &bar, found: Found{Trials: []Trial{bar}}}
		if got := s.slowElsewhere(c.t); got != c.want {
			cost, known := s.memoryCost(c.t)
			t.Errorf("%s: %v, want %v (memory took %.3f, %v)", c.name, got, c.want, cost, known)
		}
	}
	// Clauses are judged each by its cause.
	missed := func(reclaim, start float64, collections int64, words string) Trial {
		slo, err := trial.ParseSLO(words)
		if err != nil {
			t.Fatal(err)
		}
		tr := slow(trial.TooSlow, 0, 0, 0.03, reclaim)
		tr.Number, tr.Missed = 3, slo
		tr.Result.Load, tr.Result.Collections, tr.Result.StartReclaimShare = &load.Result{OK: 1000, Elapsed: 10 * time.Second}, collections, start
		return tr
	}
	// idles is one that used 3 s of a processor in 10, of which its collector had two tenths beyond what it has with room.
	idles := func(words string) Trial {
		tr := missed(0, 0, 100, words)
		tr.Result.Times = &runner.Times{Age: 10 * time.Second, Group: 3 * time.Second, Collector: 900 * time.Millisecond, JVM: true}
		return tr
	}
	roomy := made(PhaseLever, small, 110, 0.03, 0)
	roomy.Number, roomy.Result.Load, roomy.Result.Collections = 2, &load.Result{OK: 1000, Elapsed: 10 * time.Second}, 100
	for _, c := range []struct {
		name string
		t    Trial
		want bool
	}{
		{"cost, and nothing of memory", missed(0, 0, 100, "cost<=1.1x"), true},
		{"cost, and reclaim", missed(0.1, 0, 100, "cost<=1.1x"), false},
		{"cost, and collections of an application that waits for something else", idles("cost<=1.1x"), false},
		{"throughput, and collections of one that waits for something else", idles("throughput>=0.9x"), true},
		{"throughput and cost, and nothing of memory", missed(0, 0, 100, "throughput>=0.9x cost<=1.1x"), true},
		{"a clause that leaves less beside one that leaves more", missed(0.07, 0, 100, "throughput>=0.6x cost<=1.05x"), false},
		{"the start, and nothing of memory", missed(0, 0, 100, "start<=1x"), true},
		{"the start, in which reclaim took a tenth", missed(0, 0.1, 100, "start<=1x"), false},
		{"latency, with pauses as with room", missed(0, 0, 100, "p99<200ms"), true},
		{"latency, with the pauses of twice as many collections", missed(0, 0, 200, "p99<200ms"), false},
		{"latency, with pauses twice as long", missed(0, 0, 50, "p99<200ms"), false},
		{"latency, and reclaim", missed(0.02, 0, 100, "p99<200ms"), false},
		{"speed and latency, each for its cause", missed(0, 0, 100, "throughput>=0.9x p99<200ms"), true},
		{"speed, and latency by collections", missed(0, 0, 200, "throughput>=0.9x p99<200ms"), false},
	} {
		s := &Search{bar: &bar, found: Found{Trials: []Trial{bar, roomy}}}
		if got := s.slowElsewhere(c.t); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// A heap that is chosen to be small costs collections at any limit.
	s := &Search{bar: &bar, found: Found{Trials: []Trial{bar, made(PhaseLever, small, 110, 0.02, 0)}}}
	if s.found.Trials[1].Result.GCShare = share(0.01); s.slowElsewhere(slow(trial.TooSlow, 50, 0.9, 0.12, 0)) {
		t.Error("collections that a larger limit saves with the same options are no reason")
	}
}

// A run that passed near the edge of its limit is no reason for a smaller one.
func TestPressed(t *testing.T) {
	at := func(p Phase, reclaim float64) Trial {
		return Trial{Attempt{Phase: p, LimitBytes: 100 * mib}, Outcome{Passed: true, Verdict: trial.Passed, Result: &trial.Result{ReclaimShare: reclaim}}}
	}
	for _, c := range []struct {
		t     Trial
		spare float64
		want  bool
	}{
		{at(PhaseRefine, 0.06), 0.1, true}, {at(PhaseConfirm, 0.06), 0.1, true}, {at(PhaseRefine, 0.04), 0.1, false},
		{at(PhaseAsGiven, 0.06), 0.1, false}, {at(PhaseLever, 0.06), 0.1, false},
		{at(PhaseRefine, 0.12), 0.4, true}, {at(PhaseRefine, 0.09), 0.4, false},
	} {
		c.t.Pressed = (&Search{Spare: c.spare}).pressed(c.t)
		if c.t.Pressed != c.want || c.t.hasRoom() == c.want || !c.t.enough() || c.t.lacksMemory() != c.want {
			t.Errorf("%s with %g of %g: %v", c.t.Phase, c.t.Result.ReclaimShare, c.spare, c.t.Pressed)
		}
	}
	if (&Search{}).pressed(at(PhaseRefine, 0.5)) {
		t.Error("an objective that does not look at speed leaves all of it")
	}
}

func TestSlowWarning(t *testing.T) {
	dear := func(t Trial) Trial {
		t.LimitCost = 0.06
		return t
	}
	run := func(slow bool, others float64, compiler time.Duration) Trial {
		return Trial{Outcome: Outcome{Judged: Judged{SlowElsewhere: slow}, Result: &trial.Result{Others: others, ReclaimShare: 0.01,
			Times: &runner.Times{Group: 10 * time.Second, Collector: time.Second, Compiler: compiler, JVM: true}}}}
	}
	for _, c := range []struct {
		runs []Trial
		want string
	}{
		{[]Trial{run(false, 0.9, 9*time.Second)}, ""},
		{[]Trial{run(true, 0.3, 0), run(false, 0.9, 0)}, "1 of 2 confirming runs were slower than the objective asks, and not for want of memory: collections took at most 10.0 % of their processor time, " +
			"and 1.0 % of the time went by waiting for memory. Other processes took up to 30 % of the machine meanwhile: a larger limit does not help, a quieter machine does"},
		{[]Trial{run(true, 0, 4*time.Second)}, "compilers took up to 40 %"},
		{[]Trial{run(true, 0, 0)}, "the processors were slower"},
		{[]Trial{run(true, 0.3, 0), dear(run(true, 0, 0))}, "The limit itself took 6 % of their processor time at least"},
	} {
		if got := (&Found{Confirmations: c.runs}).slowWarning(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}

	// As given at a small limit it was as slow, with more collections than with ample memory.
	collected := func(phase Phase, n int64) Trial {
		tr := run(phase == PhaseAsGiven, 0, 0)
		tr.Phase, tr.LimitBytes = phase, 135*mib
		tr.Result.GCShare, tr.Result.Collections, tr.Result.Load = new(float64), n, &load.Result{OK: 1000}
		return tr
	}
	sized := func(t Trial, heap string) Trial {
		t.Result.Peak = &footprint.Footprint{Flags: map[string]string{"MaxHeapSize": heap}}
		return t
	}
	follows := &Found{Confirmations: []Trial{sized(run(true, 0, 0), "132120576")}, Baseline: sized(run(false, 0, 0), "536870912")}
	if got, want := follows.slowWarning(), "it may become 126 MiB here, and 512 with ample memory"; !strings.Contains(got, want) || strings.Contains(got, "does not help") {
		t.Errorf("a smaller heap: %q", got)
	}
	follows.Setup.Options = []string{"-Xmx126m"} // the limit is not the reason
	if got := follows.slowWarning(); !strings.Contains(got, "A larger limit does not help") {
		t.Errorf("a heap that was sized: %q", got)
	}
	for _, c := range []struct {
		collections int64
		heap, want  string
	}{
		{28, "35651584", "So was the application as given at 135 MiB"},
		{28, "536870912", "the processors were slower"}, // it is the same heap
		{1, "35651584", "the processors were slower"},
	} {
		f := &Found{Confirmations: []Trial{run(true, 0, 0)}, Baseline: sized(collected(PhaseBaseline, 1), "536870912"), Trials: []Trial{sized(collected(PhaseAsGiven, c.collections), c.heap)}}
		if got := f.slowWarning(); !strings.Contains(got, c.want) {
			t.Errorf("%d collections of %s bytes: %q, want %q", c.collections, c.heap, got, c.want)
		}
	}
}

// What the collector's threads take is compared with the same options and room, as a share:
// the baseline has another heap, and a machine may be slower for a while. Where the heap
// follows the limit, a larger limit is another heap, and the baseline counts.
func TestCollectorWithRoom(t *testing.T) {
	ran := func(phase Phase, limit int64, options []string, group, collector time.Duration) Trial {
		return Trial{Attempt{Phase: phase, Setup: Setup{Options: options}, LimitBytes: limit * mib}, Outcome{Passed: true, Verdict: trial.Passed,
			Result: &trial.Result{Load: &load.Result{OK: 1000}, Times: &runner.Times{Age: group, Group: group, Collector: collector, JVM: true}}}}
	}
	const second = time.Second
	small, follows := []string{"-Xmx9m"}, []string{"-Xss512k"}
	bar := ran(PhaseBaseline, 1024, nil, 10*second, 200*time.Millisecond)
	for _, c := range []struct {
		name  string
		roomy Trial
		t     Trial
		want  bool
	}{
		{"a slower machine", ran(PhaseLever, 110, small, 10*second, 2*second), ran(PhaseRefine, 50, small, 20*second, 4*second), true},
		{"more than with room", ran(PhaseLever, 110, small, 10*second, 2*second), ran(PhaseRefine, 50, small, 20*second, 7*second), false},
		{"with another heap", ran(PhaseLever, 110, []string{"-Xmx14m"}, 10*second, 2*second), ran(PhaseRefine, 50, small, 20*second, 4*second), false},
		{"the heap follows", ran(PhaseLever, 110, follows, 10*second, 2*second), ran(PhaseRefine, 50, follows, 20*second, 4*second), false},
	} {
		c.t.Passed, c.t.Verdict, c.t.AskedSpeed, c.t.AskedShare = false, trial.TooSlow, 50, 0.9
		s := &Search{bar: &bar, found: Found{Trials: []Trial{bar, c.roomy}}}
		if got := s.slowElsewhere(c.t); got != c.want {
			cost, _ := s.memoryCost(c.t)
			t.Errorf("%s: %v, memory took %.3f", c.name, got, cost)
		}
	}
}
