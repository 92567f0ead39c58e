package fit

import (
	"testing"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// A baseline is left alone for a moment, unless its load is to begin with readiness.
func TestBaselineIdles(t *testing.T) {
	for name, c := range map[string]struct {
		attempt Attempt
		spec    trial.Spec
		want    bool
	}{
		"baseline":            {Attempt{Phase: PhaseBaseline}, trial.Spec{Loader: load.HTTP{}}, true},
		"later":               {Attempt{Phase: PhaseLever, Baseline: &trial.Measured{}}, trial.Spec{Loader: load.HTTP{}}, false},
		"a job":               {Attempt{Phase: PhaseBaseline}, trial.Spec{Job: true, Loader: load.HTTP{}}, false},
		"no load":             {Attempt{Phase: PhaseBaseline}, trial.Spec{}, false},
		"requests from ready": {Attempt{Phase: PhaseBaseline}, trial.Spec{Loader: load.HTTP{}, Work: trial.Work{Measured: 9, Due: true}}, false},
	} {
		if c.attempt.Limit(&c.spec); (c.spec.Idle > 0) != c.want {
			t.Errorf("%s: idles for %v", name, c.spec.Idle)
		}
	}
}
