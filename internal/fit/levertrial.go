package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"tare.dev/tare/internal/trial"
)

// tryLevers tries levers at the limit as given, and with a larger heap where
// the first was too small.
func (s *Search) tryLevers(ctx context.Context, added []LeverResult) (Trial, error) {
	a := Attempt{Phase: PhaseLever, Lever: names(added), Setup: s.best.setup, LimitBytes: s.leverLimit()}
	for _, r := range added {
		a.Setup = a.Setup.plus(r.Setup)
	}
	if t, told := s.toldDear(a.Setup); told {
		return t, nil
	}
	t, err := s.withoutChance(ctx, a)
	if err != nil {
		return t, err
	}
	i := slices.IndexFunc(added, func(r LeverResult) bool { return r.Lever.sizesHeap() })
	if i < 0 || s.unfit(t) == "" || !s.heapTooSmall(t) || hopeless(t) || s.room() <= reserve {
		return s.sure(ctx, t)
	}
	added[i].Setup = added[i].Lever.setup(s.largerHeap(t))
	a.Setup = a.Setup.plus(added[i].Setup)
	return s.try(ctx, a)
}

// toldDear is the last trial of a setup which was too slow for its levers alone, and of which a
// second one, or a baseline beside it, told what they cost: a third one would tell nothing but
// its own luck. Levers that are left of such a bundle are one when the rest of it was kept.
func (s *Search) toldDear(setup Setup) (Trial, bool) {
	for _, t := range slices.Backward(s.found.Trials) {
		if t.Phase == PhaseLever && t.Setup.Same(setup) && t.SlowElsewhere && (t.Repeat > 0 || s.hasBeside(t)) {
			return t, true
		}
	}
	return Trial{}, false
}

// hopeless says that a setup that was too slow would be so with any heap.
func hopeless(t Trial) bool {
	return t.Verdict == trial.TooSlow && t.Speed()/(1-t.collecting()) < t.AskedSpeed
}

func (t Trial) codeCacheFull() bool { return t.Result != nil && t.Result.CodeCacheFull }

// unfit says why a trial's levers are out of the question, whatever is preferred, or "".
func (s *Search) unfit(t Trial) string {
	if !t.Passed && !(t.SlowElsewhere && s.blameless(t)) {
		return fmt.Sprintf("%s at %d MiB", t.Verdict, t.LimitBytes/mib)
	}
	if s.passedByLuck(t) {
		ratio, _ := s.costRatio(t.Setup, Setup{})
		return fmt.Sprintf("its work cost %.2f times that as given: too near to the %.2f that the objective allows", ratio, 1/(1-s.Spare))
	}
	if reason := s.answersLate(t); reason != "" {
		return reason
	}
	if t.codeCacheFull() && !s.best.at.codeCacheFull() {
		return "the code cache was full"
	}
	if t.ArchiveUnused {
		return "the JVM did not use the archive: its log says why"
	}
	return ""
}

// needed is what a point and a trial with other levers need. A heap that is sized in one or
// both, or by the user, may become as full as its bound allows, whatever a trial had of it: how
// much that was is chance where the heap is large. Where they differ in the heap's size alone they
// need the same page cache, of which two squeezes say different things, and the sizes are all that
// differs, but where one needs more than chance tells: what else two trials had more or less is
// that. A heap that follows the limit in both tells by what there was of it.
func (s *Search) needed(t Trial, p point) (before, after int64) {
	best := p.at
	bounded := t.Setup.heapBytes() > 0 && best.Setup.heapBytes() > 0
	switch {
	case !s.fixesHeap(t.Setup) && !s.fixesHeap(best.Setup):
		return s.limitOf(best), s.limitOf(t)
	case !bounded || !best.Setup.withoutHeap().Same(t.Setup.withoutHeap()):
		return s.limitFull(best), s.limitFull(t)
	}
	cache := (s.cacheNeed(best) + s.cacheNeed(t)) / 2
	before = best.NeededBytes + s.untouchedIn(best) + cache
	after = t.NeededBytes + s.untouchedIn(t) + cache
	if has := s.boundOn(best.Setup); has > 0 { // else it is the user's own, and nobody sized it
		if foreseen := before - (has - s.boundOn(t.Setup)); after-foreseen <= s.chance(before, sizesConfidence) {
			after = foreseen
		}
	}
	return before, after
}

// limitFull is limitOf with the heap as full as it may become.
func (s *Search) limitFull(t Trial) int64 {
	if s.fixesHeap(t.Setup) {
		return s.limitOf(t) + s.untouchedIn(t)
	}
	rest := t.NeededBytes - s.touchedIn(t) + s.cacheNeed(t)
	return max(s.limitOf(t), s.limitWith(rest, s.Facts.Given.MaxHeap))
}

// unforeseen says that nothing foresees that levers save memory: what trials tell of
// them may be chance.
func unforeseen(added []LeverResult) bool {
	return len(added) > 0 && !slices.ContainsFunc(added, func(r LeverResult) bool { return r.Lever.bound != nil })
}

// sizesConfidence is that with which a smaller heap must be seen to need more elsewhere. It has
// done so with native memory that waits for collections; else such trials differ by chance, and by
// more than is assumed before trials tell: malloc had 36 to 46 MiB of the demo service, most of
// them C2's.
const sizesConfidence = 0.999

// chance is by how much the needs of two trials of the same setup differ at most, with a
// confidence.
func (s *Search) chance(need int64, confidence float64) int64 {
	deviation, freedom, _ := s.needDeviation()
	return int64(stats.InvCDF(stats.TDist{V: freedom})(confidence) * math.Sqrt2 * deviation * float64(need))
}

// on is the point of a trial of levers on top of another point. A lever that the other
// one has with other sizes takes its place, and all that both changed is its own.
func (s *Search) on(p point, added []LeverResult, t Trial) point {
	cost, known := s.costRatio(t.Setup, p.setup)
	if !known {
		cost = 0
	}
	was, is := s.needed(t, p)
	before, saved := p.at.Number, was-is
	out := point{setup: t.Setup, at: t, levers: slices.Clone(p.levers), unforeseen: unforeseen(added)}
	for _, r := range added {
		r.Kept, r.Reason, r.CostRatio, r.SavedBytes, r.Before, r.Trial = true, "", cost, saved, before, t.Number
		if i := slices.IndexFunc(out.levers, func(o LeverResult) bool { return o.Lever.same(r.Lever) }); i >= 0 {
			r.SavedBytes, r.Before = saved+out.levers[i].SavedBytes, out.levers[i].Before
			out.levers = slices.Delete(out.levers, i, i+1)
		}
		out.levers = append(out.levers, r)
	}
	return out
}
