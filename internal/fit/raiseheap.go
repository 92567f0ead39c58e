package fit

import (
	"cmp"
	"fmt"
	"slices"

	"tare.dev/tare/internal/trial"
)

// raiseHeap has the best point take a larger heap, where that is what a run lacked which proves
// it: what lives grows with the load. The young generation stays as it is. It says how much larger
// the heap is; false where the user sized it, or no lever may.
func (s *Search) raiseHeap(setup Setup, t Trial) (more int64, ok bool) {
	if !t.lacksHeap() || !setup.Same(s.best.setup) {
		return 0, false
	}
	levers, sizing := slices.Clone(s.best.levers), -1
	for i, r := range levers {
		if r.Setup.heapBytes() > 0 && !r.Lever.Own {
			sizing = i
		}
	}
	if sizing < 0 {
		if t.Phase != PhaseLong || s.fixesHeap(setup) || !slices.ContainsFunc(s.Levers, Lever.sizesHeap) {
			return 0, false
		}
		sizing, levers = len(levers), append(levers, LeverResult{Lever: grownHeap, Kept: true})
	}
	heap := s.outgrown(t)
	more = heap - s.heapOf(t)
	s.note("a confirming run at %d MiB was %s: the heap is raised to %d MiB", t.LimitBytes/mib, t.Verdict, heap/mib)
	raised := Setup{Options: []string{fmt.Sprintf("-Xmx%dm", heap/mib)}}
	levers[sizing].Setup = levers[sizing].Setup.plus(raised)
	if levers[sizing].Trial > 0 {
		levers[sizing].SavedBytes -= more
	}
	s.best.setup, s.best.levers = setup.plus(raised), levers
	s.adopt(s.best)
	return more, true
}

// lacksHeap says that a trial's heap was too small for what lives, and not its limit.
func (t Trial) lacksHeap() bool {
	return t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing && !t.lacksMemory()
}

// heapOf is the bound on a trial's heap.
func (s *Search) heapOf(t Trial) int64 {
	return cmp.Or(t.Setup.heapBytes(), s.Facts.Given.MaxHeap(t.LimitBytes))
}

// limitForHeap is the limit at which the heap is large enough that follows it, where a run of many
// times the load outgrew that; else 0.
func (s *Search) limitForHeap(t Trial) int64 {
	if t.Phase != PhaseLong || !t.lacksHeap() || s.fixesHeap(t.Setup) {
		return 0
	}
	return s.bounded(s.limitOfHeap(s.outgrown(t)))
}

// mostOutgrown is how many times as large a heap becomes at once.
const mostOutgrown = 4

// outgrown is the heap for a run that ended when what lives had outgrown the heap that it has:
// what lives is taken to grow with the answers. Half as large again is the least that is worth a run.
func (s *Search) outgrown(t Trial) int64 {
	has := s.heapOf(t)
	heap := has * 3 / 2
	asked, live := t.Work.Measured, s.live(s.best)
	if t.Phase == PhaseLong {
		asked *= longLoad
	}
	if r := t.Result; r != nil && r.Load != nil && r.Load.OK > 0 && asked > r.Load.OK && has > live {
		grown := float64(has-live) * float64(asked) / float64(r.Load.OK)
		heap = max(heap, int64((1+KneeMargin)*(float64(live)+grown)))
	}
	return wholeMiB(min(heap, mostOutgrown*has))
}
