package plot

import (
	"math"
	"strings"
	"time"
)

// maxTime bounds the times that are drawn, in seconds: some three thousand years
// from 1970.
const maxTime = 1e11

// drawn says that a value can be drawn on the axis.
func (a Axis) drawn(v float64) bool {
	if a.Zone != nil {
		return math.Abs(v) <= maxTime
	}
	return isFinite(v)
}

// value is a value of the axis in words, without its unit.
func (a Axis) value(v float64) string {
	if a.Zone != nil {
		return unix(v, a.Zone).Format(time.DateTime)
	}
	return short(v)
}

// label names the axis; that of time has the days too, which its ticks may
// lack.
func (a Axis) label(s scale) string {
	if a.Zone == nil {
		return a.Label
	}
	first, last := unix(s.lo, a.Zone), unix(s.hi, a.Zone)
	days := first.Format(time.DateOnly)
	if d := last.Format(time.DateOnly); d != days {
		days += " to " + d
	}
	return strings.TrimSpace(a.Label + " " + days + ", " + first.Format("MST"))
}

func unix(seconds float64, zone *time.Location) time.Time {
	whole := math.Floor(seconds)
	return time.Unix(int64(whole), int64((seconds-whole)*1e9)).In(zone)
}

// calendarStep is a distance between ticks of time: so many seconds, days or
// months.
type calendarStep struct {
	seconds, days, months int
	format                string
}

const day = 24 * 60 * 60

// length is about how many seconds a step takes.
func (s calendarStep) length() float64 {
	return float64(s.seconds) + day*(float64(s.days)+30.4*float64(s.months))
}

// calendarSteps are the distances that people read easily, smallest first.
var calendarSteps = func() []calendarStep {
	var out []calendarStep
	for _, s := range []int{1, 2, 5, 10, 15, 30} {
		out = append(out, calendarStep{seconds: s, format: time.TimeOnly})
	}
	for _, m := range []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720} {
		out = append(out, calendarStep{seconds: 60 * m, format: "15:04"})
	}
	for _, d := range []int{1, 2, 7, 14} {
		out = append(out, calendarStep{days: d, format: "2 Jan"})
	}
	for _, m := range []int{1, 2, 3, 6} {
		out = append(out, calendarStep{months: m, format: "Jan 2006"})
	}
	for _, y := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		out = append(out, calendarStep{months: 12 * y, format: "2006"})
	}
	return out
}()

// newTimeScale covers values, and has at most about n ticks at round times.
func newTimeScale(values []float64, zone *time.Location, n int) scale {
	var s scale
	for i, v := range values {
		if i == 0 {
			s.lo, s.hi = v, v
		}
		s.lo, s.hi = min(s.lo, v), max(s.hi, v)
	}
	if s.hi-s.lo < 1 {
		s.lo, s.hi = math.Floor(s.lo)-1, math.Floor(s.lo)+1
	}
	step := calendarSteps[len(calendarSteps)-1]
	for _, c := range calendarSteps {
		if (s.hi-s.lo)/c.length() <= float64(max(n, 2)) {
			step = c
			break
		}
	}
	end := unix(s.hi, zone)
	for t := step.floor(unix(s.lo, zone)); !t.After(end); t = step.after(t) {
		if at := float64(t.Unix()); at >= s.lo {
			s.named = append(s.named, Mark{at, step.name(t)})
		}
	}
	return s
}

// name is what a tick is called: midnight by its day.
func (s calendarStep) name(t time.Time) string {
	if s.seconds > 0 && t.Hour() == 0 && t.Minute() == 0 && t.Second() == 0 {
		return t.Format("2 Jan")
	}
	return t.Format(s.format)
}

// floor is the last tick that is not after t.
func (s calendarStep) floor(t time.Time) time.Time {
	y, m, d := t.Date()
	switch {
	case s.months > 0:
		months := 12*y + int(m) - 1
		return time.Date(0, time.Month(months-months%s.months+1), 1, 0, 0, 0, 0, t.Location())
	case s.days > 0:
		return time.Date(y, m, d-(d-1)%s.days, 0, 0, 0, 0, t.Location())
	}
	return t.Truncate(time.Second).Add(-s.into(t))
}

// into is how long ago the last tick was by the clock on the wall.
func (s calendarStep) into(t time.Time) time.Duration {
	_, offset := t.Zone()
	step := int64(s.seconds)
	return time.Duration(((t.Unix()+int64(offset))%step+step)%step) * time.Second
}

// after is the next tick, at a round time again where the clock was changed.
func (s calendarStep) after(t time.Time) time.Time {
	switch {
	case s.months > 0:
		return t.AddDate(0, s.months, 0)
	case s.days > 0:
		next := t.AddDate(0, 0, s.days)
		if next.Month() != t.Month() { // each month begins anew
			return time.Date(next.Year(), next.Month(), 1, 0, 0, 0, 0, t.Location())
		}
		return next
	}
	next := t.Add(time.Duration(s.seconds) * time.Second)
	if into := s.into(next); into > 0 { // the clock was changed
		next = next.Add(time.Duration(s.seconds)*time.Second - into)
	}
	return next
}
