package footprint

import (
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// layout finds owners by what is known of how glibc, the dynamic linker and
// HotSpot lay out their mappings.
type layout struct {
	vmas []linux.VMA
	mem  hotspot.Memory
	page uint64
	// reach is, by mapping, where the anonymous memory that begins in it or
	// before it and goes on without a gap ends.
	reach []uint64
}

func newLayout(vmas []linux.VMA, mem hotspot.Memory, page uint64) *layout {
	l := &layout{vmas: vmas, mem: mem, page: page, reach: make([]uint64, len(vmas))}
	for i := len(vmas) - 1; i >= 0; i-- {
		l.reach[i] = vmas[i].End
		if i+1 < len(vmas) && vmas[i+1].Start == vmas[i].End && anonymous(&vmas[i+1]) {
			l.reach[i] = l.reach[i+1]
		}
	}
	return l
}

// at returns the index of the mapping that holds addr, or -1.
func (l *layout) at(addr uint64) int {
	i := sort.Search(len(l.vmas), func(i int) bool { return l.vmas[i].End > addr })
	if i == len(l.vmas) || addr < l.vmas[i].Start {
		return -1
	}
	return i
}

// guarded returns the mapping directly below mapping i if it is a guard: not
// accessible, and small.
func (l *layout) guarded(i int) (guard *linux.VMA, ok bool) {
	const maxGuard = 1 << 20
	if i == 0 {
		return nil, false
	}
	g := &l.vmas[i-1]
	return g, g.End == l.vmas[i].Start && !g.Accessible() && !g.FileBacked() && g.Size() <= maxGuard
}

const (
	// arenaSize is glibc's HEAP_MAX_SIZE on 64 bits: an arena's heaps lie at
	// multiples of it (glibc: malloc/arena.c).
	arenaSize = 64 << 20
	// mmapped is IS_MMAPPED in the size word of a chunk (glibc:
	// malloc/malloc.c).
	mmapped = 2
)

// arenaHeap is a heap of one of glibc's arenas, with what is reserved for it.
type arenaHeap struct {
	span
	arena uint64 // address of the arena's state
}

// arenaHeaps finds the heaps of glibc's arenas: each begins, at a multiple of
// arenaSize, with a struct heap_info {arena, previous, size, mprotect_size}.
// Where one can begin, its first page is resident: address space without end
// that is not is passed over.
func (l *layout) arenaHeaps(runs []linux.PageRun) []arenaHeap {
	var out []arenaHeap
	for _, r := range runs {
		for at := alignUp(r.Start, arenaSize); at < r.End; at += arenaSize {
			i := l.at(at)
			if i < 0 || !anonymous(&l.vmas[i]) || !l.vmas[i].Writable() {
				continue
			}
			// It may have grown since the mappings were read.
			if arena, ok := l.arenaAt(at); ok {
				out = append(out, arenaHeap{span{at, l.reservedUpTo(i, at+arenaSize)}, arena})
			}
		}
	}
	return out
}

func (l *layout) arenaAt(at uint64) (arena uint64, ok bool) {
	var h [32]byte
	if l.mem.ReadMem(h[:], at) != nil {
		return 0, false
	}
	arena = binary.NativeEndian.Uint64(h[0:])
	used := binary.NativeEndian.Uint64(h[16:])
	opened := binary.NativeEndian.Uint64(h[24:])
	return arena, arena != 0 && arena%8 == 0 && used > 0 && used <= opened && opened <= arenaSize &&
		opened%l.page == 0 && l.at(arena) >= 0
}

// reservedUpTo is where mapping i with the anonymous memory that follows it
// without a gap ends, at most limit.
func (l *layout) reservedUpTo(i int, limit uint64) uint64 { return min(l.reach[i], limit) }

const (
	// maxProbes bounds the pages of one range that are looked at in search of a
	// chunk header, allProbes those of all ranges.
	maxProbes = 512
	allProbes = 1 << 16
)

// chunks finds large chunks that malloc mapped on their own, in a range that
// is nobody's yet. Neighbours merge into one mapping, so every chunk is
// followed to the next.
func (l *layout) chunks(s span, left *int) []claim {
	var out []claim
	at := s.start
	for probes := 0; at < s.end && probes < maxProbes && *left > 0; probes++ {
		*left--
		size, ok := l.chunkAt(at)
		if !ok || at+size > s.end {
			at += l.page
			continue
		}
		out = append(out, claim{span{at, at + size}, Malloc, Layout, rankHeader, PartLargeChunks})
		at += size
	}
	return out
}

// chunkAt reads the header {prev_size, size} of a mapped chunk. Its size is
// that of the mapping, or 16 bytes less since glibc 2.43.
func (l *layout) chunkAt(at uint64) (size uint64, ok bool) {
	var h [16]byte
	if l.mem.ReadMem(h[:], at) != nil {
		return 0, false
	}
	prev, word := binary.NativeEndian.Uint64(h[:]), binary.NativeEndian.Uint64(h[8:])
	size = word &^ 7
	if prev != 0 || word&7 != mmapped || size == 0 || size > 1<<46 {
		return 0, false
	}
	if size%l.page == l.page-16 {
		size += 16
	}
	return size, size%l.page == 0
}

// libraryData finds the zero-initialised data of libraries: anonymous memory
// behind the mapped part of the file, inside of the image's size.
func (l *layout) libraryData() []claim {
	var out []claim
	for i := range l.vmas {
		v := &l.vmas[i]
		if !v.FileBacked() || v.Offset != 0 || !strings.Contains(v.Path, ".so") && !strings.Contains(v.Path, "/bin/") {
			continue
		}
		end, err := hotspot.LoadEnd(l.mem, v.Start)
		if err != nil {
			continue // not a library
		}
		for j := i + 1; j < len(l.vmas) && l.vmas[j].Start < end; j++ {
			w := &l.vmas[j]
			if w.FileBacked() && (w.Inode != v.Inode || w.Offset == 0) {
				break // another file: the image says that it is larger than it is
			}
			if anonymous(w) {
				out = append(out, claim{span{w.Start, min(w.End, alignUp(end, l.page))}, MappedFiles, Exact, rankHeader, under(FilePart(baseName(v.Path)), partZero)})
			}
		}
	}
	return out
}

// stacks finds the stacks of threads by their stack pointers.
func (l *layout) stacks(pointers []stackPointer, sizes []int64) []claim {
	var out []claim
	largest := slices.Max(append([]int64{0}, sizes...))
	for _, p := range pointers {
		i := l.at(p.sp)
		if i < 0 || !anonymous(&l.vmas[i]) {
			continue
		}
		s, how := span{l.vmas[i].Start, l.vmas[i].End}, Heuristic
		if _, ok := l.guarded(i); ok {
			how = Layout
		} else if l.vmas[i].Size() > largest && !l.reservedBelow(i) {
			continue // the stack of a goroutine or a fibre, somewhere in its mapping
		}
		s.end = l.stackEnd(i, p.sp, sizes)
		out = append(out, claim{s, ThreadStacks, how, rankStack, ""})
	}
	return out
}

// stackEnd is where the stack that begins at mapping i ends. Memory above it
// may have merged into the mapping: the guard, which is part of the stack's
// size or comes on top of it, tells how far the stack reaches.
func (l *layout) stackEnd(i int, sp uint64, sizes []int64) uint64 {
	v := &l.vmas[i]
	guard, ok := l.guarded(i)
	if !ok {
		return v.End
	}
	for _, size := range sizes {
		for _, end := range []uint64{guard.Start + uint64(size), guard.End + uint64(size)} {
			if sp < end && end <= v.End {
				return end
			}
		}
	}
	return v.End
}

// looksLikeStack says that mapping i has the size of a stack, with or without
// a guard below: the stack of a thread that is running, or one that glibc
// keeps for the next thread.
func (l *layout) looksLikeStack(i int, sizes []int64) bool {
	v := &l.vmas[i]
	if !anonymous(v) || !v.Writable() || v.NoReserve() {
		return false
	}
	return l.stackSized(i, v.Size(), sizes)
}

// stackSized says that a size is one of a stack's, alone or with the guard below mapping i.
func (l *layout) stackSized(i int, size int64, sizes []int64) bool {
	with := size
	if g, ok := l.guarded(i); ok {
		with += g.Size()
	}
	return slices.Contains(sizes, size) || slices.Contains(sizes, with)
}

// reservedBelow says that address space which is only reserved lies directly
// below mapping i: a guard may have merged with it.
func (l *layout) reservedBelow(i int) bool {
	return i > 0 && l.vmas[i-1].End == l.vmas[i].Start && !l.vmas[i-1].Accessible() && !l.vmas[i-1].FileBacked()
}

// stackBySize says how mapping i is known as a stack by its size: one behind a
// guard, or behind what may be one. Without either it is none, for every thread
// library makes guards.
func (l *layout) stackBySize(i int, sizes []int64) (How, bool) {
	if !l.looksLikeStack(i, sizes) || !l.reservedBelow(i) {
		return "", false
	}
	if _, ok := l.guarded(i); ok {
		return Layout, true
	}
	return Heuristic, true
}

// guardedStack says that a mapping looks like a stack and lies behind a guard:
// that says more than the size of a table.
func (l *layout) guardedStack(i int, sizes []int64) bool {
	_, guarded := l.guarded(i)
	return guarded && l.looksLikeStack(i, sizes)
}

// stackBelowMerged says that a range begins behind a guard and has the size of a stack: one
// that something above it merged with.
func (l *layout) stackBelowMerged(s span, sizes []int64) bool {
	i := l.at(s.start)
	if i < 0 || l.vmas[i].Start != s.start {
		return false
	}
	_, guarded := l.guarded(i)
	return guarded && l.stackSized(i, s.size(), sizes)
}

// Metaspace cells: what metaspace reserves address space in multiples of, at
// addresses that are multiples too: 16 MiB root chunks, four to a node, since
// JDK 16 (JDK: src/hotspot/share/memory/metaspace/chunklevel.hpp, JEP 387),
// nodes of 2 MiB or more, aligned to pages alone and filled from the beginning,
// before (virtualSpaceList.cpp).
const (
	rootChunkSize = 16 << 20
	nodeSize      = 2 << 20
)

func cellSize(major int) uint64 {
	if major >= 16 {
		return rootChunkSize
	}
	return nodeSize
}

// metadata claims the cells around addresses of class metadata, and what lies
// between two of them in one mapping.
func (l *layout) metadata(addrs []uint64, cell uint64) []claim {
	var out []claim
	done, mapping := span{}, -1
	for _, a := range addrs { // in order
		if done.start <= a && a < done.end {
			continue
		}
		i := l.at(a)
		if i < 0 || !anonymous(&l.vmas[i]) {
			continue
		}
		if i == mapping {
			out = append(out, claim{span{done.end, a}, Metaspace, Layout, rankCell, ""})
		}
		mapping = i
		base := a &^ (cell - 1)
		first := i
		for first > 0 && l.vmas[first].Start > base && l.vmas[first-1].End == l.vmas[first].Start && anonymous(&l.vmas[first-1]) {
			first--
		}
		end := l.reservedUpTo(i, base+cell)
		done = span{max(base, l.vmas[first].Start), l.reservedBehind(end, base+4*cell)}
		out = append(out, claim{done, Metaspace, Layout, rankCell, ""})
		if v := &l.vmas[i]; cell == nodeSize && end < v.End {
			// A node may be larger than known metadata tells, or something else
			// may have merged with it.
			rest := span{end, l.reservedBehind(v.End, base+4*cell)}
			out = append(out, claim{rest, Metaspace, Heuristic, rankTable, ""})
			done.end = end
		}
	}
	return out
}

// reservedBehind extends a range that ends at end over address space behind
// it that is only reserved, up to limit.
func (l *layout) reservedBehind(end, limit uint64) uint64 {
	i := l.at(end)
	if i < 0 || l.vmas[i].Start > end || l.vmas[i].Accessible() || !anonymous(&l.vmas[i]) {
		return end
	}
	return min(l.vmas[i].End, limit)
}

// classSpace finds the compressed class space: anonymous memory of exactly
// the reserved size, around known classes if there are any outside of the
// archive, and not around other metadata. Its beginning is that of a mapping, or
// lies where the heap or the archive ends, when the kernel merged the two.
func (l *layout) classSpace(vm *hotspot.VM) (claim, bool) {
	size := uint64(vm.ClassSpaceBytes)
	if size == 0 || size > 1<<40 {
		return claim{}, false
	}
	starts := []uint64{vm.Heap.End, vm.Archive.End, alignUp(vm.Archive.End, 16<<20)}
	for i := range l.vmas {
		if anonymous(&l.vmas[i]) {
			starts = append(starts, l.vmas[i].Start)
		}
	}
	var best claim
	most := -1
	for _, a := range starts {
		i := l.at(a)
		if a == 0 || i < 0 || !anonymous(&l.vmas[i]) || l.reservedUpTo(i, a+size) != a+size || !l.endsAt(a+size) {
			continue
		}
		s := span{a, a + size}
		// JDK 27 keeps a little other metadata there, never as much.
		n := within(vm.Classes, s) - within(vm.Metadata, s)
		if n > most && !overlaps(s, vm.Heap) {
			best, most = claim{s, ClassSpace, Layout, rankSpan, ""}, n
		}
	}
	return best, most >= 0
}

// endsAt says that a reservation can end at addr: a mapping ends there, or it
// lies in address space that is only reserved, where neighbours merge.
func (l *layout) endsAt(addr uint64) bool {
	i := l.at(addr - 1)
	return i >= 0 && (l.vmas[i].End == addr || !l.vmas[i].Accessible())
}

func overlaps(s span, r hotspot.Region) bool { return s.start < r.End && r.Start < s.end }

// within counts the addresses, which are in order, inside of s.
func within(addrs []uint64, s span) int {
	from := sort.Search(len(addrs), func(i int) bool { return addrs[i] >= s.start })
	to := sort.Search(len(addrs), func(i int) bool { return addrs[i] >= s.end })
	return to - from
}

// sideTable says whether the memory from the beginning of mapping i on, with
// what is reserved behind it, or at its end, behind something smaller, has the
// size of a collector's table.
func (l *layout) sideTable(i int, tables []hotspot.GCTable) (span, bool) {
	v := &l.vmas[i]
	if v.NoReserve() { // HotSpot commits without it, jemalloc maps with it
		return span{}, false
	}
	for _, t := range tables {
		end := v.Start + uint64(t.Bytes)
		if j := l.at(end - 1); l.reservedUpTo(i, end) == end && l.vmas[j].End == end {
			return span{v.Start, end}, true
		}
	}
	for _, t := range tables {
		if have := v.Size(); have > t.Bytes && have-t.Bytes < t.Bytes {
			return span{v.End - uint64(t.Bytes), v.End}, true
		}
	}
	return span{}, false
}

func alignUp(a, to uint64) uint64 { return (a + to - 1) &^ (to - 1) }
