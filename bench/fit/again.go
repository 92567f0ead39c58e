package main

import (
	"fmt"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
)

// toldAgain is the processor time for a page at which those that a trial read again would
// have taken all that its load did: with fewer pages the difference of two runs is as large
// as what the pages cost.
const toldAgain = 100 * time.Microsecond

// againOf is what pages cost that were read again, in microseconds of a processor each: what
// the work of a trial cost more than on the mean of those like it that read none again, at the
// same pace of the machine.
func (r *replayed) againOf() (micros []float64) {
	for _, k := range r.order {
		room, with := 0.0, 0
		for _, t := range k.trials {
			if cost, told := t.paced(); told && t.Result.RefaultBytes == 0 {
				room, with = room+cost, with+1
			}
		}
		for _, t := range k.trials {
			pages := float64(t.Result.RefaultBytes) / fit.PageBytes
			cost, told := t.paced()
			if with == 0 || !told || pages*toldAgain.Seconds() < t.Result.LoadCPUTime.Seconds() {
				continue
			}
			micros = append(micros, 1e6*(cost-room/float64(with))*float64(t.Result.Load.OK)/pages)
		}
	}
	return micros
}

// paced is the processor time of a good answer in seconds, on a machine of the usual pace.
func (t recorded) paced() (seconds float64, told bool) {
	cost, told := t.Result.AnswerCost()
	if !told || t.Result.Pace <= 0 {
		return 0, false
	}
	return cost.Seconds() / (t.Result.Pace.Seconds() * 1000), true
}

// writeAgain tells what pages cost that were read again.
func writeAgain(t *strings.Builder, all []figures) {
	fmt.Fprintf(t, "## What a page that is read again costs\n\nMicroseconds of a processor for each page of 4 KiB that was read again after it had been dropped: what the work cost more than in trials of the same options that read none again, over the pages; median (least … most). "+
		"It is of trials that read so many again that at %d µs each they would have taken all of the processor time. Of a limit `tare fit` believes no more than %d µs a page (internal/fit/limitcost.go).\n\n| cell | trials | µs of a page |\n|---|---:|---|\n", toldAgain.Microseconds(), fit.DearestPage.Microseconds())
	for _, f := range all {
		fmt.Fprintf(t, "| %s | %d | %s |\n", f.cell, len(f.again), results.Spread(f.again, "%.0f"))
	}
	t.WriteString("\n")
}
