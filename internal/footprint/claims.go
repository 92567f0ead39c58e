package footprint

import (
	"container/heap"
	"sort"

	"tare/internal/linux"
)

// span is a range of addresses.
type span struct{ start, end uint64 }

func (s span) size() int64 { return int64(s.end - s.start) }

// rank orders claims on the same address: what is known better wins.
type rank int

const (
	rankMapping  rank = iota // the kind of mapping
	rankTable                // a collector's table by its size
	rankCell                 // metaspace by the cell that holds known metadata
	rankSpan                 // class space by its size
	rankStack                // a thread stack by its stack pointer
	rankHeader               // a malloc header that was read, the end of a library's bss
	rankVM                   // an address range that the JVM's own data names
	rankTracking             // native memory tracking
)

// claim says that an address range belongs to an owner.
type claim struct {
	span
	owner Owner
	how   How
	rank  rank
}

// segment is a part of one mapping that has one owner.
type segment struct {
	span
	vma   *linux.VMA
	owner Owner
	how   How
}

// partition cuts the mappings into segments such that every address of every
// mapping has exactly one owner: that of the claim with the highest rank.
// Claims outside of the mappings are without effect.
func partition(vmas []linux.VMA, claims []claim) []segment {
	sort.Slice(claims, func(i, j int) bool { return claims[i].start < claims[j].start })
	var out []segment
	var active claimHeap
	next := 0
	for i := range vmas {
		v := &vmas[i]
		owner, how := mappingOwner(v)
		base := claim{span{v.Start, v.End}, owner, how, rankMapping}
		for at := v.Start; at < v.End; {
			for next < len(claims) && claims[next].start <= at {
				heap.Push(&active, claims[next])
				next++
			}
			for len(active) > 0 && active[0].end <= at {
				heap.Pop(&active)
			}
			winner := base
			if len(active) > 0 {
				winner = active[0]
			}
			end := min(winner.end, v.End)
			// A claim that begins inside may win from there on.
			if next < len(claims) && claims[next].start < end {
				end = claims[next].start
			}
			out = appendSegment(out, segment{span{at, end}, v, winner.owner, winner.how})
			at = end
		}
	}
	return out
}

// appendSegment joins a segment to the one before when nothing but the cut
// divides them.
func appendSegment(segs []segment, s segment) []segment {
	if n := len(segs); n > 0 {
		last := &segs[n-1]
		if last.vma == s.vma && last.end == s.start && last.owner == s.owner && last.how == s.how {
			last.end = s.end
			return segs
		}
	}
	return append(segs, s)
}

// claimHeap holds the claims that reach over an address, the best first.
type claimHeap []claim

func (h claimHeap) Len() int           { return len(h) }
func (h claimHeap) Less(i, j int) bool { return h[i].rank > h[j].rank }
func (h claimHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *claimHeap) Push(x any)        { *h = append(*h, x.(claim)) }
func (h *claimHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// resident counts the resident bytes of each segment, and of pages outside of
// all of them: mappings that were made between two reads.
func resident(segs []segment, runs []linux.PageRun) (counts []int64, outside int64) {
	counts = make([]int64, len(segs))
	i := 0
	for _, r := range runs {
		covered := int64(0)
		for i < len(segs) && segs[i].end <= r.Start {
			i++
		}
		for j := i; j < len(segs) && segs[j].start < r.End; j++ {
			n := int64(min(r.End, segs[j].end) - max(r.Start, segs[j].start))
			counts[j] += n
			covered += n
		}
		outside += r.Size() - covered
	}
	return counts, outside
}
