package footprint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"tare.dev/tare/internal/linux"
)

// Offsets in glibc's struct malloc_state on 64 bits, since 2.26 (glibc:
// malloc/malloc.c). What is read by them is checked against what is known of
// the arena, so that another layout shows as no detail, not as a wrong one.
const (
	stateTop       = 96
	stateBins      = 112
	stateBinCount  = 127
	stateNext      = 2160
	stateSystemMem = 2184
	stateSize      = 2200
	chunkFD        = 16 // offset of the forward link in a free chunk

	maxArenas     = 4096
	maxFreeChunks = 1 << 19
)

// arena is the state of one of glibc's arenas.
type arena struct {
	at          uint64
	systemBytes int64  // what it took from the kernel
	freeBytes   int64  // in the top chunk and in bins; tcaches and fast bins count as used
	free        []span // the same by address, in order
	// cut says that not all of its free chunks were looked at: there are too
	// many, or one lies in a page that is not resident.
	cut bool
}

// mallocState is what is read of glibc's arenas: the main one first if it is
// known, then the others in the order in which they were made.
type mallocState struct {
	heaps  []arenaHeap
	arenas []arena
}

// cut says that not all free chunks were looked at.
func (m *mallocState) cut() bool {
	return slices.ContainsFunc(m.arenas, func(a arena) bool { return a.cut })
}

// readMalloc reads the arenas as they are now: what was read of the memory
// before is forgotten.
func (l *layout) readMalloc(runs []linux.PageRun) mallocState {
	l.forget()
	m := mallocState{heaps: l.arenaHeaps(runs)}
	seen := map[uint64]bool{}
	left := maxFreeChunks
	for _, h := range m.heaps {
		// They form a ring that each of their heaps leads into.
		for at := h.arena; at != 0 && !seen[at] && len(seen) < maxArenas; {
			seen[at] = true
			a, next, ok := l.arenaState(at, &left)
			if ok {
				m.arenas = append(m.arenas, a)
			}
			at = next
		}
	}
	m.order()
	return m
}

// order puts the main arena first, which lies in the C library's data. A new
// arena is put behind it into the ring, before all others.
func (m *mallocState) order() {
	main := slices.IndexFunc(m.arenas, func(a arena) bool { return !m.inHeap(a.at) })
	if main < 0 {
		return
	}
	m.arenas = slices.Concat(m.arenas[main:], m.arenas[:main])
	slices.Reverse(m.arenas[1:])
}

// parts are the ids of the parts that arenas are, by the addresses of their
// states.
func (m *mallocState) parts() map[uint64]string {
	out := make(map[uint64]string, len(m.arenas))
	for i, a := range m.arenas {
		out[a.at] = fmt.Sprintf("%s:%d", kindArena, i)
	}
	return out
}

// claims are the heaps of the arenas.
func (m *mallocState) claims() []claim {
	parts := m.parts()
	out := make([]claim, len(m.heaps))
	for i, h := range m.heaps {
		part := PartArenas
		if id := parts[h.arena]; id != "" {
			part = under(PartArenas, id)
		}
		out[i] = claim{h.span, Malloc, Layout, rankHeader, part}
	}
	return out
}

// mainArena claims what the main arena has outside of brk's heap: where brk
// fails, it maps memory piece by piece, without a header (sysmalloc in glibc's
// malloc/malloc.c). A mapping that holds one of its free chunks is such a piece,
// unless more is known of it.
func (l *layout) mainArena(m mallocState) []claim {
	if len(m.arenas) == 0 || m.inHeap(m.arenas[0].at) {
		return nil
	}
	var out []claim
	end := uint64(0)
	for _, f := range m.arenas[0].free { // in order
		i := l.at(f.start)
		if f.start < end || i < 0 || !anonymous(&l.vmas[i]) {
			continue
		}
		v := &l.vmas[i]
		out = append(out, claim{span{v.Start, v.End}, Malloc, Heuristic, rankTable, PartMainArena})
		end = v.End
	}
	return out
}

// inHeap says that an address lies in a heap of an arena.
func (m *mallocState) inHeap(at uint64) bool {
	i := sort.Search(len(m.heaps), func(i int) bool { return m.heaps[i].start > at })
	return i > 0 && at < m.heaps[i-1].start+arenaSize
}

// arenaTries is how often an arena is read that changes meanwhile: the last
// reading then counts, which may miss chunks or know some as they were.
const arenaTries = 3

// arenaState reads one arena, and the address of the next.
func (l *layout) arenaState(at uint64, left *int) (a arena, next uint64, ok bool) {
	for range arenaTries {
		var b, after [stateSize]byte
		if l.mem.ReadMem(b[:], at) != nil {
			return arena{}, 0, false
		}
		a, next, ok = l.arenaOf(at, b[:], left)
		l.forget()
		if l.mem.ReadMem(after[:], at) == nil && b == after {
			break
		}
	}
	return a, next, ok
}

// arenaOf follows the lists of an arena whose state was read. It is refused
// when its top chunk does not end where memory of the process ends, or when it
// holds more than the arena has.
func (l *layout) arenaOf(at uint64, state []byte, left *int) (a arena, next uint64, ok bool) {
	word := func(off int) uint64 { return binary.NativeEndian.Uint64(state[off:]) }
	a, next = arena{at: at, systemBytes: int64(word(stateSystemMem))}, word(stateNext)
	top := word(stateTop)
	size, ok := l.chunkSize(top)
	if !ok || a.systemBytes <= 0 || a.systemBytes > 1<<46 || int64(size) > a.systemBytes || (top+size)%l.page != 0 {
		return arena{}, next, false
	}
	a.free = append(a.free, span{top, top + size})
	for i := range stateBinCount {
		l.walkBin(&a, at+stateBins+uint64(i)*16-chunkFD, word(stateBins+i*16), left)
	}
	a.free = union(a.free)
	for _, f := range a.free {
		a.freeBytes += f.size()
	}
	return a, next, a.freeBytes <= a.systemBytes
}

// union joins spans that overlap or touch: a chunk that was joined to its
// neighbour while the lists were read is known alone and as a part.
func union(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// forget makes the next reads see the memory as it is then.
func (l *layout) forget() {
	if m, ok := l.mem.(interface{ Forget() }); ok {
		m.Forget()
	}
}

// chunkSize reads the size of a chunk; its low bits are flags.
func (l *layout) chunkSize(at uint64) (uint64, bool) {
	var h [16]byte
	if at == 0 || at%16 != 0 || l.mem.ReadMem(h[:], at) != nil {
		return 0, false
	}
	size := binary.NativeEndian.Uint64(h[8:]) &^ 7
	return size, size >= 16 && size < 1<<46
}

// walkBin follows a bin's list of free chunks back to its head. The list may
// change while it is read, and then leads to what is no chunk: it ends there.
func (l *layout) walkBin(a *arena, head, at uint64, left *int) {
	for ; at != head; *left-- {
		var fd [8]byte
		if *left <= 0 || l.mem.ReadMem(fd[:], at+chunkFD) != nil {
			a.cut = true
			return
		}
		size, ok := l.chunkSize(at)
		if !ok {
			return
		}
		a.free = append(a.free, span{at, at + size})
		at = binary.NativeEndian.Uint64(fd[:])
	}
}

// residentIn counts the resident bytes of spans, of whole pages only: a page
// that a neighbour in use shares cannot be given back.
func residentIn(spans []span, runs []linux.PageRun, page uint64) (n int64) {
	sort.Slice(spans, func(i, j int) bool { return spans[i].start < spans[j].start })
	i := 0
	for _, s := range spans {
		s = span{alignUp(s.start, page), s.end &^ (page - 1)}
		for i < len(runs) && runs[i].End <= s.start {
			i++
		}
		if s.start >= s.end {
			continue // less than a page
		}
		for j := i; j < len(runs) && runs[j].Start < s.end; j++ {
			n += int64(min(runs[j].End, s.end) - max(runs[j].Start, s.start))
		}
	}
	return n
}

// nameMalloc adds what the arenas say of themselves to the row of malloc.
func (s *scan) nameMalloc(f *Footprint) {
	r := f.row(Malloc)
	r.Allocator = s.allocator()
	if d := s.vm.Direct; d != nil && d.Bytes > 0 {
		r.count(PartDirectBuffers, d.Bytes)
	}
	if s.asked != nil && s.asked.Tracking != nil {
		r.Children = append(r.Children, s.asked.Tracking.malloc(r.ResidentBytes))
	}
	if len(s.malloc.arenas) == 0 {
		return
	}
	var free []span
	var used int64
	for _, a := range s.malloc.arenas {
		used += a.systemBytes - a.freeBytes
		free = append(free, a.free...)
	}
	kept := residentIn(free, s.runs, s.layout.page)
	s.malloc.nameUsed(r.Children)
	keptPart := NewChild(PartFreeMalloc, min(kept, r.ResidentBytes))
	r.Arenas, r.UsedBytes = len(s.malloc.arenas), &used
	if s.malloc.cut() {
		keptPart.How, r.UsedBytes = Heuristic, nil
		f.Warnings = append(f.Warnings, cutNote)
	}
	r.Children = append(r.Children, keptPart)
}

// cutNote says what is not known where free chunks were not all looked at.
const cutNote = "malloc: not all free chunks could be looked at, for there are too many of them or their pages are swapped out: glibc keeps at least as much as is shown, and how much is in use is not known"

// nameUsed says of each arena what of it is in use.
func (m *mallocState) nameUsed(children []Child) {
	parts, used := m.parts(), map[string]int64{}
	for i, a := range m.arenas {
		if a.cut {
			continue
		}
		used[parts[a.at]] = a.systemBytes - a.freeBytes
		if i == 0 {
			used[PartMainArena] = used[parts[a.at]]
		}
	}
	setUsed(children, used)
}

// setUsed says of children, and theirs, what of them is in use, by their ids.
func setUsed(children []Child, used map[string]int64) {
	for i := range children {
		c := &children[i]
		if n, ok := used[c.ID]; ok {
			c.UsedBytes = &n
		}
		if c.ID == PartArenas {
			setUsed(c.Children, used)
		}
	}
}

// count adds a child of which the JVM counts what is allocated.
func (r *Row) count(id string, bytes int64) {
	c := NewChild(id, min(bytes, r.ResidentBytes))
	c.How = Counted
	r.Children = append(r.Children, c)
}

// malloc is what is allocated by malloc, by use, as a child of a row.
func (t *Tracking) malloc(row int64) Child {
	all := NewChild(PartTracked, 0)
	all.How = Counted
	var sum int64
	for _, c := range t.Categories {
		if c.MallocBytes > 0 {
			sum += c.MallocBytes
			all.Children = append(all.Children, Child{ID: kindTracked + ":" + c.Name, Name: c.Name, ResidentBytes: min(c.MallocBytes, row), How: Counted})
		}
	}
	all.ResidentBytes = min(sum, row)
	sortChildren(all.Children)
	return all
}
