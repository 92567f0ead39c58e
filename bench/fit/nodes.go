package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

const (
	// mostNodes is up to how many nodes searches are replayed.
	mostNodes = 4
	// wallGoal is the share of the time on one node that two nodes take at most.
	wallGoal = 0.65
)

// replayOnNodes replays the searches on two and more nodes.
func (f *figures) replayOnNodes(r *replayed, searches, most int) error {
	f.onNodes = [][]replay{f.answered()}
	for n := 2; n <= most; n++ {
		var answers []replay
		for seed := range searches {
			rep, err := r.runOn(n, uint64(seed+1), nil, nil)
			if err != nil {
				return err
			}
			if rep.counts() && rep.Failure == "" {
				answers = append(answers, rep)
			}
		}
		f.onNodes = append(f.onNodes, answers)
	}
	return nil
}

func wallOf(r replay) float64 { return r.wall.Minutes() }

// shares are of the time that the search of the same seed takes on one node.
func (f figures) shares(replays []replay) []float64 {
	one := map[uint64]time.Duration{}
	for _, r := range f.onNodes[0] {
		one[r.seed] = r.wall
	}
	var out []float64
	for _, r := range replays {
		if alone := one[r.seed]; alone > 0 {
			out = append(out, r.wall.Seconds()/alone.Seconds())
		}
	}
	return out
}

// near is the share of answers that are within 5 % of the median on one node.
func (f figures) near(replays []replay) float64 {
	middle, n := results.Median(of(f.onNodes[0], limitOf)), 0
	for _, r := range replays {
		if math.Abs(limitOf(r)-middle) <= steadyWithin*middle {
			n++
		}
	}
	return float64(n) / float64(max(1, len(replays)))
}

// writeNodes tells how long searches take on several nodes, and what they answer.
func writeNodes(t *strings.Builder, all []figures) {
	t.WriteString("## On several nodes\n\nThe same searches with `--parallel N`: each trial takes as long as the recorded one that answers it, but a long run, and one with half the processors, as long as one of those that were recorded. " +
		"Nodes are alike, what a pod takes to start and to end is in no trial, and nothing else is made while a class archive is trained. The share is of the time on one node with the same seed: median (2.5 % … 97.5 %). " +
		"The goal on two nodes is a median of at most 0.65, and 19 of 20 answers within 5 % of the median on one. Apart is the largest difference between the distributions of answers on one node and on N (Kolmogorov and Smirnov), in brackets what chance exceeds in 5 % of all pairs: answers of more nodes are near those of one, but not distributed alike where it is larger.\n\n" +
		"| cell | nodes | searches | minutes | share of the time on one | answer | 2.5 % … 97.5 % | within 5 % of the median on one | same levers | apart | goal |\n|---|---:|---:|---|---|---:|---:|---:|---:|---|---|\n")
	for _, f := range all {
		alone := of(f.onNodes[0], limitOf)
		for i, replays := range f.onNodes {
			shares, limits, goal := f.shares(replays), of(replays, limitOf), ""
			if i == 1 {
				goal = results.Reached(results.Median(shares) <= wallGoal && f.near(replays) >= steadyShare)
			}
			fmt.Fprintf(t, "| %s | %d | %d | %s | %.3f (%.2f … %.2f) | %.0f | %.0f … %.0f | %.1f %% | %.1f %% | %.2f (%.2f) | %s |\n", f.cell, i+1, len(replays), results.Spread(of(replays, wallOf), "%.1f"),
				results.Median(shares), quantile(shares, 0.025), quantile(shares, 0.975), results.Median(limits), quantile(limits, 0.025), quantile(limits, 0.975),
				100*f.near(replays), 100*sameLevers(replays), distance(alone, limits), chanceApart(len(alone), len(limits)), goal)
		}
	}
	t.WriteString("\n")
}

// distance is the largest difference between the distributions of two samples.
func distance(a, b []float64) float64 {
	most := 0.0
	for _, v := range slices.Concat(a, b) {
		most = max(most, math.Abs(atMost(a, v)-atMost(b, v)))
	}
	return most
}

// chanceApart is the distance that two samples of one distribution exceed in 5 % of all
// cases.
func chanceApart(a, b int) float64 {
	return 1.358 * math.Sqrt(float64(a+b)/float64(max(1, a*b)))
}
