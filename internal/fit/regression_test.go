package fit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func adds(words ...string) Setup { return Setup{Options: words} }

// What a word costs is told by all trials with it and without, those of other words beside it
// included.
func TestRegression(t *testing.T) {
	a, b := adds("-a"), adds("-b")
	both := a.plus(b)
	chain := []costPoint{{setup: Setup{}, log: 1}, {setup: Setup{}, log: 1.2}, {setup: a, log: 0.5}, {setup: both, log: 0.4}}
	square := []costPoint{{setup: Setup{}, log: 1}, {setup: a, log: 0.5}, {setup: b, log: 0.9}, {setup: both, log: 0.2}}
	for _, c := range []struct {
		name                            string
		points                          []costPoint
		with, over                      Setup
		log, variance, squares, freedom float64
		known                           bool
	}{
		{"on top of each other", chain, a, Setup{}, -0.6, 1.5, 0.02, 1, true},
		{"on top of each other, the last", chain, both, a, -0.1, 2, 0.02, 1, true},
		{"the first without the other", chain, both, Setup{}, -0.7, 1.5, 0.02, 1, true},
		// a: −0.5 alone and −0.7 beside b.
		{"each alone and both", square, a, Setup{}, -0.6, 1, 0.01, 1, true},
		{"both of these", square, both, Setup{}, -0.8, 2.25 - 0.25, 0.01, 1, true},
		{"one over the other", square, a, b, -0.4, 2, 0.01, 1, true},
		{"never apart", []costPoint{{setup: Setup{}, log: 1}, {setup: both, log: 0.5}}, a, Setup{}, 0, 0, 0, 0, false},
		{"never tried", chain, adds("-c"), Setup{}, 0, 0, 0, 0, false},
		{"the same", chain, a, a, 0, 0, 0.02, 1, true},
	} {
		r := regress(c.points)
		log, variance, known := r.difference(c.with, c.over)
		if known != c.known {
			t.Errorf("%s: known is %v", c.name, known)
		}
		if !known {
			continue
		}
		near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
		if !near(log, c.log) || !near(variance, c.variance) || !near(r.squares, c.squares) || r.freedom != c.freedom {
			t.Errorf("%s: %.4f, variance %.4f, squares %.4f of %g", c.name, log, variance, r.squares, r.freedom)
		}
	}
}

func minute(n float64) time.Time { return time.Unix(0, 0).Add(time.Duration(n * float64(time.Minute))) }

// A trial is compared with those that were made near to it, for the machine was as it is then.
func TestRegressionOfDrift(t *testing.T) {
	const hour = 60 // in minutes
	a := adds("-a")
	slowed := func(at ...float64) []costPoint {
		points := []costPoint{{setup: Setup{}, log: 1}, {setup: a, log: 1.2}, {setup: Setup{}, log: 1.18}}
		for i := range at {
			points[i].at = minute(at[i])
		}
		return points
	}
	log, variance, _ := regress(slowed()).difference(a, Setup{})
	if math.Abs(log-0.11) > 1e-9 || math.Abs(variance-1.5) > 1e-9 {
		t.Errorf("without times: %.3f, variance %.3f", log, variance)
	}
	if l, v, _ := regress(slowed(5, 5, 5)).difference(a, Setup{}); math.Abs(l-log) > 1e-9 || math.Abs(v-variance) > 1e-9 {
		t.Errorf("at one moment: %.3f, variance %.3f", l, v)
	}
	if l, v, _ := regress(slowed(0, 3*hour, 3*hour+2)).difference(a, Setup{}); l < 0.02 || l > 0.08 || v < 1.5 || v > 2.2 {
		t.Errorf("the second baseline beside it: %.3f, variance %.3f", l, v)
	}
	if l, v, _ := regress(slowed(0, 3*hour, 6*hour)).difference(a, Setup{}); math.Abs(l-0.11) > 1e-9 || v < 2.5 || v > 1.5*(1+driftVariance) {
		t.Errorf("far from both: %.3f, variance %.3f", l, v)
	}
	nodes := slowed(0, 3*hour, 3*hour+2)
	nodes[2].node = "b" // what another machine does says nothing
	if l, _, known := regress(nodes).difference(a, Setup{}); !known || math.Abs(l-0.2) > 1e-9 {
		t.Errorf("on another node: %.3f", l)
	}
}

// An application may feel all of the machine's pace or hardly any of it: trials as given tell, and
// where they do not, what a lever costs that was tried at another pace is less sure.
func TestRegressionOfPace(t *testing.T) {
	a := adds("-a")
	tried := func(felt float64) regression {
		var points []costPoint
		for _, pace := range []float64{0, -0.15, 0.15, 0.3, 0.1} {
			points = append(points, costPoint{log: 1 + felt*pace, pace: pace})
		}
		return regress(append(points, costPoint{setup: a, log: 1.2 + felt*0.5, pace: 0.5}))
	}
	for _, felt := range []float64{0, 0.5, 1} {
		log, variance, known := tried(felt).difference(a, Setup{})
		if !known || math.Abs(log-0.2) > 0.08 || variance < 1.2 {
			t.Errorf("felt %.1f: %.3f, variance %.3f", felt, log, variance)
		}
	}
	once := regress([]costPoint{{log: 1}, {setup: a, log: 1.4, pace: 0.5}})
	if log, variance, _ := once.difference(a, Setup{}); math.Abs(log-(0.4-usualFeeling*0.5)) > 1e-9 || math.Abs(variance-(2+math.Pow(0.5*feelingSpread/costSpread, 2))) > 1e-9 {
		t.Errorf("by one trial each: %.3f, variance %.3f", log, variance)
	}
}

// The bounds hold as often as they say, for words in any combination, on a steady machine and
// on one that drifts.
func TestRegressionCovers(t *testing.T) {
	for _, drifts := range []bool{false, true} {
		covers(t, drifts)
	}
}

func covers(t *testing.T, drifts bool) {
	rng := rand.New(rand.NewPCG(3, 1))
	words, factors := []string{"-a", "-b", "-c", "-d"}, []float64{-0.3, 0.1, 0, -0.05}
	const runs = 2000
	told, within := 0, 0
	for range runs {
		var points []costPoint
		now := 0.05 * math.Sqrt(driftVariance) * rng.NormFloat64()
		for trial := range 12 {
			var s Setup
			log := 0.0
			p := costPoint{}
			if drifts {
				p.at, log = minute(3*float64(trial)), now
				keeps := math.Exp(-3 * time.Minute.Seconds() / driftTime.Seconds())
				now = keeps*now + math.Sqrt(1-keeps*keeps)*0.05*math.Sqrt(driftVariance)*rng.NormFloat64()
			}
			for i, w := range words {
				if rng.IntN(2) == 0 {
					s, log = s.plus(adds(w)), log+factors[i]
				}
			}
			p.setup, p.log = s, log+0.05*rng.NormFloat64()
			points = append(points, p)
		}
		log, variance, known := regress(points).difference(adds("-a", "-b"), adds("-d"))
		if !known {
			continue
		}
		told++
		if math.Abs(log-(-0.3+0.1+0.05)) <= 1.645*0.05*math.Sqrt(variance) {
			within++
		}
	}
	if share := float64(within) / float64(told); told < runs*9/10 || share < 0.88 || share > 0.92 {
		t.Errorf("drifts %v: %d of %d within bounds of 90 %%", drifts, within, told)
	}
}

// At the end levers are priced by all trials, with bounds.
func TestPriceLevers(t *testing.T) {
	a := adds("-a")
	s := &Search{found: Found{Levers: []LeverResult{{Kept: true, RelativeCost: RelativeCost{CostRatio: 0.9}, Before: 1, Trial: 2}, {Before: 1, Trial: 2}},
		Trials: []Trial{costing(Setup{}, PhaseBaseline, 68), costing(a, PhaseLever, 42), costing(a, PhaseLever, 44), costing(Setup{}, PhaseBaseline, 66)}}}
	s.found.Baseline = s.found.Trials[0]
	if err := s.priceLevers(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := s.found.Levers[0]
	if want := math.Sqrt(42.0 * 44 / 68 / 66); math.Abs(l.CostRatio-want) > 1e-9 || l.CostLow >= l.CostRatio-0.02 || l.CostHigh <= l.CostRatio+0.02 || l.CostHigh > 0.8 {
		t.Errorf("%.3f (%.3f to %.3f), want %.3f", l.CostRatio, l.CostLow, l.CostHigh, want)
	}
	if s.found.CostFreedom != priorFreedom+2 || s.found.CostDeviation <= 0 {
		t.Errorf("deviation %.3f by %g", s.found.CostDeviation, s.found.CostFreedom)
	}
	if o := s.found.Levers[1]; o.CostRatio != 0 || o.CostLow != 0 {
		t.Errorf("one without a ratio has %+v", o)
	}
}
