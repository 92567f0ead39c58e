package trial

import (
	"math"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
)

func TestCostRatio(t *testing.T) {
	ran := func(ok int64, cpu time.Duration) *Result {
		return &Result{Load: &load.Result{OK: ok}, LoadCPUTime: cpu}
	}
	base := ran(1000, 2*time.Second)
	if cost, measured := base.AnswerCost(); !measured || cost != 2*time.Millisecond {
		t.Errorf("cost %v, %t", cost, measured)
	}
	for _, c := range []struct {
		other      *Result
		ratio      float64
		comparable bool
	}{
		{ran(1000, time.Second), 0.5, true},
		{ran(1100, 2200*time.Millisecond), 1, true},
		{ran(1101, time.Second), 0, false},
		{ran(905, time.Second), 0, false},
		{ran(0, time.Second), 0, false},
		{ran(1000, 0), 0, false},
		{&Result{}, 0, false},
		{&Result{LoadCPUTime: time.Second, Load: &load.Result{NoRequests: true}}, 0, false},
	} {
		for _, swap := range []bool{false, true} {
			a, b, want := base, c.other, c.ratio
			if swap && want > 0 {
				a, b, want = b, a, 1/want
			}
			if got, comparable := CostRatio(a, b); comparable != c.comparable || comparable && math.Abs(got-want) > 1e-6 {
				t.Errorf("%+v, swapped %t: %g, %t", c.other.Load, swap, got, comparable)
			}
		}
	}
}
