package footprint

import (
	"cmp"
	"context"
	"slices"

	"tare.dev/tare/internal/linux"
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
	// part is the id of a part of the owner's row, "/" between levels; empty
	// is none.
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

// ranks is the number of ranks.
const ranks = int(rankTracking) + 1

// queue has claims in order of their beginning. It is asked at rising addresses
// only: what has ended leaves at the front, and nothing is looked at twice.
type queue []*claim

// front is the first claim that reaches over an address, nil without one.
func (q *queue) front(at uint64) *claim {
	for len(*q) > 0 && (*q)[0].end <= at {
		*q = (*q)[1:]
	}
	if len(*q) == 0 {
		return nil
	}
	return (*q)[0]
}

// byRank is the claims that have begun, at an address that rises.
type byRank [ranks]queue

func (b *byRank) add(c *claim) { b[c.rank] = append(b[c.rank], c) }

// best is the claim of the highest rank at an address, of equal ones the one that
// begins first; nil without one.
func (b *byRank) best(at uint64) *claim {
	for r := ranks - 1; r >= 0; r-- {
		if c := b[r].front(at); c != nil {
			return c
		}
	}
	return nil
}

// sweep has the claims that have begun: all, and those that name a part by owner.
type sweep struct {
	all   byRank
	named map[Owner]*byRank
}

func (w *sweep) add(c *claim) {
	w.all.add(c)
	if c.part == "" {
		return
	}
	if w.named[c.owner] == nil {
		w.named[c.owner] = &byRank{}
	}
	w.named[c.owner].add(c)
}

// best is the claim that wins at an address; base is the claim on the mapping. A
// claim that names no part takes the part that the best lesser claim for the
// same owner names. The answer holds to the end of what is returned, unless
// another claim begins before.
func (w *sweep) best(base claim, at uint64) claim {
	c := w.all.best(at)
	if c == nil {
		return base
	}
	winner := *c
	if winner.part != "" {
		return winner
	}
	if named := w.named[winner.owner]; named != nil {
		if c := named.best(at); c != nil {
			winner.part, winner.end = c.part, min(winner.end, c.end)
			return winner
		}
	}
	if base.owner == winner.owner {
		winner.part = base.part
	}
	return winner
}

// partition cuts the mappings into segments such that every address of every
// mapping has exactly one owner: that of the claim with the highest rank.
// Claims outside of the mappings are without effect. It takes time in proportion
// to the number of mappings and claims, however they overlap, but for sorting
// the claims.
func partition(ctx context.Context, vmas []linux.VMA, claims []claim) ([]segment, error) {
	begun := inOrder(claims)
	out := make([]segment, 0, len(vmas)+len(claims)/2)
	w := sweep{named: map[Owner]*byRank{}}
	next, steps := 0, 0
	for i := range vmas {
		v := &vmas[i]
		base := mappingClaim(v)
		for at := v.Start; at < v.End; {
			if steps++; steps%interval == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for ; next < len(begun) && begun[next].start <= at; next++ {
				if begun[next].end > at {
					w.add(begun[next])
				}
			}
			c := w.best(base, at)
			s := segment{span: span{at, min(v.End, c.end)}, vma: v, owner: c.owner, how: c.how, part: c.part}
			if next < len(begun) {
				s.end = min(s.end, begun[next].start)
			}
			out = appendSegment(out, s)
			at = s.end
		}
	}
	return out, nil
}

// interval is after how many steps of work the context is looked at.
const interval = 1 << 10

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

// inOrder are claims by their beginning; those that begin together keep their
// order.
func inOrder(claims []claim) []*claim {
	index := make([]int32, len(claims))
	for i := range index {
		index[i] = int32(i)
	}
	slices.SortFunc(index, func(a, b int32) int {
		return cmp.Or(cmp.Compare(claims[a].start, claims[b].start), cmp.Compare(a, b))
	})
	out := make([]*claim, len(claims))
	for i, j := range index {
		out[i] = &claims[j]
	}
	return out
}

func pointers(claims []claim) []*claim {
	out := make([]*claim, len(claims))
	for i := range claims {
		out[i] = &claims[i]
	}
	return out
}
