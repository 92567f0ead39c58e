package fit

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// An application that has little to do under its load tells little of what options cost.
func TestLightWarning(t *testing.T) {
	r := &trial.Result{Load: &load.Result{OK: 1000}, Times: &runner.Times{Group: 700 * time.Millisecond, JVM: true}}
	f := Found{Baseline: Trial{Outcome: Outcome{Result: r}}}
	if w := warnings(&f); len(w) != 1 || !strings.Contains(w[0], "took 0.7 s of the application's processor time") {
		t.Errorf("%q", w)
	}
	for what, change := range map[string]func(r *trial.Result){
		"enough to do":   func(r *trial.Result) { r.Times = &runner.Times{Group: lightWork} },
		"no threads":     func(r *trial.Result) { r.Times = nil },
		"no load, a job": func(r *trial.Result) { r.Load = nil },
	} {
		other := *r
		change(&other)
		f.Baseline.Result = &other
		if w := warnings(&f); len(w) != 0 {
			t.Errorf("%s: %q", what, w)
		}
	}
}

// Where the options save less than runs differ by, the limit is held below one that passed as given,
// and most runs may need more: that is told, with what they need.
func TestCappedWarning(t *testing.T) {
	found := func(limit, given int64, options ...string) Found {
		return Found{LimitBytes: limit * mib, AsGiven: Trial{Attempt: Attempt{LimitBytes: given * mib}}, Setup: Setup{Options: options},
			Need: &Need{MeanBytes: 121 * mib, BoundBytes: 131*mib - 5, Samples: 8, Deviation: 0.023, Freedom: 27, Assumed: 20}}
	}
	for _, c := range []struct {
		f    Found
		want bool
	}{
		{found(120, 121, "-Xmx35m"), true},
		{found(131, 132, "-Xmx35m"), false},
		{found(120, 180, "-Xmx35m"), false}, // a margin of the user's
		{found(120, 120), false},
	} {
		w := warnings(&c.f)
		if told := len(w) == 1 && strings.Contains(w[0], "no more than 131 MiB"); told != c.want || !c.want && len(w) > 0 {
			t.Errorf("%d of %d MiB: %q", c.f.LimitBytes/mib, c.f.AsGiven.LimitBytes/mib, w)
		}
	}
}
