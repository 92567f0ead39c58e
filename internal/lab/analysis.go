package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jmh"
)

// Set is the results of one experiment, by cell.
type Set struct {
	Experiment *Experiment
	Cells      []CellResults
}

// CellResults are the records of one cell, by round.
type CellResults struct {
	Cell    Cell
	Records []Record
}

// Analyse gives each cell its records. Records of what the file no longer says, and
// of an earlier build of the JDK or image, are left out.
func Analyse(e *Experiment, r *Results) *Set {
	s := &Set{Experiment: e}
	for _, c := range e.Cells() {
		records := r.of(e.Hash(c))
		slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Round, b.Round) })
		s.Cells = append(s.Cells, CellResults{c, records})
	}
	return s
}

// Sample is the values of a measure in one cell.
type Sample struct {
	Values []float64 // by round
	// Failed is how many runs did not pass, Missing how many have no value.
	Failed, Missing int
}

// Sample is the cell's sample of a measure.
func (c CellResults) Sample(measure string) Sample {
	var s Sample
	for _, r := range c.Records {
		if r.Verdict != "" && r.Verdict != "passed" {
			s.Failed++
		}
		if v, ok := r.Values[measure]; ok {
			s.Values = append(s.Values, v)
		} else {
			s.Missing++
		}
	}
	return s
}

// Median is the middle value, and the smallest and largest; false when there is
// none.
func (s Sample) Median() (median, low, high float64, ok bool) {
	if len(s.Values) == 0 {
		return 0, 0, 0, false
	}
	v := slices.Sorted(slices.Values(s.Values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1], true
}

// Interval is an estimate with its 95 % interval.
type Interval struct{ Center, Low, High float64 }

// confidence of all intervals.
const confidence = 0.95

// ratioOf is the ratio of a measure between two cells, round by round, for the
// runs of one round lie close in time. It assumes that the logarithms are
// normally distributed. False with fewer than two rounds in common.
func ratioOf(a, b CellResults, measure string) (Interval, bool) {
	var logs []float64
	for _, ra := range a.Records {
		va, ok := ra.Values[measure]
		if !ok || va <= 0 {
			continue
		}
		for _, rb := range b.Records {
			if vb, ok := rb.Values[measure]; ok && vb > 0 && rb.Round == ra.Round {
				logs = append(logs, math.Log(va/vb))
			}
		}
	}
	i, ok := normal(logs)
	return Interval{math.Exp(i.Center), math.Exp(i.Low), math.Exp(i.High)}, ok
}

// normal is the mean with its interval, of normally distributed values.
func normal(values []float64) (Interval, bool) {
	if len(values) < 2 {
		return Interval{}, false
	}
	s := benchmath.AssumeNormal.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
	return Interval{s.Center, s.Lo, s.Hi}, true
}

// searched says whether a measure is what a search finds.
func searched(measure string) bool { return measure == foundMeasure || measure == limitMeasure }

// reach is between which shares of a cell's values the true ones lie, where a
// search found them: it stops when what passes and what fails are near enough, and
// its rounds, of which later ones begin at what earlier ones found, agree better
// than they know.
func (e *Experiment) reach(c CellResults, measure string) (low, high float64) {
	median, _, _, ok := c.Sample(measure).Median()
	if e.Search == nil || !searched(measure) || !ok {
		return 1, 1
	}
	if e.Search.Find == smallestLimit {
		return 1 - max(e.Search.Tolerance, fit.LimitStep/median), 1
	}
	return 1, 1 + max(e.Search.Tolerance, 1/median)
}

// Judgement is what became of a claim.
type Judgement string

// The judgements. Unclear is one whose interval reaches across the bound.
const (
	Confirmed  Judgement = "confirmed"
	Refuted    Judgement = "refuted"
	Unclear    Judgement = "unclear"
	Unmeasured Judgement = "not measured"
)

// Check is a claim in one cell, or between two.
type Check struct {
	Where     string
	Value     Interval
	Judgement Judgement

	cells []Cell // of which more rounds can tell more
}

// Judged is a claim and all its checks. Its own judgement is the worst of
// theirs: confirmed only where all are.
type Judged struct {
	Claim     Claim
	Unit      Unit
	Checks    []Check
	Judgement Judgement
}

// unit of what a claim expects.
func (c Claim) unit(m Measure) Unit {
	if len(c.Compare) > 0 {
		return Ratio
	}
	return m.Unit
}

// Judge judges all claims.
func (s *Set) Judge() []Judged {
	var out []Judged
	for _, c := range s.Experiment.Claims {
		m, _ := MeasureNamed(c.Measure)
		j := Judged{Claim: c, Unit: c.unit(m)}
		expect, err := parseExpectation(c.Expect, j.Unit)
		if err != nil {
			continue // checked when the file was read
		}
		if len(c.Compare) > 0 {
			j.Checks = s.compared(c, expect)
		} else {
			j.Checks = s.valued(c, expect)
		}
		j.Judgement = worst(j.Checks)
		out = append(out, j)
	}
	return out
}

// valued checks the values of a measure in all cells of the claim.
func (s *Set) valued(c Claim, expect expectation) []Check {
	var checks []Check
	for _, cell := range s.Cells {
		if !s.Experiment.matches(cell.Cell.Labels, c.Where) {
			continue
		}
		i, ok := normal(cell.Sample(c.Measure).Values)
		low, high := s.Experiment.reach(cell, c.Measure)
		checks = append(checks, expect.check(s.Experiment.Key(cell.Cell), i, ok, low, high, cell.Cell))
	}
	return checks
}

// compared checks ratios between cells that differ in the compared factor only.
func (s *Set) compared(c Claim, expect expectation) []Check {
	name := sortedKeys(c.Compare)[0]
	first, second := string(c.Compare[name][0]), string(c.Compare[name][1])
	column := slices.IndexFunc(s.Experiment.Factors, func(f Factor) bool { return f.Name == name })
	var checks []Check
	for _, a := range s.Cells {
		if a.Cell.Labels[column] != first || !s.Experiment.matches(a.Cell.Labels, c.Where) {
			continue
		}
		labels := slices.Clone(a.Cell.Labels)
		labels[column] = second
		for _, b := range s.Cells {
			if !slices.Equal(b.Cell.Labels, labels) {
				continue
			}
			i, ok := ratioOf(a, b, c.Measure)
			lowA, highA := s.Experiment.reach(a, c.Measure)
			lowB, highB := s.Experiment.reach(b, c.Measure)
			checks = append(checks, expect.check(s.others(a.Cell, column), i, ok, lowA/highB, highA/lowB, a.Cell, b.Cell))
		}
	}
	return checks
}

// unclear are the cells, by hash, for which claims are unclear.
func (s *Set) unclear() map[string]bool {
	cells := map[string]bool{}
	for _, j := range s.Judge() {
		for _, check := range j.Checks {
			if j.Judgement != Unclear || check.Judgement != Unclear {
				continue
			}
			for _, c := range check.cells {
				cells[s.Experiment.Hash(c)] = true
			}
		}
	}
	return cells
}

// others names a cell by all factors but one.
func (s *Set) others(c Cell, but int) string {
	var parts []string
	for i, l := range c.Labels {
		if i != but {
			parts = append(parts, s.Experiment.Factors[i].Name+"="+l)
		}
	}
	return strings.Join(parts, " ")
}

func worst(checks []Check) Judgement {
	order := []Judgement{Refuted, Unclear, Unmeasured, Confirmed}
	for _, j := range order {
		if slices.ContainsFunc(checks, func(c Check) bool { return c.Judgement == j }) {
			return j
		}
	}
	return Unmeasured
}

// expectation is a range, both ends included.
type expectation struct{ low, high float64 }

// parseExpectation reads "<= X", ">= X" or "X .. Y".
func parseExpectation(text string, u Unit) (expectation, error) {
	bound := func(s string) (float64, error) { return ParseValue(strings.TrimSpace(s), u) }
	e := expectation{math.Inf(-1), math.Inf(1)}
	var err error
	if rest, ok := strings.CutPrefix(text, "<="); ok {
		e.high, err = bound(rest)
	} else if rest, ok := strings.CutPrefix(text, ">="); ok {
		e.low, err = bound(rest)
	} else if from, to, ok := strings.Cut(text, ".."); ok {
		if e.low, err = bound(from); err == nil {
			e.high, err = bound(to)
		}
		if err == nil && e.high < e.low {
			err = fmt.Errorf("expect %q: the range is empty", text)
		}
	} else {
		err = fmt.Errorf("expect %q: write <= X, >= X or X .. Y", text)
	}
	return e, err
}

// check judges an interval between rounds, of values that are known from low to
// high times themselves. Where that alone leaves the claim unclear no round more of
// the cells can tell.
func (e expectation) check(where string, i Interval, known bool, low, high float64, cells ...Cell) Check {
	if e.judge(Interval{i.Center, i.Center * low, i.Center * high}, known) == Unclear {
		cells = nil
	}
	i.Low, i.High = i.Low*low, i.High*high
	return Check{where, i, e.judge(i, known), cells}
}

// judge says whether a value is as expected with its whole interval, or not
// with its whole interval.
func (e expectation) judge(i Interval, known bool) Judgement {
	switch {
	case !known:
		return Unmeasured
	case i.Low >= e.low && i.High <= e.high:
		return Confirmed
	case i.High < e.low || i.Low > e.high:
		return Refuted
	}
	return Unclear
}

// Beside is a published value and the measured one.
type Beside struct {
	Published Published
	Where     string
	Value     float64
	Measured  Sample
	Unit      Unit
}

// Published sets published values beside what was measured in every cell that
// they speak of.
func (s *Set) Published() []Beside {
	var out []Beside
	for _, p := range s.Experiment.Published {
		m, _ := MeasureNamed(p.Measure)
		value, err := ParseValue(string(p.Value), m.Unit)
		if err != nil {
			continue // checked when the file was read
		}
		for _, c := range s.Cells {
			if s.Experiment.matches(c.Cell.Labels, p.Where) {
				out = append(out, Beside{p, s.Experiment.Key(c.Cell), value, c.Sample(p.Measure), m.Unit})
			}
		}
	}
	return out
}

// Format writes a value of a unit.
func (u Unit) Format(v float64) string {
	switch u {
	case Bytes:
		return strconv.FormatFloat(v/(1<<20), 'f', 1, 64) + " MiB"
	case Seconds:
		if v < 1 {
			return strconv.FormatFloat(v*1000, 'f', 1, 64) + " ms"
		}
		return strconv.FormatFloat(v, 'f', 2, 64) + " s"
	case Share:
		return strconv.FormatFloat(v*100, 'f', 2, 64) + " %"
	case Ratio:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case Number:
		return jmh.Quantity(v)
	case PerSecond:
		return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
