package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/internal/testkit/results"
)

// toldSlope is how many runs at a limit must have waited for memory for it to tell.
const toldSlope = 3

// waits are how long the runs of one limit waited for memory, on the average (geometric, as a
// share of the time).
type waits struct {
	limit  int64
	share  float64
	runs   int
	number int // of which waited
}

// waitsOf are the limits at which runs with what tare recommends waited, the smallest first.
func (b *bench) waitsOf(c cell) []waits {
	found := b.found(c, wayTare)
	if found == nil {
		return nil
	}
	at := map[int64]*waits{}
	for _, s := range []stage{freshly, proving, below} {
		for _, r := range b.of(c, wayTare, s) {
			if !slices.Equal(r.Options, found.Options) {
				continue
			}
			w := at[r.LimitBytes]
			if w == nil {
				w = &waits{limit: r.LimitBytes}
				at[r.LimitBytes] = w
			}
			if w.runs++; r.Waited > 0 {
				w.share, w.number = w.share+math.Log(r.Waited), w.number+1
			}
		}
	}
	var out []waits
	for _, w := range at {
		if w.number >= toldSlope {
			w.share = math.Exp(w.share / float64(w.number))
			out = append(out, *w)
		}
	}
	slices.SortFunc(out, func(a, b waits) int { return int(a.limit - b.limit) })
	return out
}

// slope is that of the logarithm of the limit over the logarithm of the share, negated, from
// the first to the last.
func slope(all []waits) float64 {
	low, high := all[0], all[len(all)-1]
	return math.Log(float64(high.limit)/float64(low.limit)) / math.Log(low.share/high.share)
}

// slopeText tells how fast waiting for memory rises as the limit falls.
func (b *bench) slopeText(t *strings.Builder) {
	var lines []string
	var slopes []float64
	for _, c := range b.cells() {
		all := b.waitsOf(c)
		if len(all) < 2 || all[0].share <= all[len(all)-1].share {
			continue
		}
		var told []string
		for _, w := range all {
			told = append(told, fmt.Sprintf("%d: %.3f (%d of %d)", w.limit/mib, w.share, w.number, w.runs))
		}
		slopes = append(slopes, slope(all))
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %.3f |\n", c.App, c.Shape, strings.Join(told, ", "), slope(all)))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## How fast waiting rises\n\nThe share of the time that waiting for memory took of fresh runs, by their limit in MiB: the geometric mean, and how many runs it is of. The slope is that of the logarithm of the limit over the logarithm of the share, negated: with 0.08 a limit that is 6 %% smaller has twice the waiting. Applications whose runs were made before the share was noted are left out. "+
		"`tare fit` takes one for granted until its own trials tell (internal/fit/need.go). Over all: %s.\n\n| application | shape | waiting at a limit | slope |\n|---|---|---|---:|\n%s", results.Spread(slopes, "%.3f"), strings.Join(lines, ""))
}
