package footprint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"tare/internal/hotspot"
	"tare/internal/linux"
)

// What is known of a JVM from outside alone: its memory is closed, or it does
// not describe itself. Then the kernel's mappings, the performance data file,
// and how JVMs lay out their address space must do.

// readOutside reads the performance data file in place of the JVM's memory.
func (s *scan) readOutside(proc linux.FS) {
	s.outside = true
	if s.target.Kind != hotspot.HotSpot {
		return
	}
	_ = s.timed("performance data file", func() error {
		f, err := hotspot.OpenPerfData(proc.Root(), s.target.PID)
		if err != nil {
			return fmt.Errorf("%w; lost: the version, the heap's place and figures", err)
		}
		defer f.Close()
		data, err := f.Read()
		if err != nil {
			return err
		}
		s.vm, s.heapSizes = hotspot.OutsideVM(data), data.HeapBytes()
		return nil
	})
}

// closedMemory says what is lost with /proc/PID/mem, and what would open it.
func closedMemory(pid int) error {
	return fmt.Errorf("/proc/%d/mem: %w: %s; lost: the parts of the heap, class metadata and collector tables by address, malloc's own figures, stacks by thread (told by layout instead)",
		pid, fs.ErrPermission, hotspot.MemoryLock())
}

// unknownJVM says what is not told apart in a JVM that is not HotSpot.
func unknownJVM(kind hotspot.Kind) string {
	switch kind {
	case hotspot.OpenJ9:
		return "this is OpenJ9, which does not describe itself in memory: its heap, classes and collector are one, as unattributed; files, stacks, compiled code (by its permissions) and glibc's malloc are told apart. OpenJ9 itself tells more: jcmd PID Dump.java"
	case hotspot.NativeImage:
		return "this is a GraalVM native image, which does not describe itself in memory: the heap is known as far as it lies beside the image's own; what else it maps is unattributed; code is part of its file. The program itself tells more when it was built with --enable-monitoring"
	}
	return ""
}

// muslNote says what musl's malloc does not tell: it maps groups of slots of
// its own, among which its bookkeeping is kept from view.
const muslNote = "its C library is musl, whose malloc is not told from other anonymous memory except for what lies in [heap]"

// outsideClaims are the claims on a JVM that is known from outside alone.
func (s *scan) outsideClaims() []claim {
	if !s.outside {
		return nil
	}
	l := s.layout
	out := append(l.executable(), l.imageHeap(s.target)...)
	if s.target.Kind != hotspot.HotSpot {
		return out
	}
	s.vm.Archive = l.archive()
	if c := s.vm.Counters; c != nil && !l.namesHeap() {
		if heap, ok := l.heapBySize(s.heapSizes, c.HeapCapacity); ok {
			s.vm.Heap = hotspot.Region{Start: heap.start, End: heap.end}
			out = append(out, claim{heap, JavaHeap, Layout, rankSpan, ""})
		}
	}
	out = append(out, l.stacksBySize(s.stackSizes())...)
	return append(out, l.byShape(s.vm.Major)...)
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
	var best span
	miss := int64(-1)
	for i := range l.vmas {
		for _, size := range sizes {
			s := span{l.vmas[i].Start, l.vmas[i].Start + uint64(size)}
			if !anonymous(&l.vmas[i]) || s.end <= s.start || !l.heapEndsAt(s.end) {
				continue
			}
			accessible, ok := l.inOnePiece(i, s.end)
			if off := max(accessible-committed, committed-accessible); ok && (miss < 0 || off < miss) {
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

// inOnePiece says whether anonymous memory and archived objects reach from
// mapping i to end without a gap, and how much of that is accessible.
func (l *layout) inOnePiece(i int, end uint64) (accessible int64, ok bool) {
	for ; i < len(l.vmas); i++ {
		v := &l.vmas[i]
		if !anonymous(v) && mappingClaim(v).owner != CDS {
			return 0, false
		}
		if v.Accessible() {
			accessible += int64(min(v.End, end) - v.Start)
		}
		if v.End >= end {
			return accessible, true
		}
		if i+1 == len(l.vmas) || l.vmas[i+1].Start != v.End {
			break
		}
	}
	return 0, false
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
			out = append(out, claim{span{v.Start, end}, Malloc, Heuristic, rankTable, "arenas"})
		case major >= 16:
			out = append(out, claim{span{v.Start, end}, Metaspace, Heuristic, rankTable, ""})
		default:
			continue
		}
		i = l.at(end - 1)
	}
	return out
}

// imageHeap finds the heap of a native image: the objects that were built into
// its file, and the address space that is reserved in one piece behind them
// (substratevm: com.oracle.svm.core.genscavenge.AddressRangeCommittedMemoryProvider).
func (l *layout) imageHeap(t *hotspot.Target) []claim {
	if t.ImageHeap.Empty() {
		return nil
	}
	var out []claim
	last := -1
	for i := range l.vmas {
		v := &l.vmas[i]
		if v.FileBacked() && strings.TrimSuffix(v.Path, " (deleted)") == strings.TrimSuffix(t.LibjvmPath, " (deleted)") && t.ImageHeap.Contains(v.Offset) {
			out = append(out, claim{span{v.Start, v.End}, JavaHeap, Exact, rankVM, "image heap"})
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	for i := last + 1; i < len(l.vmas) && l.vmas[i].Start == l.vmas[i-1].End && anonymous(&l.vmas[i]); i++ {
		out = append(out, claim{span{l.vmas[i].Start, l.vmas[i].End}, JavaHeap, Layout, rankSpan, "allocated"})
	}
	return out
}

// openOutside opens the memory of a JVM that does not describe itself: its C
// library and its threads still do.
func (s *scan) openOutside(proc linux.FS) *linux.Mem {
	s.notes = append(s.notes, unknownJVM(s.target.Kind))
	var mem *linux.Mem
	_ = s.timed("memory", func() (err error) {
		if mem, err = proc.OpenMem(s.target.PID, s.target.VMAs); errors.Is(err, fs.ErrPermission) {
			return closedMemory(s.target.PID)
		}
		return err
	})
	s.readOutside(proc)
	return mem
}
