package fit

import (
	"context"
	"fmt"
	"slices"
)

// sweepFactors are the heaps of a curve, in live sets.
var sweepFactors = []float64{1.1, 1.25, 1.5, 2, 3, 4.5}

const (
	// sweepSlack is added to the limit of the trials of a curve, so that
	// the heap alone decides.
	sweepSlack = 64 * mib
	// sweepEnd is the share of the fastest below which smaller heaps are not
	// tried: the cliff is behind.
	sweepEnd = 0.2
)

// sweepHeap makes trials with the recommended setup and other heaps, from large
// to small, until speed has fallen off; on one node, for speeds are compared.
func (s *Search) sweepHeap(ctx context.Context) error {
	if !s.HeapCurve {
		return nil
	}
	if s.Facts.Unreached != "" {
		s.note("no curve over heaps: %s", s.Facts.Unreached)
		return nil
	}
	if c, taken := s.Facts.Given.Conflict("-Xmx64m"); taken {
		s.note("no curve over heaps, for the heap is yours: %s", c.By)
		return nil
	}
	recommended := s.found.Setup.heapBytes()
	heaps := s.sweepHeaps(recommended)
	s.remaining = len(heaps)
	fastest := 0.0
	for _, heap := range heaps {
		if s.outOfTime("the rest of the curve over heaps") {
			return nil
		}
		limit := wholeMiB(min(s.AmpleBytes, s.found.LimitBytes+max(0, heap-recommended)+sweepSlack))
		setup := s.found.Setup.withoutHeap().plus(Setup{Options: withDirectBound(s.found.Setup.directBytes(), fmt.Sprintf("-Xmx%dm", heap/mib))})
		t, err := s.once(ctx, Attempt{Phase: PhaseHeap, Setup: setup, LimitBytes: limit, On: nodeOf(s.nodes(), 0)})
		if err != nil {
			return err
		}
		fastest = max(fastest, t.Speed())
		if t.Speed() < sweepEnd*fastest || !t.Passed && t.Measured.Load == nil {
			return nil
		}
	}
	return nil
}

// sweepHeaps are the heaps to try, the largest first; the recommended one is
// among them.
func (s *Search) sweepHeaps(recommended int64) []int64 {
	live := s.live(point{at: Median(s.found.Confirmations)})
	var heaps []int64
	for _, f := range sweepFactors {
		heaps = append(heaps, heapFor(live, f))
	}
	if recommended > 0 {
		heaps = append(heaps, recommended)
	}
	slices.Sort(heaps)
	heaps = slices.Compact(heaps)
	slices.Reverse(heaps)
	return heaps
}
