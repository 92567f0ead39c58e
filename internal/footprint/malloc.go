package footprint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"tare/internal/linux"
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
	maxFreeChunks = 1 << 17
)

// arena is the state of one of glibc's arenas.
type arena struct {
	at          uint64
	systemBytes int64  // what it took from the kernel
	freeBytes   int64  // in the top chunk and in bins; tcaches and fast bins count as used
	free        []span // the same by address, in order
}

// mallocState is what is read of glibc's arenas: the main one first if it is
// known, then the others in the order in which they were made.
type mallocState struct {
	heaps  []arenaHeap
	arenas []arena
}

// readMalloc reads the arenas as they are now: what was read of the memory
// before is forgotten.
func (l *layout) readMalloc() mallocState {
	l.forget()
	m := mallocState{heaps: l.arenaHeaps()}
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
	main := slices.IndexFunc(m.arenas, func(a arena) bool {
		return !slices.ContainsFunc(m.heaps, func(h arenaHeap) bool { return h.start <= a.at && a.at < h.start+arenaSize })
	})
	if main < 0 {
		return
	}
	m.arenas = slices.Concat(m.arenas[main:], m.arenas[:main])
	slices.Reverse(m.arenas[1:])
}

const mainArena, arenasPart = "main arena", "arenas"

// name is the name of the arena whose state lies at an address, "" when it is
// not known.
func (m *mallocState) name(at uint64) string {
	i := slices.IndexFunc(m.arenas, func(a arena) bool { return a.at == at })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("arena %d", i)
}

// claims are the heaps of the arenas.
func (m *mallocState) claims() []claim {
	out := make([]claim, len(m.heaps))
	for i, h := range m.heaps {
		part := arenasPart
		if name := m.name(h.arena); name != "" {
			part += "/" + name
		}
		out[i] = claim{h.span, Malloc, Layout, rankHeader, part}
	}
	return out
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
// change while it is read; it is then cut short.
func (l *layout) walkBin(a *arena, head, at uint64, left *int) {
	for ; at != head && *left > 0; *left-- {
		size, ok := l.chunkSize(at)
		if !ok {
			return
		}
		var fd [8]byte
		if l.mem.ReadMem(fd[:], at+chunkFD) != nil {
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
	r.Allocator = allocatorOf(s.vmas)
	if d := s.vm.Direct; d != nil && d.Bytes > 0 {
		r.count("direct buffers", d.Bytes)
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
	r.Children = append(r.Children, Child{Name: "free, kept by glibc", ResidentBytes: min(kept, r.ResidentBytes)})
	r.Arenas, r.UsedBytes = len(s.malloc.arenas), &used
}

// nameUsed says of each arena what of it is in use.
func (m *mallocState) nameUsed(children []Child) {
	for i := range children {
		c := &children[i]
		if c.Name == arenasPart {
			m.nameUsed(c.Children)
		}
		for n, a := range m.arenas {
			if c.Name == m.name(a.at) || n == 0 && c.Name == mainArena {
				used := a.systemBytes - a.freeBytes
				c.UsedBytes = &used
			}
		}
	}
}

// count adds a child of which the JVM counts what is allocated.
func (r *Row) count(name string, bytes int64) {
	r.Children = append(r.Children, Child{Name: name, ResidentBytes: min(bytes, r.ResidentBytes), How: Counted})
}

// TrackedByJVM is the child of malloc that has what the JVM counts by its use.
const TrackedByJVM = "tracked by the JVM"

// malloc is what is allocated by malloc, by use, as a child of a row.
func (t *Tracking) malloc(row int64) Child {
	all := Child{Name: TrackedByJVM, How: Counted}
	var sum int64
	for _, c := range t.Categories {
		if c.MallocBytes > 0 {
			sum += c.MallocBytes
			all.Children = append(all.Children, Child{Name: c.Name, ResidentBytes: min(c.MallocBytes, row), How: Counted})
		}
	}
	all.ResidentBytes = min(sum, row)
	sortChildren(all.Children)
	return all
}
