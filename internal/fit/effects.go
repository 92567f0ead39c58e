package fit

import (
	"context"
	"math/rand/v2"
	"slices"
)

// ablationRuns is how often each setup of an ablation runs.
const ablationRuns = 3

// Effect is what a lever of the recommendation saves, by trials that differ in
// nothing else.
type Effect struct {
	Lever LeverResult
	// LeftOut says that the lever was taken away from the recommendation;
	// else it was put on top of those before it.
	LeftOut bool
	// With and Without are the trials compared.
	With, Without []Trial
	// SavedBytes is how much less was needed, by medians: with the page cache
	// that is needed where trials with and without were squeezed, else without
	// any. With several trials it lies between LowBytes and HighBytes, by those
	// that differ least and most. Measured tells whether there were several on
	// both sides.
	SavedBytes, LowBytes, HighBytes int64
	Measured                        bool
	// Speed is the speed with the lever over that without, 0 where unknown.
	Speed float64
}

// Effects are those of the levers that were kept and that trials tell apart: an
// ablation, or the search itself where a lever was tried alone.
func (f *Found) Effects() []Effect {
	var out []Effect
	for i, l := range f.Levers {
		if !l.Kept {
			continue
		}
		e := Effect{Lever: l, LeftOut: true, With: f.passedWith(f.Setup, true), Without: f.passedWith(f.without(i), true)}
		if len(e.Without) == 0 {
			e = f.onTop(l)
		}
		if len(e.With) > 0 && len(e.Without) > 0 {
			out = append(out, e.finish())
		}
	}
	return out
}

// without is the recommendation without one of its levers, and what cannot be
// had without it: an archive is of one layout of jars.
func (f *Found) without(lever int) Setup {
	var s Setup
	for i, l := range f.Levers {
		if l.Kept && i != lever && !(f.Levers[lever].Lever.Extract && l.Lever.TrainOption != "") {
			s = s.plus(l.Setup)
		}
	}
	return s
}

// passedWith are the passed trials of a setup: of an ablation alone, or those
// of the search.
func (f *Found) passedWith(s Setup, ablation bool) []Trial {
	var out []Trial
	for _, t := range f.Trials {
		if t.Passed && (t.Phase == PhaseAblation) == ablation && t.Phase != PhaseBaseline && t.Setup.Same(s) {
			out = append(out, t)
		}
	}
	return out
}

// onTop is the effect of a lever that was tried alone, as far as one was.
func (f *Found) onTop(l LeverResult) Effect {
	for _, o := range f.Levers {
		if o.Kept && o.Trial == l.Trial && o.Lever.ID != l.Lever.ID {
			return Effect{}
		}
	}
	if l.Trial < 1 || l.Before < 1 || max(l.Trial, l.Before) > len(f.Trials) {
		return Effect{}
	}
	with, without := f.Trials[l.Trial-1], f.Trials[l.Before-1]
	return Effect{Lever: l, With: f.passedWith(with.Setup, false), Without: f.passedWith(without.Setup, false)}
}

// finish works out what the trials say.
func (e Effect) finish() Effect {
	e.With, e.Without = alike(e.With, e.Without)
	with, without := needs(e.With), needs(e.Without)
	e.SavedBytes = without.median - with.median
	e.LowBytes, e.HighBytes = without.low-with.high, without.high-with.low
	e.Measured = len(e.With) > 1 && len(e.Without) > 1
	if slow := Median(e.Without).Speed(); slow > 0 {
		e.Speed = Median(e.With).Speed() / slow
	}
	return e
}

// alike leaves the trials that were squeezed, if there are any on both sides,
// or takes from all what the squeeze told.
func alike(with, without []Trial) (a, b []Trial) {
	squeezed := func(t Trial) bool { return t.CacheBytes > 0 }
	if slices.ContainsFunc(with, squeezed) && slices.ContainsFunc(without, squeezed) {
		loose := func(t Trial) bool { return !squeezed(t) }
		return slices.DeleteFunc(slices.Clone(with), loose), slices.DeleteFunc(slices.Clone(without), loose)
	}
	for _, trials := range [][]Trial{with, without} {
		for i := range trials {
			trials[i].CacheBytes = 0
		}
	}
	return with, without
}

type needRange struct{ low, median, high int64 }

// needs is what trials needed.
func needs(trials []Trial) needRange {
	var all []int64
	for _, t := range trials {
		all = append(all, t.need())
	}
	slices.Sort(all)
	return needRange{all[0], all[len(all)/2], all[len(all)-1]}
}

// ablate runs the recommendation, and it without each of its levers, at a limit
// that does not matter, several times and in an order drawn at random: what
// changes on the machine meanwhile then counts on all sides. Each time is on one node.
func (s *Search) ablate(ctx context.Context) error {
	if !s.Ablation || s.found.Setup.empty() {
		return nil
	}
	setups := []Setup{s.found.Setup}
	labels := []string{""}
	for i, l := range s.found.Levers {
		if without := s.found.without(i); l.Kept && !without.Same(s.found.Setup) {
			setups, labels = append(setups, without), append(labels, "without "+l.Lever.Name)
		}
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	s.remaining = ablationRuns * len(setups)
	var attempts []Attempt
	for run := range ablationRuns {
		for _, i := range rng.Perm(len(setups)) {
			attempts = append(attempts, Attempt{Phase: PhaseAblation, Lever: labels[i], Setup: setups[i], LimitBytes: s.leverLimit(), On: nodeOf(s.nodes(), run)})
		}
	}
	s.ahead(ctx, attempts...)
	defer s.forget(PhaseAblation)
	for _, a := range attempts {
		if s.outOfTime("the rest of the ablation") {
			return nil
		}
		if _, err := s.once(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
