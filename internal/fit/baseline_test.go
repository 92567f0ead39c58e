package fit

import (
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// A third baseline is made where the first two differ in what the objective looks at: in what
// the work costs over the pace of the machine, or in the rate.
func TestThirdBaseline(t *testing.T) {
	made := func(rate, cost, pace float64) Outcome {
		l := &load.Result{Sent: 4000, OK: 4000, Elapsed: time.Duration(4000 / rate * float64(time.Second))}
		return Outcome{Passed: true, Throughput: rate, Measured: trial.Measured{Load: l},
			Result: &trial.Result{Load: l, LoadCPUTime: time.Duration(cost * float64(time.Second)), Pace: time.Duration(pace * float64(time.Millisecond))}}
	}
	for name, c := range map[string]struct {
		byWork bool
		burns  float64
		runs   [2]Outcome
		want   int
	}{
		"alike":                        {true, 0, [2]Outcome{made(100, 40, 0), made(110, 41, 0)}, 2},
		"others had the processor":     {true, 0, [2]Outcome{made(100, 40, 0), made(70, 41, 0)}, 2},
		"the machine was slower":       {true, 0, [2]Outcome{made(100, 40, 1), made(70, 58, 1.4)}, 2},
		"and nothing tells of that":    {true, 0, [2]Outcome{made(100, 40, 0), made(70, 58, 0)}, 3},
		"it was not":                   {true, 0, [2]Outcome{made(100, 40, 1), made(70, 58, 1)}, 3},
		"the rate decides":             {false, 0, [2]Outcome{made(100, 40, 0), made(70, 41, 0)}, 3},
		"cost tells nothing, it idles": {true, 0.5, [2]Outcome{made(100, 40, 0), made(70, 41, 0)}, 3},
	} {
		for i := range c.runs {
			c.runs[i].Result.IdleCPUs = &c.burns
		}
		trier := &noted{outcomes: c.runs[:]}
		s := &Search{ByWork: c.byWork, Baselines: 2, AmpleBytes: 2048 * mib, Trier: trier}
		if err := s.runBaselines(t.Context()); err != nil || len(trier.attempts) != c.want {
			t.Errorf("%s: %d baselines, want %d; %v", name, len(trier.attempts), c.want, err)
		}
	}
}
