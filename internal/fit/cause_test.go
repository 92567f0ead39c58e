package fit

import (
	"testing"
	"time"

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
	} {
		s := &Search{bar: &bar, found: Found{Trials: []Trial{bar}}}
		if got := s.slowElsewhere(c.t); got != c.want {
			cost, known := s.memoryCost(c.t)
			t.Errorf("%s: %v, want %v (memory took %.3f, %v)", c.name, got, c.want, cost, known)
		}
	}
	// A heap that is chosen to be small costs collections at any limit.
	s := &Search{bar: &bar, found: Found{Trials: []Trial{bar, made(PhaseLever, small, 110, 0.02, 0)}}}
	if s.found.Trials[1].Result.GCShare = share(0.01); s.slowElsewhere(slow(trial.TooSlow, 50, 0.9, 0.12, 0)) {
		t.Error("collections that a larger limit saves with the same options are no reason")
	}
}
