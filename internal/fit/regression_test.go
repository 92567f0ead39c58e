package fit

import (
	"math"
	"math/rand/v2"
	"testing"
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

// The bounds hold as often as they say, for words in any combination.
func TestRegressionCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	words, factors := []string{"-a", "-b", "-c", "-d"}, []float64{-0.3, 0.1, 0, -0.05}
	const runs = 2000
	told, within := 0, 0
	for range runs {
		var points []costPoint
		for range 12 {
			var s Setup
			log := 0.0
			for i, w := range words {
				if rng.IntN(2) == 0 {
					s, log = s.plus(adds(w)), log+factors[i]
				}
			}
			points = append(points, costPoint{setup: s, log: log + 0.05*rng.NormFloat64()})
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
		t.Errorf("%d of %d within bounds of 90 %%", within, told)
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
