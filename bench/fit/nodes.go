package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
)

// The wall time of a search on several nodes is replayed, too: a trial takes as long as it
// took when it was recorded, and places run them at the same time. A long run, and one with
// half the processors, take as long as one of those that were recorded.

// wall is a clock that goes by what trials took: the lanes of a search on several nodes.
type wall struct {
	*replayer
	lengths *rand.Rand // of its own, so that draws of trials are as without it
	now     time.Duration
	at      []underWay // by place
	pools   map[int]pool
}

// underWay is a trial at a place; nil context is none.
type underWay struct {
	ctx     context.Context
	ends    time.Duration
	outcome fit.Outcome
}

// length is how long a trial takes.
func (w *wall) length(a fit.Attempt, o fit.Outcome) time.Duration {
	if a.Phase == fit.PhaseLong || a.Phase == fit.PhaseHalf {
		var took []time.Duration
		for _, m := range w.trials {
			if m.Phase == a.Phase {
				took = append(took, m.Result.Took)
			}
		}
		if len(took) > 0 {
			return took[w.lengths.IntN(len(took))]
		}
	}
	return o.Took
}

// Try makes a trial while nothing else happens.
func (w *wall) Try(ctx context.Context, a fit.Attempt) (fit.Outcome, error) {
	o, err := w.replayer.Try(ctx, a)
	w.now += w.length(a, o)
	return o, err
}

// Begin draws a trial, and foresees its end.
func (w *wall) Begin(ctx context.Context, place int, a fit.Attempt) {
	o, p := w.drawn(a)
	w.pools[a.Ahead] = p
	w.at[place] = underWay{ctx, w.now + w.length(a, o), o}
}

// File counts a trial that was asked for.
func (w *wall) File(ahead int, a fit.Attempt, _ *fit.Outcome) error {
	w.answered(a, w.pools[ahead])
	return nil
}

// Discard forgets one that was not.
func (w *wall) Discard(ahead int) { delete(w.pools, ahead) }

// End is that of a trial that was dropped, at once, or else the next one.
func (w *wall) End() fit.Finish {
	next := -1
	for i, u := range w.at {
		switch {
		case u.ctx == nil:
		case u.ctx.Err() != nil:
			w.at[i] = underWay{}
			return fit.Finish{Place: i, Err: u.ctx.Err()}
		case next < 0 || u.ends < w.at[next].ends:
			next = i
		}
	}
	u := w.at[next]
	w.now, w.at[next] = u.ends, underWay{}
	return fit.Finish{Place: next, Outcome: u.outcome}
}

// on is a Trier that makes a search's trials on so many nodes.
func (w *wall) on(nodes int) fit.Trier {
	if nodes < 2 {
		return w
	}
	w.at, w.pools = make([]underWay, nodes), map[int]pool{}
	var places []fit.Place
	for i := range nodes {
		places = append(places, fit.Place{Node: fmt.Sprintf("node%d", i+1), Trier: w})
	}
	return fit.NewPlaces(places, w, func(error) bool { return false }, nil)
}

// mostNodes is up to how many nodes searches are replayed.
const mostNodes = 4

// wallOf is the time of a replay.
func wallOf(r replay) float64 { return r.wall.Minutes() }

// writeNodes tells how long searches take on several nodes, and what they answer.
func writeNodes(t *strings.Builder, all []figures) {
	t.WriteString("## On several nodes\n\nThe same searches with `--parallel N`: each trial takes as long as the recorded one that answers it, a long run and one with half the processors as long as one of those that were recorded, and nodes are alike. What a pod takes to start and to end is in no trial. " +
		"The share is of the time on one node with the same seed; the goal on two nodes is a median of at most 0.65 with the same answer. Apart is the largest difference between the distributions of the answers on one node and on N (Kolmogorov and Smirnov), in brackets the one that chance exceeds in 5 % of such pairs.\n\n" +
		"| cell | nodes | searches | minutes | share of the time on one node | answer | 2.5 % … 97.5 % | within 5 % of the median on one | same levers | apart |\n|---|---:|---:|---|---|---:|---:|---:|---:|---|\n")
	for _, f := range all {
		one := map[uint64]replay{}
		for _, r := range f.answered() {
			one[r.seed] = r
		}
		alone := of(f.answered(), limitOf)
		for n := 1; n <= mostNodes; n++ {
			replays := f.answered()
			if n > 1 {
				replays = f.onNodes[n]
			}
			var shares []float64
			for _, r := range replays {
				if o, ok := one[r.seed]; ok && o.wall > 0 {
					shares = append(shares, r.wall.Seconds()/o.wall.Seconds())
				}
			}
			limits := of(replays, limitOf)
			middle, near := results.Median(alone), 0
			for _, l := range limits {
				if math.Abs(l-middle) <= steadyWithin*middle {
					near++
				}
			}
			fmt.Fprintf(t, "| %s | %d | %d | %s | %.3f (%.3f … %.3f) | %.0f | %.0f … %.0f | %.1f %% | %.1f %% | %.3f (%.3f) |\n", f.cell, n, len(replays), results.Spread(of(replays, wallOf), "%.1f"),
				results.Median(shares), quantile(shares, 0.025), quantile(shares, 0.975), results.Median(limits), quantile(limits, 0.025), quantile(limits, 0.975),
				100*float64(near)/float64(max(1, len(limits))), 100*sameLevers(replays), apartOf(alone, limits), chanceApart(len(alone), len(limits)))
		}
	}
	t.WriteString("\n")
}

// apartOf is the largest difference between the distributions of two samples.
func apartOf(a, b []float64) float64 {
	share := func(of []float64, most float64) float64 { return atMost(of, most) }
	var most float64
	for _, v := range a {
		most = max(most, math.Abs(share(a, v)-share(b, v)))
	}
	for _, v := range b {
		most = max(most, math.Abs(share(a, v)-share(b, v)))
	}
	return most
}

// chanceApart is the difference that two samples of one distribution exceed in 5 % of all
// cases.
func chanceApart(a, b int) float64 {
	return 1.358 * math.Sqrt(float64(a+b)/float64(max(1, a*b)))
}
