package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
)

// driftBins are the ends of the times between two trials that are told apart.
var driftBins = []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute}

// sameWork is how far apart the good answers of two trials may be whose costs are compared, and
// hardlyAgain the share of its processor time that pages which were read again may have cost one.
const sameWork, hardlyAgain = 0.1, 0.01

// pairs are differences of trials with the same options and memory enough.
type pairs struct {
	n       int
	squares float64
}

// deviation is the standard deviation of one of two trials, in logarithms.
func (p pairs) deviation() float64 { return math.Sqrt(p.squares / 2 / float64(p.n)) }

// driftOf is by how much the costs of the same work with the same options differ, over the pace
// of the machine, by the time between the trials.
func (r *replayed) driftOf() []pairs {
	out := make([]pairs, len(driftBins))
	for _, k := range r.order {
		for i, t := range k.trials {
			for _, o := range k.trials[:i] {
				a, b, alike := alikeCosts(t, o)
				if bin := binOf(t.Result.Time.Sub(o.Result.Time).Abs()); alike && bin < len(out) {
					out[bin].n++
					out[bin].squares += math.Pow(math.Log(a/b), 2)
				}
			}
		}
	}
	return out
}

func binOf(apart time.Duration) int {
	for i, end := range driftBins {
		if apart < end {
			return i
		}
	}
	return len(driftBins)
}

// alikeCosts are the costs of two trials with nothing that tells them apart but their time.
func alikeCosts(t, o recorded) (a, b float64, alike bool) {
	a, told := t.paced()
	b, also := o.paced()
	if !told || !also || !t.hardlyRead() || !o.hardlyRead() || math.Abs(math.Log(float64(t.Result.Load.OK)/float64(o.Result.Load.OK))) > sameWork {
		return 0, 0, false
	}
	for name, size := range t.sizes {
		if o.sizes[name] != size {
			return 0, 0, false
		}
	}
	fixed := t.sizes[heapSize] > 0
	return a, b, fixed || t.LimitBytes == o.LimitBytes
}

// hardlyRead says that a trial read hardly a page again.
func (t recorded) hardlyRead() bool {
	return (candidate{recorded: t}).roomy() && float64(t.Result.RefaultBytes)/fit.PageBytes*toldAgain.Seconds() <= hardlyAgain*t.Result.LoadCPUTime.Seconds()
}

// writeDrift tells how the machine drifts.
func writeDrift(t *strings.Builder, all []figures) {
	t.WriteString("## How far the machine drifts\n\nThe standard deviation of what the same work costs in processor time with the same options and memory enough, over the pace of the machine (a fixed loop that runs beside), by the minutes between two trials; in brackets the pairs of trials. " +
		"A bank of which no trial had that loop tells nothing. Where two that were made soon after each other differ by less, the machine drifts by more than the loop takes out; the search takes it to (internal/fit/regression.go).\n\n| cell |")
	from := time.Duration(0)
	for _, end := range driftBins {
		fmt.Fprintf(t, " %.0f … %.0f min |", from.Minutes(), end.Minutes())
		from = end
	}
	t.WriteString("\n|---" + strings.Repeat("|---", len(driftBins)) + "|\n")
	for _, f := range all {
		fmt.Fprintf(t, "| %s |", f.cell)
		for _, p := range f.drift {
			if p.n == 0 {
				t.WriteString(" |")
				continue
			}
			fmt.Fprintf(t, " %.3f (%d) |", p.deviation(), p.n)
		}
		t.WriteString("\n")
	}
	t.WriteString("\n")
}
