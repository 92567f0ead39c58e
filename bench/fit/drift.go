package main

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// driftBins are the ends of the times between two trials that are told apart.
var driftBins = []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 4 * time.Hour}

// hardlyAgain is the share of its processor time that pages which were read again may have cost
// a trial.
const hardlyAgain = 0.01

// pairs are differences of trials with the same options and memory enough: over the pace of
// their machine, and as they are.
type pairs struct {
	n              int
	squares, asAre float64
	// paces is the sum of squares of the differences of the pace, and both that of their products
	// with those of the costs as they are.
	paces, both float64
}

// felt is what of the difference of the pace shows in the costs, by least squares.
func felt(bins []pairs) (share float64, told bool) {
	var all pairs
	for _, p := range bins {
		all.paces, all.both = all.paces+p.paces, all.both+p.both
	}
	return all.both / all.paces, all.paces > 0
}

// deviation is the standard deviation of one of two trials, in logarithms.
func (p pairs) deviation(squares float64) float64 { return math.Sqrt(squares / 2 / float64(p.n)) }

// driftOf is by how much the costs of the same work with the same options differ, over the pace
// of the machine, by the time between the trials.
func (r *replayed) driftOf() []pairs {
	out := make([]pairs, len(driftBins))
	for _, k := range r.order {
		for i, t := range k.trials {
			for _, o := range k.trials[:i] {
				ratio, alike := alikeCosts(t, o)
				if bin := binOf(t.Result.Time.Sub(o.Result.Time).Abs()); alike && bin < len(out) {
					slower := math.Log(t.Result.Pace.Seconds() / o.Result.Pace.Seconds())
					over, asIs := math.Log(ratio), math.Log(ratio)+slower
					p := &out[bin]
					p.n++
					p.squares, p.asAre = p.squares+over*over, p.asAre+asIs*asIs
					p.paces, p.both = p.paces+slower*slower, p.both+slower*asIs
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

// alikeCosts is the ratio of the costs of two trials with nothing that tells them apart but their
// time.
func alikeCosts(t, o recorded) (ratio float64, alike bool) {
	ratio, alike = trial.CostRatio(o.Result, t.Result)
	sameHeap := t.sizes[heapSize] > 0 || t.LimitBytes == o.LimitBytes
	return ratio, alike && sameHeap && maps.Equal(t.sizes, o.sizes) && t.hardlyRead() && o.hardlyRead()
}

// hardlyRead says that a trial knew the pace of its machine, and read hardly a page again.
func (t recorded) hardlyRead() bool {
	return t.Result.Pace > 0 && (candidate{recorded: t}).roomy() && float64(t.Result.RefaultBytes)/fit.PageBytes*toldAgain.Seconds() <= hardlyAgain*t.Result.LoadCPUTime.Seconds()
}

// writeDrift tells how the machine drifts.
func writeDrift(t *strings.Builder, all []figures) {
	t.WriteString("## How far the machine drifts\n\nThe standard deviation of what the same work costs in processor time with the same options and memory enough, over the pace of the machine (that of a fixed piece of work beside each trial, see Banks), by the minutes between two trials, then what it is without that; in brackets the pairs of trials. " +
		"A bank of which no trial knew a pace tells nothing. Where two that were made soon after each other differ by less, the machine drifts by more than its pace tells; the search takes it to (internal/fit/regression.go). Felt is what of the differences of the pace shows in those of the costs, by least squares over all pairs.\n\n| cell |")
	from := time.Duration(0)
	for _, end := range driftBins {
		fmt.Fprintf(t, " %.0f … %.0f min |", from.Minutes(), end.Minutes())
		from = end
	}
	t.WriteString(" felt |\n|---" + strings.Repeat("|---", len(driftBins)) + "|---:|\n")
	for _, f := range all {
		fmt.Fprintf(t, "| %s |", f.cell)
		for _, p := range f.drift {
			if p.n == 0 {
				t.WriteString(" |")
				continue
			}
			fmt.Fprintf(t, " %.3f, %.3f without (%d) |", p.deviation(p.squares), p.deviation(p.asAre), p.n)
		}
		if share, told := felt(f.drift); told {
			fmt.Fprintf(t, " %.2f", share)
		}
		t.WriteString(" |\n")
	}
	t.WriteString("\n")
}
