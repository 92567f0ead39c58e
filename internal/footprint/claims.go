package footprint

import (
	"slices"
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
	rankMapped               // a mapping that the JVM says one use for
	rankHeader               // a malloc header that was read, the end of a library's bss
	rankVM                   // an address range that the JVM's own data names
	rankPart                 // a part of such a range
	rankTracking             // native memory tracking
)

// claim says that an address range belongs to an owner.
type claim struct {
	span
	owner Owner
	how   How
	rank  rank
	// part names a part of the owner's row, "/" between levels; empty is
	// none.
	part string
}

// segment is a part of one mapping that has one owner.
type segment struct {
	span
	vma   *linux.VMA
	owner Owner
	how   How
	part  string
}

// partition cuts the mappings into segments such that every address of every
// mapping has exactly one owner: that of the claim with the highest rank.
// Claims outside of the mappings are without effect.
func partition(vmas []linux.VMA, claims []claim) []segment {
	sort.Slice(claims, func(i, j int) bool { return claims[i].start < claims[j].start })
	var out []segment
	var active []claim // those that reach over an address: a handful
	next := 0
	for i := range vmas {
		v := &vmas[i]
		base := mappingClaim(v)
		for at := v.Start; at < v.End; {
			active = slices.DeleteFunc(active, func(c claim) bool { return c.end <= at })
			for ; next < len(claims) && claims[next].start <= at; next++ {
				if claims[next].end > at {
					active = append(active, claims[next])
				}
			}
			s := segment{span: span{at, v.End}, vma: v}
			s.owner, s.how, s.part = best(base, active)
			// The answer may change where a claim ends or begins.
			for _, c := range active {
				s.end = min(s.end, c.end)
			}
			if next < len(claims) {
				s.end = min(s.end, claims[next].start)
			}
			out = appendSegment(out, s)
			at = s.end
		}
	}
	return out
}

// best is the owner by the highest rank, and the part that it names, else the
// part that the best lesser claim for the same owner names.
func best(base claim, active []claim) (Owner, How, string) {
	winner := base
	for _, c := range active {
		if c.rank > winner.rank {
			winner = c
		}
	}
	part, rank := winner.part, rank(-1)
	if part == "" {
		for _, c := range append(active, base) {
			if c.owner == winner.owner && c.part != "" && c.rank > rank {
				part, rank = c.part, c.rank
			}
		}
	}
	return winner.owner, winner.how, part
}

// appendSegment joins a segment to the one before when nothing but the cut
// divides them.
func appendSegment(segs []segment, s segment) []segment {
	if n := len(segs); n > 0 {
		last := &segs[n-1]
		if last.vma == s.vma && last.end == s.start && last.owner == s.owner && last.how == s.how && last.part == s.part {
			last.end = s.end
			return segs
		}
	}
	return append(segs, s)
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
