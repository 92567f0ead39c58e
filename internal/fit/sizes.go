package fit

import (
	"cmp"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/trial"
)

// sizes are what the levers' placeholders become: the heap in live sets, but
// smaller than the heap that there is, if that is not too small.
func (s *Search) sizes(l Ledger, lives float64) sizes {
	live := s.live(s.best)
	heap := heapFor(live, lives)
	if has := l.heap(); has > 0 && lives == firstHeap {
		heap = min(heap, max(heapFor(live, 1.5), wholeMiB(share(has, 85))))
	}
	heap = max(heap, wholeMiB(s.tooSmallAsGiven()*5/4))
	v := sizes{heap: heap, direct: s.directKept(), cpus: max(1, int(s.Facts.CPUs+0.999))}
	v.young, v.initial = youngFor(v.heap, live), s.initialHeap(live)
	if l.Footprint != nil {
		v.code = max(leastCode, wholeMiB(l.resident(footprint.CodeCache)*3/4))
	}
	return v
}

// tooSmallAsGiven is the largest heap that a trial as given had grown to its bound, and of which
// collections took too much, where the JVM has by itself the collector that levers choose; 0
// without one, and where direct buffers wait for collections. One that has not grown so far tells
// nothing of its size: Serial leaves the young generation as small as it began until the whole heap
// is collected.
func (s *Search) tooSmallAsGiven() int64 {
	if s.leavesDirect() {
		return 0
	}
	most := int64(0)
	for _, t := range s.found.Trials {
		if heap := t.heapAsGiven(serial); !t.enough() && s.heapTooSmall(t) && float64(t.grown(heap)) >= heapFull*float64(heap) {
			most = max(most, heap)
		}
	}
	return most
}

// heapFull is the part of its bound from which a heap has grown to it.
const heapFull = 0.9

// serial is the collector that levers choose, as footprints name it.
const serial = "Serial"

// initialHeap is the heap to begin with where that must not go by the limit: what
// lives, in which the JVM's own objects are, or what HotSpot has at least.
func (s *Search) initialHeap(live int64) int64 {
	initial := max(leastInitial, live)
	if heap := s.best.setup.heapBytes(); heap > 0 {
		initial = min(initial, heap)
	}
	return initial
}

// leastInitial is the least heap that HotSpot begins with by itself.
const leastInitial = 8 * mib

// scale is the first of the lever's scales that the levers so far have made enough
// speed for, 0 where they have not. Where work tells, all but the last, which costs least,
// must be sure to have it, and that one must not be sure to lack it: its own trial tells,
// and what a lever is tried by must not hang on how fast the machine was for a minute.
func (s *Search) scale(l Lever) int {
	faster := s.faster(s.best, point{at: s.found.Baseline})
	surely, perhaps := faster, faster
	if c := s.relativeCost(s.best.setup, Setup{}); c.CostLow > 0 {
		surely, perhaps = 1/c.CostHigh, 1/c.CostLow
	}
	for i, c := range l.Scales {
		if c.Keeps*surely >= 1 || i == len(l.Scales)-1 && c.Keeps*perhaps >= 1 {
			return c.Times
		}
	}
	return 0
}

// leastCode is the smallest code cache that is tried: HotSpot's own code needs
// about 3 MiB of it.
const leastCode = 6 * mib

// live is the live set: the least that a collection left in a trial which did the load's work.
// What young collections leave holds what became old and is dead, so that each is an upper
// bound. Where none tells it is the heap in use.
func (s *Search) live(p point) int64 {
	live := p.at.LiveBytes
	for _, t := range s.found.Trials {
		if t.LiveBytes > 0 && t.ofTheLoad() && (t.Passed || s.didTheWork(t)) && (live == 0 || t.LiveBytes < live) {
			live = t.LiveBytes
		}
	}
	return cmp.Or(live, p.at.HeapBytes)
}

// heapTooSmall says that a larger heap may help: a trial that was too slow was so for collections
// where they took, beyond what they do with ample memory, as much as at the knee, or half of what
// the objective leaves.
func (s *Search) heapTooSmall(t Trial) bool {
	most := 1 - KneeShare
	if s.Spare > 0 {
		most = min(most, s.Spare/2)
	}
	return t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing ||
		t.Verdict == trial.TooSlow && t.collecting() > s.found.Baseline.collecting()+most
}

// largerHeap are the sizes to try after a trial with too small a heap: as fast as
// the baseline nearly was by the curve of what collections cost, but smaller than the heap that
// there is. An application that allocates much beside little that lives needs many live sets.
func (s *Search) largerHeap(t Trial) sizes {
	l := s.ledger()
	v := s.sizes(l, laterHeap)
	has := t.Setup.heapBytes()
	c, ok := fitGCCost(heapPointOf(t, has))
	if !ok || t.Speed() <= 0 {
		return v
	}
	if heap := c.faster(t.Speed(), nearly*s.found.Baseline.Speed(), has); heap > 0 {
		v.heap = wholeMiB(max(has*5/4, min(heap, max(v.heap, share(l.heap(), 85)))))
	}
	return v
}
