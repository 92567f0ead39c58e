package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"tare.dev/tare/internal/footprint"
)

// Unless MaxDirectMemorySize is set, direct buffers may take as much as the largest heap
// (VM.maxDirectMemory, jdk.internal.misc). Those that nobody holds are freed by collections
// alone, and where they are at their bound each new one has the whole heap collected
// (Bits.reserveMemory, java.nio). So a heap that is sized leaves them the bound that they had:
// what a smaller one costs, no curve of collections foresees.

const (
	directOption = "-XX:MaxDirectMemorySize="
	// directFull is the part of their bound from which direct buffers are at it: what they
	// take rises until a collection.
	directFull = 0.8
	// directFell is the part of what they took that is gone at the end of a load where they
	// wait for collections.
	directFell = 0.2
)

// directKept is the bound of direct buffers where a lever sizes the heap: twice what they took as
// given, but no more than they could at the smallest limit that was enough. It is 0 where any
// heap for what lives leaves them as much that does not wait for collections, or nothing is
// known of them.
func (s *Search) directKept() int64 {
	bound := wholeMiB(min(2*s.directTaken(), ledgerOf(s.given.at, 0).directBound()))
	if bound <= heapFor(s.found.Baseline.LiveBytes, tightest) && !s.leavesDirect() {
		return 0
	}
	return bound
}

// directTaken is the most that direct buffers were seen to take as given.
func (s *Search) directTaken() int64 {
	var taken int64
	for _, t := range s.found.Trials {
		if t.Setup.empty() {
			for _, f := range t.looks() {
				taken = max(taken, f.DirectBytes())
			}
		}
	}
	return taken
}

// leavesDirect says that direct buffers which nobody holds stay until a collection: in some trial
// they took much less at the end than before. What they take is a matter of chance then, up to
// their bound, and collections go by that as well as by the heap; buffers that are held, or freed by
// their owner, take what they took.
func leavesDirect(trials []Trial) bool {
	return slices.ContainsFunc(trials, func(t Trial) bool {
		if t.Result == nil || !t.ofTheLoad() {
			return false
		}
		peak, end := t.Result.Peak.DirectBytes(), t.Result.End.DirectBytes()
		return end > 0 && peak-end >= max(leastBytes, int64(directFell*float64(peak)))
	})
}

func (s *Search) leavesDirect() bool { return leavesDirect(s.found.Trials) }

// directTouched is what of a trial's memory direct buffers have, or had before they were freed:
// malloc keeps that for the next ones. It is 0 where nothing bounds them, or they leave none.
func (s *Search) directTouched(t Trial) int64 {
	bound := t.Setup.directBytes()
	if bound == 0 || !s.leavesDirect() {
		return 0
	}
	most := int64(0)
	for _, f := range t.looks() {
		most = max(most, mallocOf(f))
	}
	return min(bound, t.NeededBytes, max(0, most-s.mallocAlone(t.Setup)))
}

// mallocAlone is what malloc has without direct buffers: the least that looks at trials saw which
// differ in the heap at most, for others saw it keep what was freed.
func (s *Search) mallocAlone(setup Setup) int64 {
	least := int64(math.MaxInt64)
	for _, t := range s.alikeButForHeap(setup) {
		for _, f := range t.looks() {
			least = min(least, max(0, mallocOf(f)-f.DirectBytes()))
		}
	}
	return least
}

func mallocOf(f *footprint.Footprint) int64 {
	row, _ := f.Row(footprint.Malloc)
	return row.ResidentBytes
}

// looks are the footprints of a trial in which direct buffers were counted.
func (t Trial) looks() []*footprint.Footprint {
	if t.Result == nil {
		return nil
	}
	return slices.DeleteFunc([]*footprint.Footprint{t.Result.Peak, t.Result.End}, func(f *footprint.Footprint) bool { return f.DirectBytes() == 0 })
}

// openDirect is the lever of direct buffers that wait for collections, or none where none do, or
// the best point does not bound them.
func (s *Search) openDirect() []Lever {
	if s.best.setup.directBytes() == 0 || !s.leavesDirect() {
		return nil
	}
	return s.openSizes("direct")
}

// tightenDirect tries smaller bounds of direct buffers that wait for collections, by the curve of
// what these cost, as tightenHeap does with the heap.
func (s *Search) tightenDirect(ctx context.Context) error {
	open := s.openDirect()
	if len(open) == 0 {
		return nil
	}
	lever := open[0]
	result := LeverResult{Lever: lever, BoundBytes: s.ledger().bound(lever), Before: s.best.at.Number}
	tooSmall := int64(0)
	for range 3 {
		next, reason := s.nextDirect(tooSmall)
		if reason != "" {
			result.Reason = cmp.Or(result.Reason, reason)
			break
		}
		result.Setup = lever.setup(next)
		t, err := s.try(ctx, Attempt{Phase: PhaseLever, Lever: lever.Name, Setup: s.best.setup.plus(result.Setup), LimitBytes: s.leverLimit()})
		if err != nil {
			return err
		}
		if !s.carriesSize(&result, t, next.direct) {
			tooSmall = next.direct
		}
	}
	if !s.uses(lever) {
		s.drop(result, result.Reason)
	}
	return nil
}

// nextDirect are the sizes to try next, with a bound of direct buffers above one that was too
// small; or the reason why there are none. The young generation shrinks as the room for those that
// wait does: so it is collected before they are at their bound, which costs less than to have the
// whole heap collected. The heap becomes as tight as its own curve allows in the same trial.
func (s *Search) nextDirect(tooSmall int64) (sizes, string) {
	setup := s.best.setup
	has, held := setup.directBytes(), s.directHeld(setup)
	direct, ok := tightHeap(s.directPoints(setup), has, s.keepSpeed())
	direct = above(tooSmall, direct, has)
	switch {
	case !ok:
		return sizes{}, "no trial told of collections"
	case has-direct < s.leastTighter():
		return sizes{}, fmt.Sprintf("by the curve of collections %d MiB are right for %d MiB that are held", has/mib, held/mib)
	case s.room() <= reserve:
		return sizes{}, noTrialLeft
	}
	heap, live := setup.heapBytes(), s.live(s.best)
	room := float64(direct-held) / float64(has-held)
	young := int64(room * float64(cmp.Or(sizeIn(setup.Options, youngOption), heap/3)))
	if tight, reason := s.nextHeap(0); reason == "" {
		heap = tight
	}
	usual := youngFor(heap, live)
	young = max(mib, min(usual, young)/mib*mib)
	return sizes{heap: max(heap-(usual-young), min(heap, heapFor(live, tightest))), young: young, direct: direct}, ""
}

// directHeld is the least that direct buffers took in trials that differ from a setup in the sizes
// of the heap at most: no more than that is held.
func (s *Search) directHeld(setup Setup) int64 {
	held := setup.directBytes() / 2
	for _, t := range s.alikeButForHeap(setup) {
		for _, f := range t.looks() {
			held = min(held, f.DirectBytes())
		}
	}
	return held
}

// directPoints are what trials tell of collections by the bound of direct buffers, as heapPoints
// do by that of the heap.
func (s *Search) directPoints(setup Setup) []heapPoint {
	var out []heapPoint
	held := s.directHeld(setup)
	for _, t := range s.alikeButForHeap(setup) {
		share, known := collectingOf(t)
		if bound := t.Setup.directBytes(); bound > held && known && t.enough() {
			out = append(out, heapPoint{bound, held, min(share, mostCollecting)})
		}
	}
	return out
}

// alikeButForHeap are the trials of the load whose setup differs in the sizes of the heap at most,
// and of what else collections free.
func (s *Search) alikeButForHeap(setup Setup) []Trial {
	rest := setup.withoutHeap()
	return slices.DeleteFunc(slices.Clone(s.found.Trials), func(t Trial) bool {
		return t.Phase == PhaseBaseline || !t.ofTheLoad() || !t.Setup.withoutHeap().Same(rest)
	})
}

// withDirectBound are options, and the bound of direct buffers where there is one.
func withDirectBound(bytes int64, options ...string) []string {
	if bytes > 0 {
		options = append(options, fmt.Sprintf("%s%dm", directOption, bytes/mib))
	}
	return options
}

// directBound is how much direct buffers may take; 0 is not known.
func (l Ledger) directBound() int64 {
	if l.Footprint == nil || l.Footprint.Heap == nil {
		return 0
	}
	if bound := l.flag("MaxDirectMemorySize"); bound > 0 {
		return bound
	}
	return l.Footprint.Heap.MaxBytes
}

// directFollowsHeap says that direct buffers may take as much as the largest heap.
func (l Ledger) directFollowsHeap() bool {
	return l.Footprint != nil && l.flag("MaxDirectMemorySize") <= 0
}

// directWarning says that collections went by direct buffers and not by the heap, or is "".
func (f *Found) directWarning() string {
	for _, t := range f.Confirmations {
		l := ledgerOf(t, 0)
		bound := l.directBound()
		if bound == 0 {
			continue
		}
		if has := l.Footprint.DirectBytes(); float64(has) >= directFull*float64(bound) {
			return fmt.Sprintf("direct buffers took %s of the %s that they may (-XX:MaxDirectMemorySize, by default as much as the largest heap): "+
				"each time they are full the whole heap is collected, and more room for them makes it faster", mibText(has), mibText(bound))
		}
	}
	return ""
}
