package lab

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// Difference is how a measure of a cell changed from one result set to another.
type Difference struct {
	Cell, Measure string
	Unit          Unit
	A, B          Sample
	// P is the probability of a difference like this by chance alone
	// (Mann–Whitney U test), Effect the probability that a value of B is
	// larger than one of A, less the opposite (Cliff's delta).
	P, Effect float64
	// Real says that P is below 0.05, and the difference of the medians more than
	// searches leave open; Warning why it could not be.
	Real    bool
	Warning string
}

// Comparison is two result sets side by side.
type Comparison struct {
	Differences []Difference
	// OnlyA and OnlyB are cells that the other set does not have.
	OnlyA, OnlyB []string
}

// Compare compares two result sets cell by cell, cells by their names. What ran
// in a cell may differ: that is what a changed experiment file is for. Of a
// cell that ran in several ways in one set the latest counts.
func Compare(a, b *Results) Comparison {
	cellsA, cellsB := a.cells(), b.cells()
	find := func(cells []CellResults, key string) int {
		return slices.IndexFunc(cells, func(c CellResults) bool { return c.Cell.Labels[0] == key })
	}
	var out Comparison
	for _, ca := range cellsA {
		key := ca.Cell.Labels[0]
		i := find(cellsB, key)
		if i < 0 {
			out.OnlyA = append(out.OnlyA, key)
			continue
		}
		for _, m := range measuresOf(ca, cellsB[i]) {
			d := Difference{Cell: key, Measure: m.Name, Unit: m.Unit, A: ca.Sample(m.Name), B: cellsB[i].Sample(m.Name)}
			d.test(toleranceOf(m.Name, ca, cellsB[i]))
			out.Differences = append(out.Differences, d)
		}
	}
	for _, cb := range cellsB {
		if find(cellsA, cb.Cell.Labels[0]) < 0 {
			out.OnlyB = append(out.OnlyB, cb.Cell.Labels[0])
		}
	}
	return out
}

// cells groups records by the names of their cells, which become the only
// label, in the order of their names.
func (r *Results) cells() []CellResults {
	latest := map[string]string{} // hash by name
	for _, rec := range r.Records {
		latest[rec.name()] = rec.Hash
	}
	byName := map[string][]Record{}
	for _, rec := range r.Records {
		if name := rec.name(); latest[name] == rec.Hash && byName[name] == nil {
			byName[name] = r.of(rec.Hash)
		}
	}
	var out []CellResults
	for _, name := range sortedKeys(byName) {
		out = append(out, CellResults{Cell{Labels: []string{name}}, byName[name]})
	}
	return out
}

// toleranceOf is the share to which a measure is known where searches found it, 0
// for what was measured.
func toleranceOf(measure string, cells ...CellResults) float64 {
	tolerance := 0.0
	if !searched(measure) {
		return tolerance
	}
	for _, c := range cells {
		for _, r := range c.Records {
			tolerance = max(tolerance, r.Tolerance)
		}
	}
	return tolerance
}

// name is the cell's name, factors in alphabetical order.
func (r Record) name() string {
	var parts []string
	for _, f := range sortedKeys(r.Cell) {
		parts = append(parts, f+"="+r.Cell[f])
	}
	return strings.Join(parts, " ")
}

// measuresOf are the measures that either cell has a value of, in the order
// of Measures.
func measuresOf(cells ...CellResults) []Measure {
	seen := map[string]bool{}
	for _, c := range cells {
		for _, r := range c.Records {
			for name := range r.Values {
				seen[name] = true
			}
		}
	}
	var out []Measure
	for _, name := range sortedKeys(seen) {
		if m, ok := MeasureNamed(name); ok {
			out = append(out, m)
		}
	}
	order := func(m Measure) int {
		if i := slices.IndexFunc(Measures, func(o Measure) bool { return o.Name == m.Name }); i >= 0 {
			return i
		}
		return len(Measures)
	}
	slices.SortStableFunc(out, func(a, b Measure) int { return cmp.Compare(order(a), order(b)) })
	return out
}

// significance is the probability below which a difference is called real.
const significance = 0.05

func (d *Difference) test(tolerance float64) {
	d.P = 1
	if len(d.A.Values) == 0 || len(d.B.Values) == 0 {
		d.Warning = "not measured in both"
		return
	}
	if smallestP(len(d.A.Values), len(d.B.Values)) >= significance {
		d.Warning = fmt.Sprintf("needs %d runs each", enoughRuns)
	}
	d.Effect = cliffsDelta(d.A.Values, d.B.Values)
	d.P = mannWhitney(d.A.Values, d.B.Values)
	a, _, _, _ := d.A.Median()
	b, _, _, _ := d.B.Median()
	if a != b && math.Abs(a-b) <= tolerance*max(a, b) {
		d.Warning = fmt.Sprintf("searched to %g %%", 100*tolerance)
	}
	d.Real = d.P < significance && d.Warning == ""
}

// exactRuns is up to how many runs in all the test is exact.
const exactRuns = 60

// mannWhitney is the two-sided p of the U test: the share of all ways to choose
// which values are those of a that give a rank sum as far from the middle. Up to
// exactRuns it is counted; benchmath's is wrong there when values are equal, and
// may be 0.
func mannWhitney(a, b []float64) float64 {
	if len(a)+len(b) > exactRuns {
		t := benchmath.DefaultThresholds
		if p := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &t), benchmath.NewSample(b, &t)).P; !math.IsNaN(p) {
			return p
		}
		return 1 // all values are equal
	}
	ranks := doubleRanks(slices.Concat(a, b))
	observed, total := 0, 0
	for i, r := range ranks {
		total += r
		if i < len(a) {
			observed += r
		}
	}
	// ways[k][s] is in how many ways k values have the rank sum s.
	ways := make([][]float64, len(a)+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := len(a); k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	// Twice the distance to the middle, times the number of values: whole.
	distance := func(sum int) int { return max(sum*len(ranks)-total*len(a), total*len(a)-sum*len(ranks)) }
	extreme, all := 0.0, 0.0
	for s, n := range ways[len(a)] {
		all += n
		if distance(s) >= distance(observed) {
			extreme += n
		}
	}
	return extreme / all
}

// doubleRanks are twice the ranks of the values; equal values share the mean of
// theirs.
func doubleRanks(values []float64) []int {
	sorted := slices.Sorted(slices.Values(values))
	ranks := make([]int, len(values))
	for i, v := range values {
		first, _ := slices.BinarySearch(sorted, v)
		after := first
		for after < len(sorted) && sorted[after] == v {
			after++
		}
		ranks[i] = first + 1 + after
	}
	return ranks
}

// enoughRuns on each side can show a difference: smallestP(4, 4) is 0.029.
const enoughRuns = 4

// smallestP is the p that the test gives where all values of one side are
// larger than all of the other: 2 of all ways to choose who is which.
func smallestP(n, m int) float64 {
	ways, _ := new(big.Float).SetInt(new(big.Int).Binomial(int64(n+m), int64(n))).Float64()
	return 2 / ways
}

// cliffsDelta is how much more often values of b are larger than values of a
// than smaller, as a share of all pairs.
func cliffsDelta(a, b []float64) float64 {
	sum := 0
	for _, x := range a {
		for _, y := range b {
			sum += cmp.Compare(y, x)
		}
	}
	return float64(sum) / float64(len(a)*len(b))
}
