package fit

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tare.dev/tare/internal/footprint"
)

// Result is the end of a fit.
type Result struct {
	Found
	Time time.Time
	Took time.Duration
	// Config is what the fit was of.
	Config Record
	// RunnerName is the runner's Name.
	RunnerName string
	Machine    Machine
	// Peak is the footprint of the confirming run that used most.
	Peak *footprint.Footprint
	// Archive is the class archive that the recommendation uses, and
	// TrainOption the option that makes it; empty without one.
	Archive, TrainOption string
	// UnpaidBytes is the most that a confirming run did not pay for; see
	// trial.Result.
	UnpaidBytes int64
	Warnings    []string
}

// OptionsByVariable says that options go by JAVA_TOOL_OPTIONS: a script starts the JVM, or a JVM
// another one.
func (r *Result) OptionsByVariable() bool { return r.ByVariable || !r.Config.Command.IsJava() }

// Recommends says that a point's options are the recommendation; raised is that the proof gave
// them a larger heap since.
func (r *Result) Recommends(p FrontierPoint) (recommended, raised bool) {
	if r.LimitBytes == 0 {
		return false, false
	}
	raised = slices.Contains(p.PickedBy, cmp.Or(r.Config.Prefer, PreferMemory)) &&
		p.Setup.heapBytes() < r.Setup.heapBytes() && p.Setup.withoutHeap().Same(r.Setup.withoutHeap())
	return raised || p.Setup.Same(r.Setup), raised
}

// Ended tells whether a fit that returned err came to its end, with an answer or
// without one; else it was cut off.
func Ended(err error) bool {
	var baseline *BaselineError
	var unconfirmed *UnconfirmedError
	var budget *BudgetError
	var otherJava *OtherJavaError
	return err == nil || errors.Is(err, ErrNoJVM) || errors.As(err, &otherJava) || errors.As(err, &baseline) || errors.As(err, &unconfirmed) || errors.As(err, &budget)
}

// peakOf is the footprint of the run with the highest usage.
func peakOf(runs []Trial) *footprint.Footprint {
	var most int64
	var f *footprint.Footprint
	for _, t := range runs {
		if t.Result != nil && t.Result.Peak != nil && t.PeakBytes > most {
			most, f = t.PeakBytes, t.Result.Peak
		}
	}
	return f
}

// unpaid is the most that a run did not pay for.
func unpaid(runs []Trial) int64 {
	var most int64
	for _, t := range runs {
		if t.Result != nil {
			most = max(most, t.Result.UnpaidBytes)
		}
	}
	return most
}
