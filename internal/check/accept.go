package check

import (
	"errors"
	"fmt"
	"math"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/lab"
)

// ErrNothing says that a result has nothing to accept.
var ErrNothing = errors.New("nothing to accept")

// Accept is the change of the budget with which the failed bounds of a result hold. The
// error wraps ErrNothing where none failed, or where a build or a run did.
func (r *Result) Accept(reason string, now time.Time) (budget.Change, error) {
	c := budget.Change{Acceptance: budget.Acceptance{Date: now.UTC().Format(time.DateOnly), Reason: reason}, Most: map[string]lab.Scalar{}}
	if r.Verdict == Broken {
		return c, fmt.Errorf("%w: the check was broken: %s", ErrNothing, r.Error)
	}
	for _, f := range r.Findings {
		switch {
		case f.Verdict != Failed:
		case f.Growth:
			if c.Growth == nil {
				c.Growth = map[string]lab.Scalar{}
			}
			before := f.Limit - f.Resolution
			c.Growth[f.Measure] = amount(max(f.Value.Center, f.Value.High-f.Resolution)-before, lab.Unit(f.Unit))
		default:
			c.Most[f.Measure] = amount(f.Value.High, lab.Unit(f.Unit))
		}
	}
	if len(c.Growth)+len(c.Most) == 0 {
		return c, fmt.Errorf("%w: no bound failed, the verdict is %q", ErrNothing, r.Verdict)
	}
	return c, nil
}

// amount writes an amount as a budget does, rounded up.
func amount(v float64, u lab.Unit) lab.Scalar {
	switch {
	case u == lab.Bytes && v >= 1<<20:
		return lab.Scalar(fmt.Sprintf("%.1fMiB", math.Ceil(v/(1<<20)*10)/10))
	case u == lab.Seconds:
		return lab.Scalar(fmt.Sprintf("%.2fs", math.Ceil(v*100)/100))
	case u == lab.Number: // of any size, three digits of it
		step := math.Pow(10, math.Floor(math.Log10(max(v, 1e-9)))-2)
		return lab.Scalar(fmt.Sprintf("%.4g", math.Ceil(v/step)*step))
	}
	return lab.Scalar(fmt.Sprintf("%.0f", math.Ceil(v)))
}
