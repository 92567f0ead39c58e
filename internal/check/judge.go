// Package check judges whether a program keeps its memory budget: base and head run in
// turn, and a bound fails only where runs that did not accuse it repeat that it does.
package check

import (
	"tare.dev/tare/internal/budget"
)

// Verdict is what became of a bound, or of all.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Unknown Verdict = "not known"
	// Broken is a check that could not be made: a build or a run failed.
	Broken Verdict = "broken"
)

// Values are the measures of one run by their names in budgets, in the base units.
type Values map[string]float64

// Set is as many runs of each side as are made before a look.
type Set struct{ Base, Head []Values }

// Finding is what became of a bound.
type Finding struct {
	Measure string `json:"measure"`
	Unit    string `json:"unit"`
	// Growth says that the bound is of what the head has more than the base.
	Growth bool `json:"growth"`
	// Base and Head are means; Base is 0 without one.
	Base float64 `json:"base"`
	Head float64 `json:"head"`
	// Value is what is bounded: the head's mean, or what it has more than the base, of all
	// runs. Limit is what it may be.
	Value Interval `json:"value"`
	Limit float64  `json:"limit"`
	// Resolution is how wide the interval may be to decide.
	Resolution float64 `json:"resolution"`
	// P is the chance that the runs which decided are as they are where the limit holds,
	// corrected for the number of bounds.
	P       float64 `json:"p"`
	Verdict Verdict `json:"verdict"`
	// Why says why it is not known.
	Why string `json:"why,omitempty"`

	bound budget.Bound
}

// judge judges all bounds.
type judge struct {
	bounds   []budget.Bound
	findings []Finding
	// accused are the bounds that the last look accused, settled those that are decided.
	accused, settled []bool
	all              Set
	// fixed says that all sets have the same runs of the base.
	fixed bool
}

// newJudge judges against the runs of a base that are fixed, or nil where each set has its
// own.
func newJudge(bounds []budget.Bound, fixed []Values) *judge {
	j := &judge{bounds: bounds, findings: make([]Finding, len(bounds)), accused: make([]bool, len(bounds)), settled: make([]bool, len(bounds)), fixed: fixed != nil}
	j.all.Base = fixed
	return j
}

// look takes a set of runs.
func (j *judge) look(s Set) {
	if j.fixed {
		s.Base = j.all.Base
	} else {
		j.all.Base = append(j.all.Base, s.Base...)
	}
	j.all.Head = append(j.all.Head, s.Head...)
	j.repeat(s)
	p := make([]float64, len(j.bounds))
	for i, b := range j.bounds {
		f := find(b, j.all)
		p[i] = f.P
		if !j.settled[i] {
			j.findings[i] = f
		}
	}
	for i, corrected := range holm(p) {
		f := &j.findings[i]
		if j.settled[i] {
			continue
		}
		f.P = corrected
		switch {
		case f.Why != "": // not measured
		case f.P <= alpha:
			j.accused[i] = true
			f.Why = "it is beyond its limit in these runs, and no fresh runs have repeated it"
		case f.passes():
			f.Verdict, j.settled[i] = Passed, true
		default:
			f.Why = "the runs of one side differ too much: the interval is wider than what is allowed"
		}
	}
}

// repeat judges those that were accused by the fresh runs alone.
func (j *judge) repeat(fresh Set) {
	var which []int
	var p []float64
	for i, accused := range j.accused {
		if accused {
			which, p = append(which, i), append(p, find(j.bounds[i], fresh).P)
		}
	}
	for n, corrected := range holm(p) {
		i := which[n]
		j.accused[i] = false
		if corrected <= alpha {
			j.findings[i] = find(j.bounds[i], j.all)
			j.findings[i].P, j.findings[i].Verdict, j.findings[i].Why = corrected, Failed, ""
			j.settled[i] = true
		}
	}
}

// done says that fresh runs tell nothing more.
func (j *judge) done() bool {
	for i := range j.bounds {
		if !j.settled[i] {
			return false
		}
	}
	return true
}

// passes says that a bound which is not accused holds: for sure, or as far as an interval
// tells that is as narrow as what is allowed.
func (f Finding) passes() bool {
	return f.Value.High <= f.Limit || f.Value.Low <= f.Limit && f.Value.Width() <= f.Resolution
}

// find is what runs say of a bound alone; its verdict is open.
func find(b budget.Bound, s Set) Finding {
	f := Finding{Measure: b.Measure.Name, Unit: string(b.Measure.Unit), Growth: b.Growth, P: 1, Verdict: Unknown, bound: b}
	head, ok := values(s.Head, b.Measure.Name)
	e, enough := meanOf(head)
	f.Head = e.center
	f.Limit, f.Resolution = b.Most, b.Floor.Of(b.Most)
	if b.Growth {
		base, also := values(s.Base, b.Measure.Name)
		was, _ := meanOf(base)
		f.Base, ok = was.center, ok && also
		e, enough = difference(base, head)
		f.Resolution = b.Floor.Of(f.Base)
		f.Limit = f.Resolution + b.Accepted
	}
	if !ok || !enough {
		f.Why = "it could not be measured in all runs"
		return f
	}
	f.Value, f.P = e.interval(), e.above(f.Limit)
	return f
}

// values are those of a measure; false where a run has none.
func values(runs []Values, measure string) ([]float64, bool) {
	out := make([]float64, 0, len(runs))
	for _, r := range runs {
		v, ok := r[measure]
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, len(out) > 0
}

// Judge judges bounds by sets of runs, of which next makes one more, of which there are at
// most so many. fixed are the runs of a base that is not run again; nil where each set has
// its own.
func Judge(bounds []budget.Bound, fixed []Values, most int, next func() (Set, error)) ([]Finding, error) {
	j := newJudge(bounds, fixed)
	for n := 0; n < most && !j.done(); n++ {
		s, err := next()
		if err != nil {
			return nil, err
		}
		j.look(s)
	}
	return j.findings, nil
}

// Worst is the verdict of all: failed where one failed, else not known where one is.
func Worst(findings []Finding) Verdict {
	worst := Passed
	for _, f := range findings {
		switch {
		case f.Verdict == Failed:
			return Failed
		case f.Verdict != Passed:
			worst = Unknown
		}
	}
	return worst
}
