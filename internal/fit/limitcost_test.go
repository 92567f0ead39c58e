package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/trial"
)

// costingAt is a trial at a limit below which it reads pages again.
func costingAt(s Setup, phase Phase, limit int64, seconds float64) Trial {
	t := costing(s, phase, seconds)
	t.LimitBytes = limit * mib
	t.Result.RefaultBytes = max(0, 300-limit) * 2 * mib
	return t
}

// What a limit costs in processor time is told by the same options with room; the seconds
// of the first case are those of a Spring Boot service at 677 and at 204 MiB.
func TestLimitCost(t *testing.T) {
	small, other := Setup{Options: []string{"-Xmx52m"}}, Setup{Options: []string{"-Xmx60m"}}
	at := costingAt
	runs := func(s Setup, phase Phase, limit int64, seconds ...float64) []Trial {
		var out []Trial
		for _, sec := range seconds {
			out = append(out, at(s, phase, limit, sec))
		}
		return out
	}
	room := runs(small, PhaseLever, 677, 11.3, 11.6, 11.5)
	for _, c := range []struct {
		name      string
		control   []Trial
		before    []Trial
		t         Trial
		low, high float64
	}{
		{"seven runs that cost more", room, runs(small, PhaseConfirm, 204, 13.8, 12.6, 14.4, 13.5, 13.1, 14), at(small, PhaseConfirm, 204, 13.7), 0.05, 0.15},
		{"one that costs half as much more", room, nil, at(small, PhaseRefine, 186, 17), 0.2, 0.33},
		{"one that costs little more", room, nil, at(small, PhaseRefine, 186, 12.2), 0, 0},
		{"as much as with room", room, runs(small, PhaseConfirm, 204, 11.2, 11.6), at(small, PhaseConfirm, 204, 11.4), 0, 0},
		{"others at a smaller limit", room, runs(small, PhaseRefine, 150, 17, 17, 17), at(small, PhaseConfirm, 204, 12), 0, 0},
		{"no page was read again", room, nil, at(small, PhaseRefine, 300, 17), 0, 0},
		{"the pages that were read again can have cost less", room, nil, at(small, PhaseRefine, 290, 17), 0.04, 0.05},
		{"no control", nil, nil, at(small, PhaseRefine, 186, 17), 0, 0},
		{"another heap is no control", runs(other, PhaseLever, 677, 11, 11), nil, at(small, PhaseRefine, 186, 17), 0, 0},
		{"as given, beside the baselines", nil, nil, at(Setup{}, PhaseAsGiven, 186, 17), 0.2, 0.4},
		{"one that reads hardly anything again tells nothing of one that does", nil, runs(Setup{}, PhaseAsGiven, 290, 11), at(Setup{}, PhaseAsGiven, 186, 17), 0.2, 0.4},
		{"levers are judged by their own cost", room, nil, at(small, PhaseLever, 186, 17), 0, 0},
	} {
		s := &Search{found: Found{Trials: append([]Trial{at(Setup{}, PhaseBaseline, 2048, 10.4), at(Setup{}, PhaseBaseline, 2048, 10.5)}, c.control...)}}
		s.found.Trials = append(s.found.Trials, c.before...)
		for i := range s.found.Trials {
			s.found.Trials[i].Number = i + 1
		}
		s.found.Baseline = s.found.Trials[0]
		c.t.Number = len(s.found.Trials) + 1
		if got := s.limitCost(c.t); got < c.low || got > c.high {
			t.Errorf("%s: %.3f, want %g to %g", c.name, got, c.low, c.high)
		}
	}
}

// What the recommended limit costs is by all runs that prove it, one that was set aside
// included, and not by those at other limits.
func TestPriceLimit(t *testing.T) {
	small, at := Setup{Options: []string{"-Xmx52m"}}, costingAt
	proof := []Trial{at(small, PhaseConfirm, 204, 11.5), at(small, PhaseConfirm, 204, 12.5), at(small, PhaseConfirm, 204, 12)}
	others := []Trial{at(Setup{}, PhaseBaseline, 2048, 10), at(small, PhaseLever, 677, 10), at(small, PhaseRefine, 190, 20), at(small, PhaseConfirm, 198, 20)}
	s := &Search{found: Found{Baseline: others[0], Trials: slices.Concat(others, proof), LimitBytes: 204 * mib, Setup: small}}
	price := func() RelativeCost {
		if err := s.priceLimit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.found.AtLimit
	}
	want := math.Cbrt(11.5*12.5*12) / 10
	if c := price(); math.Abs(c.CostRatio-want) > 1e-9 || c.CostLow >= want-0.02 || c.CostHigh <= want+0.02 {
		t.Errorf("%.3f (%.3f to %.3f), want %.3f", c.CostRatio, c.CostLow, c.CostHigh, want)
	}
	for i := range proof {
		proof[i].Result.RefaultBytes = mib
	}
	if c := price(); c != (RelativeCost{}) {
		t.Errorf("the pages that were read again cannot have cost that: %+v", c)
	}
	s.found.Trials = slices.Concat(others[:1], proof)
	if c := price(); c != (RelativeCost{}) {
		t.Errorf("no trial with room: %+v", c)
	}
	s.found.Setup, s.found.Trials = Setup{}, []Trial{others[0], at(Setup{}, PhaseConfirm, 204, 12)}
	if c := price(); math.Abs(c.CostRatio-1.2) > 1e-9 {
		t.Errorf("as given, beside the baseline: %+v, want 1.2", c)
	}
}

// Of runs that were dearer than asked, each by itself, all that prove the limit tell together
// whether it is so, beside what trials differ by.
func TestCostVerdict(t *testing.T) {
	small, at := Setup{Options: []string{"-Xmx52m"}}, costingAt
	cost := trial.Clause{Metric: trial.Cost, Op: "<=", Value: 1.1, Unit: trial.Ratio}
	late := trial.Clause{Metric: trial.P99, Op: "<=", Value: 1.5, Unit: trial.Ratio}
	for _, c := range []struct {
		name   string
		setup  Setup
		costs  []float64 // the baselines cost 10 and 10.2
		missed []trial.Clause
		want   CostVerdict
	}{
		{"none was dear", small, []float64{10, 10.5, 9.9, 10.2, 10.1}, []trial.Clause{cost}, CostUntold},
		{"one of five", small, []float64{9.6, 11.3, 9.9, 9.8, 9.7}, []trial.Clause{cost}, CostKept},
		{"all of them, by much", small, []float64{13.6, 14.3, 14, 13.8, 13.7}, []trial.Clause{cost}, CostMissed},
		{"as given at its limit, by much", Setup{}, []float64{13.6, 14.3, 14, 13.8, 13.7}, []trial.Clause{cost}, CostMissed},
		{"some of them, by little", small, []float64{10.6, 11.6, 11.4, 10.5, 11.5}, []trial.Clause{cost}, CostUnknown},
		{"they missed something else too", small, []float64{13.6, 14.3, 14, 13.8, 13.7}, []trial.Clause{cost, late}, CostUntold},
	} {
		trials := []Trial{at(Setup{}, PhaseBaseline, 2048, 10), at(Setup{}, PhaseBaseline, 2048, 10.2), at(small, PhaseLever, 677, 10)}
		for _, seconds := range c.costs {
			r := at(c.setup, PhaseConfirm, 204, seconds)
			if seconds > 11.1 {
				r.Verdict, r.Passed, r.Missed, r.SlowElsewhere = trial.TooSlow, false, c.missed, true
			}
			trials = append(trials, r)
		}
		s := &Search{found: Found{Baseline: trials[0], Trials: trials, Confirmations: trials[3:], LimitBytes: 204 * mib, Setup: c.setup}}
		if err := s.priceLimit(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := s.found.ProofCost
		if got := s.found.CostVerdict(); got != c.want {
			t.Errorf("%s: %q by %+v, want %q", c.name, got, p, c.want)
		}
		if warned := s.found.slowWarning() != ""; warned != (s.found.SlowRuns() > 0 && c.want != CostKept) {
			t.Errorf("%s: warned: %v", c.name, warned)
		}
		s.found.Baseline.Result.IdleCPUs = new(0.9) // processor time tells nothing of one that spins
		if err := s.priceLimit(t.Context()); err != nil || s.found.ProofCost.known() {
			t.Errorf("%s: it burns processors when idle: %+v, %v", c.name, s.found.ProofCost, err)
		}
	}
}

// What the options cost is not left to memory.
func TestLeaves(t *testing.T) {
	dear, cheap := Setup{Options: []string{"-Xint"}}, Setup{Options: []string{"-Xmx52m"}}
	s := &Search{found: Found{Trials: []Trial{costing(Setup{}, PhaseBaseline, 10), costing(dear, PhaseLever, 10.4), costing(cheap, PhaseLever, 7)}}}
	s.found.Baseline = s.found.Trials[0]
	for _, c := range []struct {
		setup Setup
		share float64
		want  float64
	}{{Setup{}, 0.1, 0.1}, {cheap, 0.1, 0.1}, {dear, 0.1, 1 - 0.9*1.04}, {dear, 0.05, unasked}, {Setup{Env: []string{"A=1"}}, 0.2, 0.2}} {
		if got := s.leaves(Trial{Attempt: Attempt{Setup: c.setup}}, c.share); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v of %g: %.3f, want %.3f", c.setup.Options, c.share, got, c.want)
		}
	}
}

// An application that does its work at a small limit, but at a higher cost, gets the limit
// at which that is within the objective; one on a machine that slows meanwhile gets the
// limit that it needs.
func TestLimitThatCostsProcessorTime(t *testing.T) {
	const runs = 100
	for _, drift := range []float64{0, 0.1} {
		low, high, controls, acquitted, blamed := 0, 0, 0, 0, 0
		for seed := range uint64(runs) {
			m := newModel(rand.New(rand.NewPCG(seed, 7)))
			m.jitter, m.drift, m.counts, m.gcCost, m.ooms, m.soft = 0.02, drift, true, 0, false, false
			m.tight, m.c1, m.hot = 0.5, 1, 1
			s := &Search{Trier: m, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: DefaultConfirmations, Margin: MarginByBound, Spare: 0.1,
				Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
			s.Observe = func(e Event) {
				switch {
				case e.Outcome == nil && e.Attempt.Phase == PhaseControl:
					controls++
				case strings.Contains(e.Note, "does not speak against"):
					acquitted++
				case strings.Contains(e.Note, "it is too little"):
					blamed++
				}
			}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			grid := float64(m.grid(t, f.Setup, 2048*mib))
			switch got := float64(f.LimitBytes); {
			case got < 0.95*grid-mib:
				low++
				t.Logf("seed %d: %.0f MiB, %.2f of what a grid finds", seed, got/mib, got/grid)
			case got > 1.25*grid+mib:
				high++
			}
		}
		t.Logf("drift %g: %d too low, %d too high, %d runs with room; it is said of %d limits that they are enough, of %d that they are too little", drift, low, high, controls, acquitted, blamed)
		if acquitted == 0 || blamed == 0 || acquitted+blamed < controls {
			t.Errorf("drift %g: what the runs with room told is not said of each limit", drift)
		}
		if low > runs/10 || high > runs/5 {
			t.Errorf("drift %g: of %d limits %d are too low, and %d too high", drift, runs, low, high)
		}
	}
}

// A lever that is to spend speed stays only where it is sure that there is enough.
func TestPassedByLuck(t *testing.T) {
	c1 := Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}
	hot := Lever{ID: "hot", Name: "hot", Options: []string{"-XX:CompileThresholdScaling={scale}"}, Scales: []Scale{{10, 0.85}}}
	both := c1.plus(Setup{Options: []string{"-XX:CompileThresholdScaling=10"}})
	for _, c := range []struct {
		name    string
		setup   Setup
		seconds float64
		luck    bool
	}{
		{"well within", both, 9, false},
		{"within by more than trials differ", both, 10.3, false},
		{"by a hair", both, 11.3, true},
		{"by a hair, without it", c1, 11.3, false},
	} {
		base := costing(Setup{}, PhaseBaseline, 10.4)
		s := &Search{Spare: 1 - 1/1.1, Levers: []Lever{hot}, best: point{setup: c1}, found: Found{Baseline: base, Trials: []Trial{base, base, costing(c1, PhaseLever, 8.9)}}}
		tr := costing(c.setup, PhaseLever, c.seconds)
		s.found.Trials = append(s.found.Trials, tr)
		if luck := s.passedByLuck(tr); luck != c.luck {
			t.Errorf("%s: by luck %v (%+v)", c.name, luck, s.relativeCost(c.setup, Setup{}))
		}
		if reason := s.unfit(tr); strings.Contains(reason, "too near") != c.luck {
			t.Errorf("%s: %q", c.name, reason)
		}
	}
	if got := (&Search{}).unfit(Trial{Outcome: Outcome{Passed: true, Verdict: trial.Passed}}); got != "" {
		t.Errorf("an objective that does not compare: %q", got)
	}
}

// A trial of hot code alone that was too slow is no reason for a baseline beside it: it is made
// without that lever.
func TestNoBaselineForHotCode(t *testing.T) {
	hot := Lever{ID: "hot", Name: "hot", Options: []string{"-XX:CompileThresholdScaling={scale}"}, Scales: []Scale{{10, 0.85}}}
	base := costing(Setup{}, PhaseBaseline, 10)
	slow := func(option string) Trial {
		t := costing(adds(option), PhaseLever, 12)
		t.Passed, t.Verdict, t.AskedShare, t.SlowElsewhere, t.Number = false, trial.TooSlow, 1/1.1, true, 2
		return t
	}
	for option, want := range map[string]bool{"-XX:CompileThresholdScaling=10": false, "-XX:AOTCache=a": true} {
		at := slow(option)
		s := &Search{Spare: 1 - 1/1.1, ByWork: true, unsteady: true, Levers: []Lever{hot}, found: Found{Baseline: base, Trials: []Trial{base, at}}}
		if got := s.doubts(at); got != want {
			t.Errorf("%s: %v", option, got)
		}
	}
}
