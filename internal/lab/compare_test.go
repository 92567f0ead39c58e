package lab

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// resultsOf has, for each value of factor f, a sample of rss by round.
func resultsOf(samples map[string][]float64, hash string) *Results {
	r := &Results{have: map[runKey]bool{}}
	for _, f := range sortedKeys(samples) {
		for i, v := range samples[f] {
			r.add(Record{Schema: Schema, Hash: hash + f, Cell: map[string]string{"f": f}, Round: i + 1, Verdict: "passed", Values: map[string]float64{"rss": v}})
		}
	}
	return r
}

// Two samples of the same distribution differ by chance about as often as the
// test says, and a real difference is found.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(mean float64) *Results {
		out := map[string][]float64{}
		for _, f := range []string{"a", "b"} {
			for range 8 {
				out[f] = append(out[f], mean+rng.NormFloat64())
			}
		}
		return resultsOf(out, "")
	}
	found, chance := 0, 0
	const runs = 200
	for range runs {
		a := draw(100)
		for _, d := range Compare(a, draw(103)).Differences {
			if d.Real && d.Effect > 0.5 {
				found++
			}
		}
		for _, d := range Compare(a, draw(100)).Differences {
			if d.Real {
				chance++
			}
		}
	}
	if found < 2*runs*95/100 || chance > 2*runs*8/100 {
		t.Errorf("of %d real differences %d were found, of as many by chance %d", 2*runs, found, chance)
	}
}

// A set is compared by the names of its cells; what ran there may differ.
func TestCompareMatchesCells(t *testing.T) {
	a := resultsOf(map[string][]float64{"one": {1, 2, 3, 4}, "few": {1, 2, 3}, "gone": {1}}, "before")
	b := resultsOf(map[string][]float64{"one": {9, 9, 9, 9}}, "first try")
	for _, r := range resultsOf(map[string][]float64{"one": {5, 6, 7, 8}, "few": {5, 6, 7}, "new": {1}}, "after").Records {
		b.add(r)
	}
	got := Compare(a, b)
	if !slices.Equal(got.OnlyA, []string{"f=gone"}) || !slices.Equal(got.OnlyB, []string{"f=new"}) || len(got.Differences) != 2 {
		t.Fatalf("%+v", got)
	}
	few, one := got.Differences[0], got.Differences[1]
	if few.Real || few.Warning != "needs 4 runs each" || few.Effect != 1 {
		t.Errorf("%+v", few)
	}
	// All of B above all of A: 2 of the 70 ways to choose 4 of 8.
	if !one.Real || one.Warning != "" || math.Abs(one.P-2.0/70) > 1e-12 || one.Effect != 1 || !slices.Equal(one.B.Values, []float64{5, 6, 7, 8}) {
		t.Errorf("%+v", one)
	}
}

// What searches found differs only by more than they looked.
func TestCompareOfSearches(t *testing.T) {
	set := func(limit float64) *Results {
		r := &Results{have: map[runKey]bool{}}
		for round := range 4 {
			r.add(Record{Hash: "h", Cell: map[string]string{"f": "a"}, Round: round + 1, Tolerance: 0.04, Values: map[string]float64{"limit": limit, "rss": limit}})
		}
		return r
	}
	for _, tt := range []struct {
		limit       float64
		limitIsReal bool
	}{{103, false}, {106, true}, {97, false}, {94, true}} {
		for _, d := range Compare(set(100), set(tt.limit)).Differences {
			want := tt.limitIsReal || d.Measure == "rss"
			if d.Real != want || (d.Warning == "searched to 4 %") == want {
				t.Errorf("%s 100 to %g: %+v", d.Measure, tt.limit, d)
			}
		}
	}
}

// The p values are those of the exact test by its definition: the share of all
// ways to choose who is A that give a rank sum as far from the middle.
func TestCompareIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n, m := 2+rng.IntN(5), 2+rng.IntN(5)
		values := make([]float64, n+m)
		for i := range values {
			values[i] = float64(rng.IntN(12)) // with ties
		}
		d := Difference{A: Sample{Values: values[:n]}, B: Sample{Values: values[n:]}}
		d.test(0)
		if want := permutationP(values, n); math.Abs(d.P-want) > 1e-9 {
			t.Errorf("%v against %v: p %g, want %g", values[:n], values[n:], d.P, want)
		}
	}
}

// Beyond the exact range the normal approximation takes over, without a jump.
func TestCompareOfManyRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(n int, mean float64) (out []float64) {
		for range n {
			out = append(out, math.Round(10*(mean+rng.NormFloat64())))
		}
		return out
	}
	a, b := draw(31, 0), draw(30, 0.5)
	approximate, exact := mannWhitney(a, b), mannWhitney(a[:30], b)
	if math.Abs(approximate-exact) > 0.03 || exact <= 0 || exact > 1 {
		t.Errorf("p %g of 61 values, %g of 60", approximate, exact)
	}
	if p := mannWhitney(make([]float64, 150), make([]float64, 150)); p != 1 {
		t.Errorf("p %g of equal values", p)
	}
}

// permutationP is the exact two-sided p of U by enumeration.
func permutationP(values []float64, n int) float64 {
	u := func(mask uint) (twice int) { // twice U less its mean
		for i, x := range values {
			for j, y := range values {
				if mask&(1<<i) != 0 && mask&(1<<j) == 0 {
					twice += cmp.Compare(x, y)
				}
			}
		}
		return twice
	}
	observed := u(1<<n - 1)
	extreme, all := 0, 0
	for mask := range uint(1) << len(values) {
		if bits.OnesCount(mask) != n {
			continue
		}
		all++
		if v := u(mask); max(v, -v) >= max(observed, -observed) {
			extreme++
		}
	}
	return float64(extreme) / float64(all)
}
