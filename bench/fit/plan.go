package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"tare.dev/tare/internal/fit"
)

// What to record next is what searches that are replayed on the bank ask for and it has
// least of; and each third time a limit around their answers, where the limit that truly
// passes is found.
const (
	plannedReplays = 40
	ladderEach     = 3
	// ladderStep is between the limits of the ladder, which goes so many steps below
	// and above the median answer.
	ladderStep             = 0.025
	ladderBelow, ladderTop = 7, 5
	// ladderMost is how many trials of a limit are enough.
	ladderMost = 12
)

// next is the trial to record next.
func (r *replayed) next(rng *rand.Rand) (want, error) {
	type tally struct {
		last want
		asks int
		have int
	}
	asked := map[string]*tally{}
	var order []string
	var answers []replay
	for range plannedReplays {
		seen := map[string]bool{}
		rep, err := r.run(rng.Uint64(), nil, func(w want, have int) {
			if w.phase == fit.PhaseLong || w.phase == fit.PhaseHalf {
				return // fits make them: they are of another load
			}
			words, _ := kindOf(w.setup)
			key := fmt.Sprintf("%s|%v|%.0f", strings.Join(words, " "), w.squeeze, math.Log(float64(w.limit))/sameLimit/2)
			t := asked[key]
			if t == nil {
				t = &tally{}
				asked[key] = t
				order = append(order, key)
			}
			t.last, t.have = w, have
			if !seen[key] {
				t.asks++
				seen[key] = true
			}
		})
		if err != nil {
			return want{}, err
		}
		if rep.Failure == "" {
			answers = append(answers, rep)
		}
	}
	if w, ok := r.ladder(answers, rng); ok && len(r.trials)%ladderEach == 0 {
		return w, nil
	}
	weight := func(t *tally) float64 { return float64(t.asks) / float64((1+t.have)*(1+t.have)) }
	sum := 0.0
	for _, t := range asked {
		sum += weight(t)
	}
	at := rng.Float64() * sum
	for _, key := range order {
		if at -= weight(asked[key]); at <= 0 {
			return asked[key].last, nil
		}
	}
	return asked[order[len(order)-1]].last, nil
}

// ladder is a trial at the limit around the answers of which there are fewest, with the
// setup that was recommended most often, and its most usual sizes.
func (r *replayed) ladder(answers []replay, rng *rand.Rand) (want, bool) {
	if len(answers) == 0 {
		return want{}, false
	}
	common := commonest(answers)
	var limits []int64
	for _, a := range common {
		limits = append(limits, a.LimitBytes)
	}
	slices.Sort(limits)
	middle, setup := limits[len(limits)/2], common[rng.IntN(len(common))].Setup
	w := want{why: byLadder, phase: fit.PhaseConfirm, setup: setup}
	if usesArchive(setup) {
		if w.trained = r.trainingFor(setup); w.trained == nil {
			return want{}, false
		}
	}
	fewest := ladderMost
	for step := -ladderBelow; step <= ladderTop; step++ {
		limit := int64(float64(middle)*math.Pow(1+ladderStep, float64(step))) / mib * mib
		have, _ := r.near(setup, limit, ladderStep/2)
		if n := len(have); n < fewest || n == fewest && rng.IntN(2) == 0 {
			fewest, w.limit = n, limit
		}
	}
	return w, w.limit > 0
}

// commonest are the answers of the kind of setup that most have.
func commonest(answers []replay) []replay {
	by := map[string][]replay{}
	var order []string
	for _, a := range answers {
		words, _ := kindOf(a.Setup)
		key := strings.Join(words, "\n")
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], a)
	}
	return by[slices.MaxFunc(order, func(a, b string) int { return cmp.Compare(len(by[a]), len(by[b])) })]
}

// trainingFor is a training run that a trial of the same kind of setup had.
func (r *replayed) trainingFor(s fit.Setup) *training {
	all, modelled := r.candidates(s)
	for _, c := range all {
		if c.Trained != nil && !modelled {
			return c.Trained
		}
	}
	return nil
}

// near are the trials of a setup whose limits are within a share of one, and how many
// of them memory failed (lacked).
func (r *replayed) near(s fit.Setup, limit int64, share float64) (all []candidate, fails int) {
	of, modelled := r.candidates(s)
	if modelled {
		return nil, 0
	}
	for _, c := range of {
		if math.Abs(float64(c.at-limit)) <= share*float64(limit) {
			all = append(all, c)
			if r.lacked(c.Result) {
				fails++
			}
		}
	}
	return all, fails
}
