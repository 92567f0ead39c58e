package check

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/lab"
)

// noise is how runs of one version differ, in units of its deviation.
type noise func(r *rand.Rand) float64

var noises = map[string]noise{
	"normal": func(r *rand.Rand) float64 { return r.NormFloat64() },
	"two heights": func(r *rand.Rand) float64 {
		return float64(2*r.IntN(2)-1) + 0.1*r.NormFloat64()
	},
	"rare high runs": func(r *rand.Rand) float64 {
		if r.IntN(8) == 0 {
			return 3 + 0.3*r.NormFloat64()
		}
		return 0.3 * r.NormFloat64()
	},
	"skewed": func(r *rand.Rand) float64 { return math.Exp(0.8*r.NormFloat64()) - math.Exp(0.32) },
}

// tenMeasures are bounds of growth with the default floor.
func tenMeasures() []budget.Bound {
	var out []budget.Bound
	for _, m := range budget.Measures()[:10] {
		out = append(out, budget.Bound{Measure: m, Growth: true, Floor: budget.Floor{Share: 0.01}})
	}
	return out
}

// simulated makes sets of eight runs a side: each measure is 100 with a deviation, the head
// more by a change in all of them; the machine drifts by drift from one set to the next.
func simulated(r *rand.Rand, n noise, deviation, change, drift float64) func() (Set, error) {
	level := 100.0
	return func() (Set, error) {
		var s Set
		for i := range 16 {
			v := Values{}
			head := i%4 == 1 || i%4 == 2 // ABBA
			at := level + drift*float64(i)/16
			if head {
				at += change
			}
			for _, m := range budget.Measures()[:10] {
				v[m.Name] = at + deviation*n(r)
			}
			if head {
				s.Head = append(s.Head, v)
			} else {
				s.Base = append(s.Base, v)
			}
		}
		level += drift
		return s, nil
	}
}

// With ten bounds, nothing changed and any noise, a check fails in fewer than 1 of 50; of
// growth to the very floor it fails no more often.
func TestFalseAlarms(t *testing.T) {
	const checks = 300
	for name, n := range noises {
		for _, change := range []float64{0, 1} {
			for _, deviation := range []float64{0.2, 1.5} {
				r := rand.New(rand.NewPCG(7, 11))
				failed := 0
				for range checks {
					findings, err := Judge(tenMeasures(), nil, 3, simulated(r, n, deviation, change, 1))
					if err != nil {
						t.Fatal(err)
					}
					if Worst(findings) == Failed {
						failed++
					}
				}
				if failed > checks/50 {
					t.Errorf("%s, deviation %g %%, growth %g %%: %d of %d failed", name, deviation, change, failed, checks)
				}
			}
		}
	}
}

// Growth of twice the floor is found, or said not to be known: it passes in fewer than 1
// of 20.
func TestNothingPassesUnseen(t *testing.T) {
	const checks = 100
	for name, n := range noises {
		for _, deviation := range []float64{0.1, 0.3, 1, 3} {
			r := rand.New(rand.NewPCG(3, 5))
			passed, failed := 0, 0
			for range checks {
				bounds := tenMeasures()[:1]
				findings, err := Judge(bounds, nil, 3, simulated(r, n, deviation, 2.02, 0))
				if err != nil {
					t.Fatal(err)
				}
				switch findings[0].Verdict {
				case Passed:
					passed++
				case Failed:
					failed++
				}
			}
			if passed > checks/20 {
				t.Errorf("%s, deviation %g %%: %d of %d passed", name, deviation, passed, checks)
			}
			if deviation <= 0.3 && failed < checks*9/10 {
				t.Errorf("%s, deviation %g %%: only %d of %d failed", name, deviation, failed, checks)
			}
		}
	}
}

// fixedSet gives the same runs again and again.
func fixedSet(base, head []float64) func() (Set, error) {
	return func() (Set, error) {
		var s Set
		for _, v := range base {
			s.Base = append(s.Base, Values{"needed": v})
		}
		for _, v := range head {
			s.Head = append(s.Head, Values{"needed": v})
		}
		return s, nil
	}
}

func TestVerdicts(t *testing.T) {
	needed, _ := budget.MeasureNamed("needed")
	if needed.Unit != lab.Bytes {
		t.Fatal(needed)
	}
	growth := budget.Bound{Measure: needed, Growth: true, Floor: budget.Floor{Share: 0.01, Amount: 2}}
	accepted := growth
	accepted.Accepted = 50
	most := budget.Bound{Measure: needed, Most: 1000, Floor: budget.Floor{Share: 0.01}}
	level := func(v, spread float64) []float64 {
		return []float64{v - spread, v + spread, v - spread, v + spread, v - spread, v + spread}
	}
	for name, c := range map[string]struct {
		bound      budget.Bound
		base, head []float64
		want       Verdict
		sets       int
	}{
		"the same":                  {growth, level(1000, 1), level(1000, 1), Passed, 1},
		"without any spread":        {growth, level(1000, 0), level(1000, 0), Passed, 1},
		"a little more":             {growth, level(1000, 1), level(1005, 1), Passed, 1},
		"more":                      {growth, level(1000, 1), level(1030, 1), Failed, 2},
		"more without any spread":   {growth, level(1000, 0), level(1011, 0), Failed, 2},
		"just as much as allowed":   {growth, level(1000, 0), level(1010, 0), Passed, 1},
		"accepted":                  {accepted, level(1000, 1), level(1030, 1), Passed, 1},
		"more than accepted":        {accepted, level(1000, 1), level(1080, 1), Failed, 2},
		"less":                      {growth, level(1000, 1), level(900, 1), Passed, 1},
		"less, however noisy":       {growth, level(1000, 100), level(100, 100), Passed, 1},
		"too noisy":                 {growth, level(1000, 200), level(1010, 200), Unknown, 3},
		"below its bound":           {most, nil, level(900, 50), Passed, 1},
		"above its bound":           {most, nil, level(1100, 10), Failed, 2},
		"at its bound":              {most, nil, level(1000, 1), Passed, 1},
		"about its bound, too wide": {most, nil, level(1000, 200), Unknown, 3},
		"not measured":              {growth, nil, level(1000, 1), Unknown, 3},
	} {
		sets := 0
		next := fixedSet(c.base, c.head)
		findings, err := Judge([]budget.Bound{c.bound}, nil, 3, func() (Set, error) { sets++; return next() })
		if err != nil || findings[0].Verdict != c.want || sets != c.sets {
			t.Errorf("%s: %v, %+v after %d sets, want %s after %d", name, err, findings[0], sets, c.want, c.sets)
		}
		if (findings[0].Verdict == Unknown) != (findings[0].Why != "") {
			t.Errorf("%s: why %q", name, findings[0].Why)
		}
	}
}

// What one set accuses, and the next does not repeat, does not fail.
func TestAccusedAlone(t *testing.T) {
	needed, _ := budget.MeasureNamed("needed")
	bound := budget.Bound{Measure: needed, Growth: true, Floor: budget.Floor{Share: 0.01}}
	high, low := fixedSet([]float64{100, 100.1, 99.9, 100}, []float64{103, 103.1, 102.9, 103}), fixedSet([]float64{100, 100.1, 99.9, 100}, []float64{100, 100.1, 99.9, 100})
	n := 0
	findings, err := Judge([]budget.Bound{bound}, nil, 2, func() (Set, error) {
		n++
		if n == 1 {
			return high()
		}
		return low()
	})
	if err != nil || findings[0].Verdict != Unknown {
		t.Errorf("%v, %+v", err, findings)
	}
	findings, err = Judge([]budget.Bound{bound}, nil, 1, high)
	if err != nil || findings[0].Verdict != Unknown {
		t.Errorf("accused in the last set: %v, %+v", err, findings)
	}
}

func TestHolm(t *testing.T) {
	got := holm([]float64{0.04, 0.01, 0.03, 0.5})
	want := []float64{0.09, 0.04, 0.09, 0.5}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
