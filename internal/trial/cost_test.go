package trial

import (
	"math"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
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

func TestCollectorLoss(t *testing.T) {
	made := func(group, collector, window time.Duration, answers int64) *Result {
		return &Result{Load: loadResult(answers, 0, 0), Times: &runner.Times{Age: window, Group: group, Collector: collector, JVM: true}}
	}
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	half := made(s(5), s(3), s(10), 1000)
	half.Limits.CPUs = 0.5
	noisy := made(s(5), s(3), s(10), 1000)
	noisy.Others = 0.5
	job := &Result{JobTime: s(10), Times: &runner.Times{Age: s(10), Group: s(10), Collector: s(4), JVM: true}}
	for name, c := range map[string]struct {
		r     *Result
		room  float64
		want  float64
		work  float64
		known bool
	}{
		"as with room":              {made(s(10), s(1), s(10), 1000), 1. / 9, 0, 0, true},
		"less than with room":       {made(s(10), s(1), s(10), 1000), 0.2, 0, 0, true},
		"more":                      {made(s(10), s(2.8), s(10), 1000), 1. / 9, 0.2, 0.2, true},
		"on a machine half as fast": {made(s(20), s(2), s(20), 1000), 1. / 9, 0, 0, true},
		"two processors":            {made(s(20), s(11), s(10), 1000), 1. / 9, 0.5, 0.5, true},
		"waits for another":         {made(s(1), s(0.6), s(10), 1000), 0, 0.06, 0.6, true},
		"half a processor":          {half, 0.5, 0.4, 0.4, true},
		"others had a half":         {noisy, 0.5, 0.4, 0.4, true},
		"a job":                     {job, 0.25, 0.25, 0.25, true},
		"no answers":                {made(s(10), s(3), s(10), 0), 0, 0, 0, false},
		"no JVM":                    {&Result{Load: loadResult(10, 0, 0)}, 0, 0, 0, false},
		"no processor time used":    {made(0, 0, s(10), 10), 0, 0, 0, false},
		"nothing but its collector": {made(s(10), s(10), s(10), 10), 0, 0, 0, false},
	} {
		if got, known := c.r.CollectorLoss(c.room); math.Abs(got-c.want) > 1e-9 || known != c.known {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, known, c.want, c.known)
		}
		if got, known := c.r.CollectorWork(c.room); math.Abs(got-c.work) > 1e-9 || known != c.known {
			t.Errorf("%s: %v of its processor time, %v, want %v, %v", name, got, known, c.work, c.known)
		}
	}
}
