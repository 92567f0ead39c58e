package fit

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// coldFor is the first baseline of an application of which compilers took these shares of the
// processor time in each block of its warm-up.
func coldFor(compiling ...float64) Trial {
	r := &trial.Result{WarmupRequests: int64(500 * len(compiling)), Load: &load.Result{Sent: 1000}}
	for i := range compiling {
		r.Warming = append(r.Warming, trial.WarmBlock{Requests: 500, Took: 5 * time.Second, Cost: time.Duration(40-5*i) * time.Millisecond, Compiling: &compiling[i]})
	}
	return Trial{Attempt{Phase: PhaseBaseline}, Outcome{Passed: true, Result: r, Measured: r.Measured()}}
}

// Levers on compilers are left out where the application as given had not warmed up: what
// they cost later is not known. Others stay open.
func TestUnwarmedClosesCompilers(t *testing.T) {
	cold := Found{Trials: []Trial{coldFor(0.5, 0.4, 0.3)}}
	text := cold.unwarmed()
	if !strings.Contains(text, "had not warmed up after 1500 requests") || !strings.Contains(text, "30 %") {
		t.Errorf("%q", text)
	}
	failed := coldFor(0.5)
	failed.Passed = false
	warm := Found{Trials: []Trial{failed, coldFor(0.5, 0.2, 0.04), coldFor(0.5)}} // the first that passed decides
	if text := warm.unwarmed(); text != "" {
		t.Errorf("one that had warmed up: %q", text)
	}
	closed := map[string]bool{}
	for _, l := range Levers {
		if _, ok, reason := l.open(Facts{Release: l.Since, Nested: true, Inherits: true, Processors: 2, Unwarmed: text}); !ok && reason == text {
			closed[l.ID] = true
		}
	}
	for _, id := range []string{"c1", "hot", "code", "compilers"} {
		if !closed[id] {
			t.Errorf("%s is open", id)
		}
	}
	if len(closed) != 4 {
		t.Errorf("closed are %v", closed)
	}
}

// All trials have the warm-up that the first baseline was found to need.
func TestSameWarmup(t *testing.T) {
	closed := load.HTTP{Plan: load.Plan{Concurrency: 8}}
	open := load.HTTP{Plan: load.Plan{Rate: 50}}
	work := WorkOf(coldFor(0.5, 0.2, 0.04).Measured)
	if want := (trial.Work{Warmup: 1500, Measured: 1000, Blocks: 3, Within: 45 * time.Second}); work != want {
		t.Fatalf("%+v, want %+v", work, want)
	}
	for _, c := range []struct {
		name     string
		loader   load.Loader
		requests int64
		within   time.Duration
		blocks   int
	}{
		{"a closed loop", closed, 1500, 3 * 3 * 5 * time.Second, 0},
		{"a rate", open, 0, 3 * 5 * time.Second, 0},
		{"a load command", load.Command{}, 0, 5 * time.Second, 3},
	} {
		spec := trial.Spec{Loader: c.loader, Warmup: 5 * time.Second, Duration: 10 * time.Second}
		Attempt{Work: work}.sameWork(&spec)
		if spec.Work.Warmup != c.requests || spec.Warmup != c.within || spec.Work.Blocks != c.blocks || (spec.Work.Within > 0) != (c.blocks > 0) {
			t.Errorf("%s: %d requests within %s, %d times", c.name, spec.Work.Warmup, spec.Warmup, spec.Work.Blocks)
		}
	}
}

// Levers on compilers that were judged by a cold application are warned of.
func TestColdWarning(t *testing.T) {
	base := Trial{Outcome: Outcome{Result: &trial.Result{Load: &load.Result{}, Times: &runner.Times{Group: 10 * time.Second, Compiler: 3 * time.Second, JVM: true}}}}
	f := Found{Baseline: base, Levers: []LeverResult{{Lever: Lever{ID: "c1", Compiles: true}, Kept: true}}}
	if w := f.coldWarning(); !strings.Contains(w, "30 %") || !strings.Contains(w, "had not warmed up") {
		t.Errorf("%q", w)
	}
	f.Baseline.Result.Load = nil
	if w := f.coldWarning(); w != "" {
		t.Errorf("of a job: %q", w)
	}
	f.Baseline.Result.Load = &load.Result{}
	f.Levers[0].Kept = false
	if w := f.coldWarning(); w != "" {
		t.Errorf("without a lever on compilers: %q", w)
	}
	f.Levers[0].Kept = true
	f.Baseline.Result.Times.Compiler = time.Second
	if w := f.coldWarning(); w != "" {
		t.Errorf("of one that had warmed up: %q", w)
	}
}
