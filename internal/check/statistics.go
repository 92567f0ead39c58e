package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

const (
	// alpha is the chance of one false accusation among all bounds of a look, and of one
	// false repetition among those accused.
	alpha = 0.02
	// confidence is that of the intervals that are shown, and that a pass rests on.
	confidence = 0.95
)

// Interval is an estimate and its 95 % interval.
type Interval struct {
	Center float64 `json:"center"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Width is that of the interval.
func (i Interval) Width() float64 { return i.High - i.Low }

// estimate is a mean, or a difference of two, that is distributed by Student's t.
type estimate struct {
	center, deviation, freedom float64
}

// meanOf is the mean of some runs; false of fewer than two.
func meanOf(values []float64) (estimate, bool) {
	n := float64(len(values))
	if n < 2 {
		return estimate{}, false
	}
	m, v := moments(values)
	return estimate{m, math.Sqrt(v / n), n - 1}, true
}

// difference is how much more the mean of b is than that of a, with the degrees of freedom
// of Welch ("The generalization of 'Student's' problem when several different population
// variances are involved", 1947): the two need not spread alike.
func difference(a, b []float64) (estimate, bool) {
	is, ok := meanOf(b)
	was, also := meanOf(a)
	if !ok || !also {
		return estimate{}, false
	}
	v, w := is.deviation*is.deviation, was.deviation*was.deviation
	e := estimate{center: is.center - was.center, deviation: math.Sqrt(v + w), freedom: 1}
	if v+w > 0 {
		e.freedom = (v + w) * (v + w) / (v*v/is.freedom + w*w/was.freedom)
	}
	return e, true
}

func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(values)-1)
}

// interval is the interval of 95 %.
func (e estimate) interval() Interval {
	reach := 0.0
	if e.deviation > 0 {
		reach = e.deviation * stats.InvCDF(stats.TDist{V: e.freedom})(1-(1-confidence)/2)
	}
	return Interval{e.center, e.center - reach, e.center + reach}
}

// above is the probability of such runs by chance where the truth is at most so much.
func (e estimate) above(limit float64) float64 {
	if e.deviation == 0 {
		if e.center > limit {
			return 0
		}
		return 1
	}
	return 1 - stats.TDist{V: e.freedom}.CDF((e.center-limit)/e.deviation)
}

// holm are the probabilities corrected for how many there are (Holm, "A simple sequentially
// rejective multiple test procedure", 1979): at most alpha where all of a family that were
// rejected hold with a chance of alpha or less.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(p)-rank)*p[i]))
		out[i] = least
	}
	return out
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
