package plot

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// scale maps values to shares of an axis. An even one has ticks at its ends;
// others have marks with names.
type scale struct {
	lo, hi, step float64
	named        []Mark
	logarithmic  bool
}

func (a Axis) scale(values []float64, n int) scale {
	if a.Zone != nil {
		return newTimeScale(values, a.Zone, n)
	}
	var named []Mark
	for _, m := range a.Marks {
		if m.At >= 1/maxValue && isFinite(m.At) {
			named = append(named, m)
		}
	}
	if len(named) < 2 {
		return newScale(values, a.Loose, n)
	}
	slices.SortFunc(named, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	s := scale{lo: named[0].At, hi: named[len(named)-1].At, named: named, logarithmic: true}
	for _, v := range values {
		if v >= 1/maxValue {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.hi/s.lo < 1+1e-9 {
		return newScale(values, a.Loose, n)
	}
	// Room for the names at the ends.
	room := math.Pow(s.hi/s.lo, 0.04)
	s.lo, s.hi = s.lo/room, s.hi*room
	return s
}

// marks are the ticks with their names.
func (s scale) marks() []Mark {
	if s.named != nil {
		return s.named
	}
	var out []Mark
	for _, t := range s.ticks() {
		out = append(out, Mark{t, s.format(t)})
	}
	return out
}

// newScale covers values with about n ticks; it starts at zero unless loose.
func newScale(values []float64, loose bool, n int) scale {
	lo, hi := 0.0, 0.0
	for i, v := range values {
		if i == 0 && loose {
			lo, hi = v, v
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	if hi-lo < math.Max(math.Abs(hi), math.Abs(lo))*1e-9 || hi == lo {
		hi = lo + math.Max(1, math.Abs(lo)*0.1)
	}
	step := niceStep((hi - lo) / float64(max(n, 2)))
	return scale{lo: math.Floor(lo/step+1e-9) * step, hi: math.Ceil(hi/step-1e-9) * step, step: step}
}

// niceStep is the least of 1, 2, 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// share is where a value lies, 0 to 1 within the scale.
func (s scale) share(v float64) float64 {
	if s.logarithmic {
		return min(1, max(0, math.Log(max(v, s.lo)/s.lo)/math.Log(s.hi/s.lo)))
	}
	return (v - s.lo) / (s.hi - s.lo)
}

func (s scale) ticks() []float64 {
	n := int(math.Round((s.hi - s.lo) / s.step))
	out := make([]float64, 0, n+1)
	for i := range n + 1 {
		out = append(out, s.lo+float64(i)*s.step)
	}
	return out
}

// format writes a tick with the digits that its step has.
func (s scale) format(v float64) string {
	digits := max(0, int(math.Ceil(-math.Log10(s.step)-1e-9)))
	if math.Abs(v) < s.step/2 {
		v = 0 // and no -0
	}
	return strconv.FormatFloat(v, 'f', min(digits, 12), 64)
}
