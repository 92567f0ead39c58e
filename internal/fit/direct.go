package fit

import "fmt"

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
)

// directKept is the bound of direct buffers where a lever sizes the heap: twice what they took as
// given, but no more than they could at the smallest limit that was enough. It is 0 where any
// heap for what lives leaves them as much, or nothing is known of them.
func (s *Search) directKept() int64 {
	var taken int64
	for _, t := range s.found.Trials {
		if t.Result != nil && t.Setup.empty() {
			taken = max(taken, t.Result.Peak.DirectBytes(), t.Result.End.DirectBytes())
		}
	}
	bound := wholeMiB(min(2*taken, ledgerOf(s.given.at, 0).directBound()))
	if bound <= heapFor(s.found.Baseline.LiveBytes, tightest) {
		return 0
	}
	return bound
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
