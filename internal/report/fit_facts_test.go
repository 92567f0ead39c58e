package report

import (
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// What the options changed lies between the runs that are nearest to each other and those that are
// furthest apart; nothing is said where one run with them was like one without.
func TestChangeHasBounds(t *testing.T) {
	runs := func(phase fit.Phase, seconds ...float64) []fit.Trial {
		var out []fit.Trial
		for _, s := range seconds {
			out = append(out, fit.Trial{Attempt: fit.Attempt{Phase: phase}, Outcome: fit.Outcome{Passed: true, Measured: trial.Measured{Time: time.Duration(s * float64(time.Second))}}})
		}
		return out
	}
	for _, c := range []struct {
		given, proof []float64
		want         string
	}{
		{[]float64{10, 12}, []float64{9, 6}, "-10 to -50 %"},
		{[]float64{10, 12}, []float64{15, 18}, "+25 to +80 %"},
		{[]float64{10, 12}, []float64{9, 10}, ""},
		{[]float64{10}, []float64{5}, "-50 %"},
		{[]float64{10}, []float64{0}, ""},
		{nil, []float64{5}, ""},
	} {
		r := &fit.Result{Found: fit.Found{Trials: runs(fit.PhaseBaseline, c.given...), Confirmations: runs(fit.PhaseConfirm, c.proof...)}}
		slow, with := runs(fit.PhaseAsGiven, 1)[0], runs(fit.PhaseBaseline, 1)[0]
		slow.Passed, with.Setup.Options = false, []string{"-Xmx20m"}
		r.Trials = append(r.Trials, slow, with) // neither is one as given that had enough
		if got := jobTime.change(r); got != c.want {
			t.Errorf("%v and %v: %q, want %q", c.given, c.proof, got, c.want)
		}
	}
}
