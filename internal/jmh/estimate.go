package jmh

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence of all intervals, JMH's own.
const Confidence = 0.999

// minForks is from how many forks on a fork is one value. Iterations of one JVM
// are not independent of each other: taken for so many values, they make the
// interval too narrow.
const minForks = 3

// Estimate is a metric's value and how sure it is.
type Estimate struct {
	Unit   string  `json:"unit"`
	Center float64 `json:"center"`
	// Low and High are the interval; nil when there are too few values.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Values is what it comes from: one value of each fork, or of each
	// iteration where there are fewer than three forks.
	Values  []float64 `json:"values"`
	PerFork bool      `json:"perFork"`
	Peak    bool      `json:"peak"`
}

// Estimate is the metric's mean, of peaks the mean of the largest of each fork.
func (m Metric) Estimate() Estimate {
	e := Estimate{Unit: m.Unit, Peak: m.Peak, PerFork: len(m.Forks) >= minForks}
	for _, fork := range m.Forks {
		switch {
		case m.Peak:
			e.Values = append(e.Values, slices.Max(fork))
		case e.PerFork:
			e.Values = append(e.Values, mean(fork))
		default:
			e.Values = append(e.Values, fork...)
		}
	}
	e.Center = mean(e.Values)
	if len(e.Values) >= 2 {
		s := benchmath.AssumeNormal.Summary(sample(e.Values), Confidence)
		e.Low, e.High = &s.Lo, &s.Hi
	}
	return e
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// Margin is half the width of the interval; NaN without one.
func (e Estimate) Margin() float64 {
	if e.Low == nil {
		return math.NaN()
	}
	return (*e.High - *e.Low) / 2
}

// Overlaps says that two intervals have a value in common; without an interval
// the centre stands for it.
func (e Estimate) Overlaps(o Estimate) bool {
	low, high := e.Bounds()
	otherLow, otherHigh := o.Bounds()
	return low <= otherHigh && otherLow <= high
}

// Bounds are those of the interval, the centre where there is none.
func (e Estimate) Bounds() (low, high float64) {
	if e.Low == nil {
		return e.Center, e.Center
	}
	return *e.Low, *e.High
}

// Differ tests whether two samples have different means: Welch's t-test at
// 1 - Confidence, strict because a comparison makes many of them. false,false:
// too few values to tell.
func Differ(a, b []float64) (different, known bool) {
	if len(a) < 2 || len(b) < 2 {
		return false, false
	}
	if constant(a) && constant(b) {
		return a[0] != b[0], true
	}
	return benchmath.AssumeNormal.Compare(sample(a), sample(b)).P < 1-Confidence, true
}

func constant(values []float64) bool {
	return slices.Min(values) == slices.Max(values)
}
