package fit

import (
	"math"

	"tare.dev/tare/internal/trial"
)

const (
	// minHeap is the smallest heap that is tried.
	minHeap = 6 * mib
	// firstHeap is the heap that is tried first and laterHeap the one after
	// it was too small, tightest the smallest, in live sets.
	firstHeap, laterHeap, tightest = 2.5, 4, 1.4
	// oldRoom is the room of the old generation, in live sets, where the
	// heap is so small that the default third for the young one leaves less.
	oldRoom = 1.2
)

// heapFor is the heap for a live set, in whole MiB.
func heapFor(live int64, factor float64) int64 {
	return max(minHeap, wholeMiB(int64(float64(live)*factor)))
}

// youngFor is the young generation of a heap: a third, as HotSpot has it
// (NewRatio), or less where the old one would be too small for what lives.
func youngFor(heap, live int64) int64 {
	return max(mib, min(heap/3, heap-int64(oldRoom*float64(live)))/mib*mib)
}

// heapPoint is what a trial says of collections: the share of the time that
// they took with a heap.
type heapPoint struct {
	heap, live int64
	share      float64
}

// gcCost is how the time in collections depends on the heap. Each collection
// costs about as much as lives, and there is one each time that the rest of the
// heap is full; so time in collections over time outside of them is
//
//	cost / (heap - live)
//
// for any collector whose work goes by what lives (Appel, "Garbage collection
// can be faster than stack allocation", 1987).
type gcCost struct{ cost, live float64 }

// fitGCCost fits the curve to trials. Of one heap, or where the line through
// several makes no sense, it takes the live set from the smallest heap's trial.
func fitGCCost(points []heapPoint) (c gcCost, ok bool) {
	if len(points) == 0 {
		return c, false
	}
	least := points[0]
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.heap < least.heap {
			least = p
		}
		// 1/odds = heap/cost - live/cost is a line over heaps.
		x, y := float64(p.heap), (1-p.share)/max(p.share, 1e-4)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if det := n*sxx - sx*sx; det > 0 {
		slope := (n*sxy - sx*sy) / det
		live := sx/n - sy/n/slope
		if slope > 0 && live >= float64(least.live)/2 && live < float64(least.heap) {
			return gcCost{1 / slope, live}, true
		}
	}
	c.live = float64(min(least.live, least.heap*9/10))
	c.cost = max(least.share, 1e-4) / (1 - min(least.share, mostCollecting)) * (float64(least.heap) - c.live)
	return c, true
}

// share is the share of the time that collections take with a heap.
func (c gcCost) share(heap int64) float64 {
	free := float64(heap) - c.live
	if free <= 0 {
		return 1
	}
	odds := c.cost / free
	return odds / (1 + odds)
}

// knee is the heap with which speed falls to a share of that of a large one.
func (c gcCost) knee(large int64, keep float64) int64 {
	most := 1 - keep*(1-c.share(large))
	return int64(c.live + c.cost*(1-most)/most)
}

// faster is the smallest heap with which a program has a speed, that has now
// another one with a heap.
func (c gcCost) faster(now, wanted float64, heap int64) int64 {
	most := 1 - wanted/now*(1-c.share(heap))
	if most <= 0 {
		return 0 // no heap makes it so fast
	}
	return int64(c.live + c.cost*(1-most)/most)
}

// heapPoints are the trials that tell of collections with the collector and
// options of a setup, whatever the heap. Where the JVM has that collector by itself, those as
// given tell what a heap costs that is smaller than all of these; but not where direct buffers
// wait for collections, for their bound follows the limit too.
func heapPoints(trials []Trial, like Setup) []heapPoint {
	var out []heapPoint
	collector, rest := "", like.withoutHeap()
	smallest := int64(math.MaxInt64)
	for _, t := range trials {
		if heap := t.Setup.heapBytes(); heap > 0 && t.enough() && t.Setup.withoutHeap().Same(rest) && t.Setup.directBytes() == like.directBytes() {
			for _, p := range heapPointOf(t, heap) {
				out, collector, smallest = append(out, p), collectorOf(t), min(smallest, p.heap)
			}
		}
	}
	if collector == "" || leavesDirect(trials) {
		return out
	}
	for _, t := range trials {
		told := t.Verdict == trial.Passed || t.Verdict == trial.TooSlow
		if heap := t.heapAsGiven(collector); told && heap > 0 && heap < smallest {
			out = append(out, heapPointOf(t, heap)...)
		}
	}
	return out
}

// heapAsGiven is how large the heap of a trial as given may become where its JVM has this
// collector; else 0.
func (t Trial) heapAsGiven(collector string) int64 {
	if !t.Setup.empty() || !t.ofTheLoad() || collectorOf(t) != collector {
		return 0
	}
	return mostHeap(t)
}

// mostHeap is how large the heap of a trial may become; 0 where that is not known.
func mostHeap(t Trial) int64 {
	if l := ledgerOf(t, 0); l.Footprint != nil {
		return l.flag("MaxHeapSize")
	}
	return 0
}

// collectorOf is the collector of a trial's JVM, "" where that is not known.
func collectorOf(t Trial) string {
	if f := ledgerOf(t, 0).Footprint; f != nil && f.Heap != nil && f.Heap.CapacityBytes > 0 {
		return f.Collector
	}
	return ""
}

// grown is what a heap that may become so large was in a trial, as far as that is known: one that
// has not grown so far makes the collections of a smaller one.
func (t Trial) grown(heap int64) int64 {
	if f := ledgerOf(t, 0).Footprint; f != nil && f.Heap != nil && f.Heap.CapacityBytes > 0 {
		return min(heap, f.Heap.CapacityBytes)
	}
	return heap
}

// heapPointOf is what a trial that may have so much heap tells of collections; none where it
// does not.
func heapPointOf(t Trial, heap int64) []heapPoint {
	share, known := collectingOf(t)
	heap = t.grown(heap)
	if t.LiveBytes == 0 || t.LiveBytes >= heap || !known {
		return nil
	}
	return []heapPoint{{heap, t.LiveBytes, min(share, mostCollecting)}}
}

// mostCollecting is the largest share of a trial that collections are believed to take.
const mostCollecting = 0.99

// collectingOf is the share of its processor time that a trial's collections took or,
// where threads were not told apart, of the time: others have a part in that.
func collectingOf(t Trial) (share float64, known bool) {
	switch r := t.Result; {
	case r == nil:
		return 0, false
	case r.Times != nil && r.Times.Group > 0:
		return r.Times.Collector.Seconds() / r.Times.Group.Seconds(), true
	case r.GCShare != nil:
		return *r.GCShare, true
	}
	return 0, false
}

// Collecting is the share of a trial that its collections took: of the time in pauses, or of the
// processor time, whichever is more. A collector that runs beside the application hardly pauses it.
func (t Trial) Collecting() (share float64, known bool) {
	share, known = collectingOf(t)
	if r := t.Result; r != nil && r.GCShare != nil {
		return max(share, *r.GCShare), true
	}
	return share, known
}

// collecting is Collecting, and nothing where that is not known.
func (t Trial) collecting() float64 {
	share, _ := t.Collecting()
	return share
}

// tightHeap is the heap to try next, beside a large one: KneeMargin above the
// one that keeps a share of the speed by the curve, and not below what the live
// set needs.
func tightHeap(points []heapPoint, large int64, keep float64) (heap int64, ok bool) {
	c, ok := fitGCCost(points)
	if !ok {
		return 0, false
	}
	live := points[0].live
	for _, p := range points {
		live = min(live, p.live)
	}
	heap = int64((1 + KneeMargin) * float64(c.knee(large, keep)))
	return max(wholeMiB(heap), heapFor(live, tightest)), true
}
