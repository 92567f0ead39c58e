package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
	"tare.dev/tare/internal/trial"
)

// figures are what the replays of a bank say of the search.
type figures struct {
	cell    cell
	head    head
	trials  int // recorded
	others  []float64
	real    []answer
	replays []replay // that count
	// drawn is how many trials each of theirs was drawn from.
	drawn []float64
	// modelled are those that do not: the model answered too much of them.
	modelled []replay
	// unanswered are those without a limit, by what they said.
	unanswered map[string]int
	truth      truth
	// again is what pages cost that were read again, in microseconds, by each trial that tells.
	again []float64
	// drift is how far trials of the same options are apart, by the time between them.
	drift []pairs
	// preferences are the figures of searches by what they prefer; none where they were not
	// replayed.
	preferences []figures
	prefer      fit.Prefer
	// onNodes are the answers on one node, two and so on, where they were replayed.
	onNodes [][]replay
}

// truth is what the recorded trials say of the answers.
type truth struct {
	// over is each answer's limit over the smallest that passes with its setup: the least
	// above which no recorded trial was failed by memory.
	over []float64
	// fails and runs are recorded trials within a step of the ladder of each answer's
	// limit, summed over the answers: by fails over runs a fresh run fails by memory.
	// Below are the searches' own runs at 0.9 of the answer, less what was not touched of the heap.
	fails, runs float64
	// cost is what the work costs with each answer's options over what it costs as given, by
	// the recorded trials of both that had room.
	cost                                []float64
	failsBelow, pressedBelow, runsBelow float64
	// least is the fewest trials that one answer's share is of, untold how many answers
	// have none.
	least, untold int
}

// figuresOf replays so many searches, of seeds from 1.
func figuresOf(r *replayed, searches int) (figures, error) {
	f := figures{cell: r.head.Cell, head: r.head, trials: len(r.trials), real: r.answers, unanswered: map[string]int{}, prefer: r.prefer, again: r.againOf(), drift: r.driftOf()}
	for _, m := range r.trials {
		if m.Result.Load != nil && !m.Result.Ended {
			f.others = append(f.others, m.Result.Others)
		}
	}
	for seed := range searches {
		rep, err := r.run(uint64(seed+1), nil, nil)
		if err != nil {
			return f, err
		}
		if !rep.counts() {
			f.modelled = append(f.modelled, rep)
			continue
		}
		f.replays, f.drawn = append(f.replays, rep), append(f.drawn, rep.pools...)
		if rep.Failure != "" {
			f.unanswered[failureKind(rep.Failure)]++
		}
	}
	f.truth = r.truthOf(f.answered())
	return f, nil
}

// preferencesOf replays so many searches of each preference.
func preferencesOf(r *replayed, searches int) ([]figures, error) {
	var out []figures
	for _, prefer := range fit.Preferences {
		other := *r
		other.prefer = prefer
		f, err := figuresOf(&other, searches)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// failureKind is a failure without its numbers.
func failureKind(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, text)
}

func (f figures) answered() []replay {
	return slices.DeleteFunc(slices.Clone(f.replays), func(r replay) bool { return r.Failure != "" })
}

// truthOf compares answers with the trials that were recorded with their setups.
func (r *replayed) truthOf(answers []replay) truth {
	type known struct {
		smallest    int64
		runs, fails int
		cost        float64
	}
	cache := map[string]known{}
	t := truth{least: math.MaxInt}
	for _, a := range answers {
		if a.below {
			t.runsBelow++
		}
		if a.failedBelow {
			t.failsBelow++
		}
		if a.pressedBelow {
			t.pressedBelow++
		}
		key := fmt.Sprintf("%q %q %v %d", a.Setup.Options, a.Setup.Env, a.Setup.Jar, a.LimitBytes)
		k, ok := cache[key]
		if !ok {
			all, fails := r.near(a.Setup, a.LimitBytes, ladderStep)
			k = known{r.smallest(a.Setup), len(all), fails, r.costOf(a.Setup) / r.costOf(fit.Setup{})}
			cache[key] = k
		}
		if k.cost > 0 {
			t.cost = append(t.cost, k.cost)
		}
		if k.runs == 0 || k.smallest == 0 {
			t.untold++
			continue
		}
		t.least = min(t.least, k.runs)
		t.over = append(t.over, float64(a.LimitBytes)/float64(k.smallest))
		t.fails, t.runs = t.fails+float64(k.fails)/float64(k.runs), t.runs+1
	}
	return t
}

// smallest is the least recorded limit of a setup above all those that memory failed; 0
// where none failed or none passed, or the bank has no such setup.
func (r *replayed) smallest(s fit.Setup) int64 {
	all, modelled := r.candidates(s)
	if modelled {
		return 0
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.at, a.at) })
	least, failing := int64(0), false
	for i := 0; i < len(all) && !failing; i++ {
		if failing = r.lacked(all[i].Result); !failing {
			least = all[i].at
		}
	}
	if !failing {
		return 0
	}
	return least
}

// costOf is the geometric mean of what the work cost in the recorded trials of a setup that
// had room, over what it cost in one baseline; 0 where there is none.
func (r *replayed) costOf(s fit.Setup) float64 {
	all, modelled := r.candidates(s)
	sum, n := 0.0, 0.0
	for _, c := range all {
		ratio, known := trial.CostRatio(r.bank.baseline().Result, c.Result)
		if roomy := c.Phase == fit.PhaseBaseline || c.Phase == fit.PhaseLever; known && roomy && c.enough() {
			sum, n = sum+math.Log(ratio), n+1
		}
	}
	if n == 0 || modelled {
		return 0
	}
	return math.Exp(sum / n)
}

// lacked says that memory failed a recorded trial: by such a verdict, or since waiting for
// memory took all that it may.
func (r *replayed) lacked(res *trial.Result) bool {
	return failedByMemory(res) || res.ReclaimShare >= fit.MayWait(r.slo.Spare())
}

// within is the share of limits that are within a share of their median.
func within(limits []float64, share float64) float64 {
	if len(limits) == 0 {
		return 0
	}
	middle, n := results.Median(limits), 0
	for _, l := range limits {
		if math.Abs(l-middle) <= share*middle {
			n++
		}
	}
	return float64(n) / float64(len(limits))
}

// of are values of replays.
func of(replays []replay, value func(replay) float64) []float64 {
	var out []float64
	for _, r := range replays {
		out = append(out, value(r))
	}
	return out
}

func limitOf(r replay) float64   { return float64(r.LimitBytes) / mib }
func givenOf(r replay) float64   { return float64(r.AsGivenBytes) / mib }
func searchOf(r replay) float64  { return float64(r.Search) }
func proofOf(r replay) float64   { return float64(r.Proof) }
func minutesOf(r replay) float64 { return r.Took.Minutes() }

// atMost is the share of values that are.
func atMost(values []float64, most float64) float64 {
	n := 0
	for _, v := range values {
		if v <= most {
			n++
		}
	}
	return float64(n) / float64(max(1, len(values)))
}

// above is how many answers are above the limit as given.
func above(answers []replay) int {
	n := 0
	for _, r := range answers {
		if r.LimitBytes > r.AsGivenBytes {
			n++
		}
	}
	return n
}

// unmet is how many answers were confirmed without a run that met the objective: all were
// slow, and memory was not the reason.
func unmet(answers []replay) int {
	n := 0
	for _, r := range answers {
		if r.met == 0 {
			n++
		}
	}
	return n
}

// worst are the answers farthest from the median, the farthest first, one of each limit.
func worst(answers []replay, n int) []replay {
	middle := results.Median(of(answers, limitOf))
	sorted := slices.Clone(answers)
	slices.SortStableFunc(sorted, func(a, b replay) int {
		return cmp.Compare(math.Abs(limitOf(b)-middle), math.Abs(limitOf(a)-middle))
	})
	sorted = slices.CompactFunc(sorted, func(a, b replay) bool { return a.LimitBytes == b.LimitBytes })
	return sorted[:min(n, len(sorted))]
}

// quantile is that of some values, by the nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// sameLevers is the share of answers with the kind of setup that most have.
func sameLevers(answers []replay) float64 {
	if len(answers) == 0 {
		return 0
	}
	return float64(len(commonest(answers))) / float64(len(answers))
}
