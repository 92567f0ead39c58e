package fit

import (
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// A run that was too slow alone is fast enough beside a baseline that was as slow; one
// that lacked memory is neither.
func TestSlowAlone(t *testing.T) {
	run := func(speed float64, v trial.Verdict) Trial {
		return Trial{Outcome: Outcome{Passed: v == trial.Passed, Verdict: v, Throughput: speed, Measured: trial.Measured{Load: &load.Result{}}}}
	}
	slow := run(270, trial.TooSlow)
	slow.AskedSpeed, slow.AskedShare = 281, 0.9
	if !slow.SlowAlone() || slow.FastBeside(run(312, trial.Passed)) || !slow.FastBeside(run(290, trial.Passed)) || slow.FastBeside(run(10, trial.Stalled)) {
		t.Error("a slow run beside slower and faster baselines")
	}
	for _, v := range []trial.Verdict{trial.Stalled, trial.OOMKilled} {
		lacks := slow
		lacks.Verdict = v
		if lacks.SlowAlone() {
			t.Errorf("%s: no lack of memory", v)
		}
	}
	byCost := slow
	byCost.Missed, byCost.Measured.Cost = []trial.Clause{{Metric: trial.Cost, Op: "<=", Value: 1.1, Unit: trial.Ratio}}, 105*time.Millisecond
	costing := func(cost time.Duration) Trial {
		b := run(1000, trial.Passed)
		b.Measured.Cost = cost
		return b
	}
	if byCost.FastBeside(costing(90*time.Millisecond)) || !byCost.FastBeside(costing(100*time.Millisecond)) {
		t.Error("what it missed is cost, and throughput decides")
	}
	absolute := slow
	absolute.AskedShare = 0
	if absolute.SlowAlone() {
		t.Error("an objective that no baseline moves")
	}
}
