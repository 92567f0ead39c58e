package fit

import (
	"fmt"
	"slices"

	"tare.dev/tare/internal/trial"
)

// raiseHeap has the best point take a larger heap, where that is what a run lacked which proves
// it: what lives grows with the load. The young generation stays as it is. It says how much larger
// the heap is; false where no lever sized that of the run.
func (s *Search) raiseHeap(setup Setup, t Trial) (more int64, ok bool) {
	has, levers, sizing := setup.heapBytes(), slices.Clone(s.best.levers), -1
	for i, r := range levers {
		if r.Setup.heapBytes() > 0 && !r.Lever.Own {
			sizing = i
		}
	}
	if has == 0 || sizing < 0 || !t.lacksHeap() {
		return 0, false
	}
	heap := s.outgrown(t, has)
	more = heap - has
	s.note("a confirming run at %d MiB was %s: the heap is raised to %d MiB", t.LimitBytes/mib, t.Verdict, heap/mib)
	raised := Setup{Options: []string{fmt.Sprintf("-Xmx%dm", heap/mib)}}
	levers[sizing].Setup = levers[sizing].Setup.plus(raised)
	levers[sizing].SavedBytes -= more
	s.best.setup, s.best.levers = setup.plus(raised), levers
	s.adopt(s.best)
	return more, true
}

// lacksHeap says that a trial's heap was too small for what lives, and not its limit.
func (t Trial) lacksHeap() bool {
	return t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing && !t.lacksMemory()
}

// mostOutgrown is how many times as large a heap becomes at once.
const mostOutgrown = 4

// outgrown is the heap for a run that ended when what lives had outgrown the heap that it has:
// what lives is taken to grow with the answers. Half as large again is the least that is worth a run.
func (s *Search) outgrown(t Trial, has int64) int64 {
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
