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
