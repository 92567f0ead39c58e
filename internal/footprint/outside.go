package footprint

import (
	"fmt"
	"slices"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// countedHotSpot is a HotSpot JVM whose memory is closed, or does not describe
// itself: the kernel's mappings, its performance data file, and how HotSpot lays
// out its address space must do.
type countedHotSpot struct {
	vm hotspot.VM // without addresses
	// heapSizes are the sizes that the heap may have.
	heapSizes []int64
}

// readCounted reads the performance data file in place of the JVM's memory.
func readCounted(r reading) jvm {
	var c countedHotSpot
	_ = r.timed("performance data file", func() error {
		f, err := hotspot.OpenPerfData(r.proc.Root(), r.target.PID)
		if err != nil {
			return fmt.Errorf("%w; lost: the version, the heap's place and figures", err)
		}
		defer f.Close()
		data, err := f.Read()
		if err != nil {
			return err
		}
		c.vm, c.heapSizes = *hotspot.OutsideVM(data), data.HeapBytes()
		return nil
	})
	return c
}

func (countedHotSpot) notes() []string { return nil }

func (countedHotSpot) threads() []hotspot.JavaThread { return nil }

func (c countedHotSpot) facts(l *layout) *hotspot.VM {
	vm := c.vm
	vm.Archive = l.archive()
	if heap, ok := c.heap(l); ok {
		vm.Heap = hotspot.Region{Start: heap.start, End: heap.end}
	}
	return &vm
}

// heap finds the heap's place by its size, unless the kernel names it.
func (c countedHotSpot) heap(l *layout) (span, bool) {
	if c.vm.Counters == nil || l.namesHeap() {
		return span{}, false
	}
	return l.heapBySize(c.heapSizes, c.vm.Counters.HeapCapacity)
}

func (c countedHotSpot) claims(l *layout, stackSizes []int64) []claim {
	out := l.executable()
	if heap, ok := c.heap(l); ok {
		out = append(out, claim{heap, JavaHeap, Layout, rankSpan, ""})
	}
	out = append(out, l.stacksBySize(stackSizes)...)
	return append(out, l.byShape(c.vm.Major)...)
}

// executable finds compiled code: anonymous memory that may be executed.
func (l *layout) executable() []claim {
	var out []claim
	for i := range l.vmas {
		if v := &l.vmas[i]; anonymous(v) && v.Perms[2] == 'x' {
			out = append(out, claim{span{v.Start, v.End}, CodeCache, Layout, rankTable, ""})
		}
	}
	return out
}

// archive is the range of the class archive's mappings outside of the heap:
// those that follow each other from the last one back.
func (l *layout) archive() hotspot.Region {
	var r hotspot.Region
	for i := range l.vmas {
		v := &l.vmas[i]
		if mappingClaim(v).owner != CDS {
			continue
		}
		if r.End != v.Start {
			r.Start = v.Start
		}
		r.End = v.End
	}
	return r
}

// heapBySize finds the heap: memory in one piece, of anonymous mappings and
// archived objects, that has exactly the size of its reservation. Of several
// such, it is the one of which most nearly as much is accessible as the JVM has
// committed; of two alike, that of the size which comes first.
func (l *layout) heapBySize(sizes []int64, committed int64) (span, bool) {
	pieces := l.pieces()
	var best span
	miss := int64(-1)
	for i := range l.vmas {
		for _, size := range sizes {
			s := span{l.vmas[i].Start, l.vmas[i].Start + uint64(size)}
			if !anonymous(&l.vmas[i]) || s.end <= s.start || s.end > pieces[i].end || !l.heapEndsAt(s.end) {
				continue
			}
			accessible := l.accessibleBefore(pieces, s.end) - pieces[i].before
			if off := max(accessible-committed, committed-accessible); miss < 0 || off < miss {
				best, miss = s, off
			}
		}
	}
	return best, miss >= 0
}

// heapEndsAt says that a heap can end at addr. At 4 GiB it often does, where
// what JDK 8 puts behind merges with it.
func (l *layout) heapEndsAt(addr uint64) bool {
	return l.at(addr-1) >= 0 && (addr == 4<<30 || l.endsAt(addr))
}

// piece is a mapping as part of the memory that a heap can be made of.
type piece struct {
	end    uint64 // of the anonymous memory and archived objects without a gap from here on
	before int64  // accessible bytes in all mappings below
}

// pieces are computed for all mappings at once: looking from each on would take
// quadratic time.
func (l *layout) pieces() []piece {
	out := make([]piece, len(l.vmas))
	for i := len(l.vmas) - 1; i >= 0; i-- {
		v := &l.vmas[i]
		switch {
		case !anonymous(v) && mappingClaim(v).owner != CDS:
			out[i].end = v.Start
		case i+1 < len(l.vmas) && l.vmas[i+1].Start == v.End:
			out[i].end = max(v.End, out[i+1].end)
		default:
			out[i].end = v.End
		}
	}
	var sum int64
	for i := range l.vmas {
		out[i].before = sum
		if v := &l.vmas[i]; v.Accessible() {
			sum += int64(v.End - v.Start)
		}
	}
	return out
}

// accessibleBefore is how many bytes below addr, which is mapped up to there, are
// accessible.
func (l *layout) accessibleBefore(pieces []piece, addr uint64) int64 {
	i := l.at(addr - 1)
	n := pieces[i].before
	if v := &l.vmas[i]; v.Accessible() {
		n += int64(addr - v.Start)
	}
	return n
}

// namesHeap says that a mapping is named as the heap, as ZGC's is.
func (l *layout) namesHeap() bool {
	return slices.ContainsFunc(l.vmas, func(v linux.VMA) bool { return mappingClaim(&v).owner == JavaHeap })
}

// stacksBySize finds the stacks of threads by their size and the guard below.
func (l *layout) stacksBySize(sizes []int64) []claim {
	var out []claim
	for i := range l.vmas {
		if _, ok := l.guarded(i); ok && l.looksLikeStack(i, sizes) {
			v := &l.vmas[i]
			out = append(out, claim{span{v.Start, v.End}, ThreadStacks, Layout, rankStack, ""})
		}
	}
	return out
}

// byShape tells the reservations of glibc's arenas and of metaspace by size
// and place. An arena is filled from its beginning, at a multiple of its size:
// one accessible mapping and a rest that is not. Metaspace (JDK 16 and later) is
// filled in pieces.
func (l *layout) byShape(major int) []claim {
	var out []claim
	for i := 0; i < len(l.vmas); i++ {
		v := &l.vmas[i]
		if !anonymous(v) || !v.Writable() || v.Start%rootChunkSize != 0 {
			continue
		}
		end := v.Start + arenaSize
		if l.reservedUpTo(i, end) != end || !l.endsAt(end) {
			continue
		}
		whole := i+1 == len(l.vmas) || v.End == end || l.vmas[i+1].End >= end && !l.vmas[i+1].Accessible()
		switch {
		case v.Start%arenaSize == 0 && whole:
			out = append(out, claim{span{v.Start, end}, Malloc, Heuristic, rankTable, PartArenas})
		case major >= 16:
			out = append(out, claim{span{v.Start, end}, Metaspace, Heuristic, rankTable, ""})
		default:
			continue
		}
		i = l.at(end - 1)
	}
	return out
}
