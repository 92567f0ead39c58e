package fit

import (
	"slices"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
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

// A broker does the same work for less where others have half of the machine. What a baseline
// says that others disturbed counts only where none that was left alone says otherwise.
func TestDisturbedBaseline(t *testing.T) {
	run := func(number int, node string, cost, others float64) Trial {
		tr := costing(Setup{}, PhaseBaseline, cost)
		tr.Number, tr.Node, tr.Result.Others = number, node, others
		return tr
	}
	c1 := costing(Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}, PhaseLever, 7.6)
	c1.Number = 9
	for _, c := range []struct {
		name string
		runs []Trial
		want []int
	}{
		{"two of three disturbed", []Trial{run(1, "", 7.9, 0.01), run(2, "", 5, 0.42), run(3, "", 5, 0.46)}, []int{1}},
		{"all disturbed", []Trial{run(1, "", 7.9, 0.3), run(2, "", 5, 0.42)}, []int{1, 2}},
		{"disturbed, and as dear", []Trial{run(1, "", 7.9, 0), run(2, "", 7.5, 0.42)}, []int{1, 2}},
		{"none disturbed", []Trial{run(1, "", 7.9, 0), run(2, "", 5, 0.05)}, []int{1, 2}},
		{"another node", []Trial{run(1, "a", 7.9, 0), run(2, "b", 5, 0.42)}, []int{1, 2}},
	} {
		s := &Search{ByWork: true, found: Found{Baseline: c.runs[0], Trials: append(slices.Clone(c.runs), c1)}}
		var got []int
		for _, b := range s.baselines() {
			got = append(got, b.Number)
		}
		if points := s.costPoints(); !slices.Equal(got, c.want) || len(points) != len(c.want)+1 {
			t.Errorf("%s: baselines %v, want %v; %d costs", c.name, got, c.want, len(points))
		}
	}
}

// The first baseline tells nothing of the page cache where other processes had paid for it.
func TestBaselineThatOthersPaidFor(t *testing.T) {
	run := func(cache int64) Outcome {
		return Outcome{Passed: true, Throughput: 100, Measured: trial.Measured{Load: &load.Result{}}, PeakBytes: (100 + cache) * mib, NeededBytes: 100 * mib, CacheBytes: cache * mib / 2}
	}
	for _, c := range []struct {
		name   string
		caches []int64
		want   int
	}{
		{"paid by others", []int64{39, 110}, 2},
		{"its own", []int64{110, 112}, 1},
		{"its own, the second had less", []int64{110, 39}, 1},
	} {
		trier := &noted{}
		for _, cache := range c.caches {
			trier.outcomes = append(trier.outcomes, run(cache))
		}
		trier.outcomes[0].Throughput++
		s := &Search{Baselines: 2, AmpleBytes: 2048 * mib, Trier: trier}
		if err := s.runBaselines(t.Context()); err != nil || s.found.Baseline.Number != c.want {
			t.Errorf("%s: baseline %d, want %d; %v", c.name, s.found.Baseline.Number, c.want, err)
		}
		if told := s.found.Trials[0].CacheBytes > 0; told != (c.want == 1) {
			t.Errorf("%s: what the first squeeze told counts: %v", c.name, told)
		}
	}
}

// A small limit has the JVM begin with a small heap, which fills what it may have: the next limit
// is by what such a trial could not have dropped, and by the page cache that it lacked.
func TestLimitAsGivenOfHeapThatFills(t *testing.T) {
	given, err := jvmopts.Read(jvmopts.Input{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(limit, heap, needed, peak, cache int64, verdict trial.Verdict) Trial {
		java := footprint.Row{Owner: footprint.JavaHeap, ResidentBytes: heap * mib}
		return Trial{Attempt{LimitBytes: limit * mib}, Outcome{Verdict: verdict, Passed: verdict == trial.Passed, LiveBytes: 5 * mib,
			NeededBytes: needed * mib, PeakBytes: peak * mib, CacheBytes: cache * mib, Result: &trial.Result{Peak: &footprint.Footprint{Rows: []footprint.Row{java}}}}}
	}
	for _, c := range []struct {
		verdict     trial.Verdict
		heap        int64
		least, most int64
	}{
		{trial.Stalled, 91, 270, 310},
		{trial.OOMKilled, 91, 270, 310},
		{trial.Stalled, 25, 250, 272}, // it did not fill it: what it had must do
	} {
		base := run(2048, 15, 95, 208, 78, trial.Passed)
		trier := &noted{outcomes: []Outcome{run(191, c.heap, 168, 191, 0, c.verdict).Outcome}}
		s := &Search{AmpleBytes: 2048 * mib, MaxTrials: 12, Trier: trier, Facts: Facts{Given: given}, found: Found{Baseline: base, Trials: []Trial{base}}}
		s.Levers = Levers
		s.setBar()
		if err := s.findAsGiven(t.Context()); err != nil || len(trier.attempts) != givenTrials {
			t.Fatalf("%d trials, %v", len(trier.attempts), err)
		}
		if got := trier.attempts[1].LimitBytes / mib; got < c.least || got > c.most {
			t.Errorf("%+v: then %d MiB", c, got)
		}
	}
}
