package fit

import (
	"fmt"

	"tare.dev/tare/internal/jvmopts"
)

// A heap that the user has sized, often far too large and by habit, is never sized anew. It counts
// as full: it grows until it has to be collected whole, and a load that is long enough has it do
// so. WildFly has -Xmx512m by default: runs that touched 205 MiB of it passed at 435 MiB, and those
// of ten times the load were killed at 515.

const (
	usualAmple = 2048 * mib
	// besideHeap is the room for all else where that is little beside the heap.
	besideHeap = 1024 * mib
)

// Ample is the limit of baselines where the user has given none, at most most: 2 GiB, for a JVM sizes
// itself by what it sees, and would take more of more. One whose heap the user has sized does not:
// there is room for that heap, and for besideHeap.
func Ample(given jvmopts.Options, most int64) int64 {
	ample := int64(usualAmple)
	if given.FixesHeap() {
		ample = max(ample, min(given.MaxHeap(ample), most)+besideHeap)
	}
	return min(ample, most) / mib * mib
}

// raiseAmple makes room for the heap that a script has sized, which the first baseline tells.
func (s *Search) raiseAmple(first Trial) (raised bool) {
	s.readFrom(first)
	ample := Ample(s.Facts.Given, s.MostAmpleBytes)
	if ample <= s.AmpleBytes {
		return false
	}
	s.AmpleBytes = ample
	_, by, _ := s.Facts.Given.Value("MaxHeapSize")
	s.note("the heap may become %d MiB by %s: baselines have %d MiB from now on", s.Facts.Given.MaxHeap(ample)/mib, by, ample/mib)
	return true
}

// heapFixed says that the user has set the heap: it does not follow the limit.
func (s *Search) heapFixed() bool { return s.Facts.Given.FixesHeap() }

// ownHeap is the bound that the user has set on the heap, 0 without one, and where the
// application as given would need more with it than trials may have.
func (s *Search) ownHeap() int64 {
	b := s.found.Baseline
	if !s.FullHeap || !s.heapFixed() || b.Number == 0 {
		return 0
	}
	heap := s.Facts.Given.MaxHeap(s.AmpleBytes)
	if b.NeededBytes-heapTouched(b)+heap+s.cacheNeed(b) > s.AmpleBytes {
		return 0
	}
	return heap
}

// usedOwn is what the baseline touched of the user's own heap, beyondOwn the rest: trials are
// compared as if each had touched so much, and all that a limit needs has the rest on top.
func (s *Search) usedOwn() int64 { return min(s.ownHeap(), heapTouched(s.found.Baseline)) }

func (s *Search) beyondOwn() int64 { return s.ownHeap() - s.usedOwn() }

// ownHeapTold is the least part of the limit that is told of as heap that no run touched.
const ownHeapTold = 0.1

// ownHeapWarning says what the user's own heap costs, or that no trial had room for it.
func (s *Search) ownHeapWarning() string {
	if !s.FullHeap || !s.heapFixed() {
		return ""
	}
	_, by, _ := s.Facts.Given.Value("MaxHeapSize")
	if s.ownHeap() == 0 {
		return fmt.Sprintf("the heap may become %d MiB by %s, more than --ample leaves room for: the limit holds only for a heap as full as runs had it. "+
			"Give more, or set a smaller heap, or none, and fit again", s.Facts.Given.MaxHeap(s.AmpleBytes)/mib, by)
	}
	untouched := s.beyondOwn()
	if float64(untouched) < ownHeapTold*float64(s.found.LimitBytes) {
		return ""
	}
	text := fmt.Sprintf("%d MiB of the limit are heap that runs did not touch: %s lets it grow so far, and a longer load may have it do so", untouched/mib, by)
	if c, ok := fitGCCost(heapPointOf(s.found.Baseline, s.ownHeap())); ok {
		if enough := wholeMiB(c.knee(s.ownHeap(), KneeShare)); enough < s.ownHeap() {
			text += fmt.Sprintf(". Collections foresee that about %d MiB of heap are enough", enough/mib)
		}
	}
	return text + ". Without that option tare sizes the heap"
}
