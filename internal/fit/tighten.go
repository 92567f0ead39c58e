package fit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// leastTighter is what a tighter heap must save to be worth a trial, in whole MiB: where one
// was found already, as much of what is needed as limits are found to.
func (s *Search) leastTighter() int64 {
	if !slices.ContainsFunc(s.best.levers, func(r LeverResult) bool { return r.Lever.ByCurve }) {
		return mib
	}
	return max(mib, share(s.predict(s.best.at), 3)/mib*mib)
}

// nearly is the share of the baseline's speed that a heap is chosen for: an
// objective of 0.9 then leaves room for chance.
const nearly = 0.93

// openSizes is the lever of this name that goes by a curve, or none where its user leaves
// nothing of it open.
func (s *Search) openSizes(id string) []Lever {
	for _, l := range s.Levers {
		if left, ok, _ := l.open(s.Facts); ok && l.ByCurve && l.ID == id {
			return []Lever{left}
		}
	}
	return nil
}

// tightenHeap tries smaller heaps by the curve of what collections cost, as long
// as it foresees enough to save.
func (s *Search) tightenHeap(ctx context.Context) error {
	open := s.openSizes("heap")
	if len(open) == 0 {
		return nil // openLevers has said why
	}
	lever := open[0]
	result := LeverResult{Lever: lever, BoundBytes: s.ledger().bound(lever), Before: s.best.at.Number}
	tooSmall := int64(0)
	var smaller heapTrial
	defer s.forget(PhaseLever)
	for range 3 {
		next, reason := s.nextHeap(tooSmall)
		if reason != "" {
			result.Reason = cmp.Or(result.Reason, reason)
			break
		}
		h := s.heapTrial(lever, s.best.setup, next)
		if len(s.plan) > 0 && max(next-smaller.heap, smaller.heap-next) <= mib {
			h = smaller
		} else if has := s.best.setup.heapBytes(); len(s.plan) == 0 && s.room() > reserve+1 {
			smaller = s.heapTrial(lever, h.Setup, next*next/has/mib*mib)
			s.ahead(ctx, h.Attempt, smaller.Attempt)
		}
		t, err := s.try(ctx, h.Attempt)
		if err != nil {
			return err
		}
		result.Setup = h.added
		if !s.carriesSize(&result, t, h.heap) {
			tooSmall = h.heap
		}
	}
	if !s.uses(lever) {
		s.drop(result, result.Reason)
	}
	return nil
}

// carriesSize carries the point of a trial with a smaller size, or says in its lever's result why
// not.
func (s *Search) carriesSize(r *LeverResult, t Trial, size int64) bool {
	reason := s.unfit(t)
	if reason == "" {
		reason = s.carry(s.on(s.best, []LeverResult{*r}, t))
	}
	if reason != "" {
		r.Trial, r.Reason = t.Number, fmt.Sprintf("with %d MiB: %s", size/mib, reason)
	}
	return reason == ""
}

// heapTrial is a trial of a heap, which it adds to a setup.
type heapTrial struct {
	Attempt
	heap  int64
	added Setup
}

func (s *Search) heapTrial(lever Lever, setup Setup, heap int64) heapTrial {
	young := youngFor(heap, s.live(s.best))
	if has := sizeIn(setup.Options, youngOption); has > 0 && s.leavesDirect() {
		young = min(young, has) // by it fewer of them wait
	}
	added := lever.setup(sizes{heap: heap, young: young})
	return heapTrial{Attempt{Phase: PhaseLever, Lever: lever.Name, Setup: setup.plus(added), LimitBytes: s.leverLimit()}, heap, added}
}

// keepSpeed is the share of its speed that the best point should keep with a
// smaller heap: KneeShare, or more where it is not much faster than the baseline. That it is
// slower counts by as much as is sure: trials of the same options differ by more than a heap
// costs.
func (s *Search) keepSpeed() float64 {
	faster := s.faster(s.best, point{at: s.found.Baseline})
	if c := s.relativeCost(s.best.setup, Setup{}); c.CostLow > 0 {
		faster = max(faster, min(1, 1/c.CostLow))
	}
	return min(0.999, max(KneeShare, nearly/max(faster, nearly)))
}

// above is a size to try, or the middle between one that was too small, where there is one, and
// one that was not.
func above(tooSmall, size, has int64) int64 {
	if tooSmall > 0 {
		return max(size, (tooSmall+has)/2/mib*mib)
	}
	return size
}

// nextHeap is the heap to try next, above one that was too small; or the reason
// why there is none.
func (s *Search) nextHeap(tooSmall int64) (int64, string) {
	has := s.best.setup.heapBytes()
	heap, ok := tightHeap(heapPoints(s.found.Trials, s.best.setup), has, s.keepSpeed())
	heap = above(tooSmall, heap, has)
	switch {
	case has == 0:
		return 0, "the heap is not sized: the collector's lever was not kept"
	case !ok:
		return 0, "no trial told of collections"
	case has-heap < s.leastTighter():
		return 0, fmt.Sprintf("by the curve of collections %d MiB is right for %d MiB alive", has/mib, s.live(s.best)/mib)
	case s.room() <= s.reserveBesideHeap(has-heap):
		return 0, noTrialLeft
	}
	return heap, ""
}

// reserveBesideHeap is how many trials a smaller heap leaves to those that find the limit: where
// it saves as much as bold levers do, one less, for their bound is wider by less than that.
func (s *Search) reserveBesideHeap(saves int64) int {
	if float64(saves) >= boldSaving*float64(s.predict(s.best.at)) {
		return reserve - 1
	}
	return reserve
}
