package footprint

import (
	"encoding/binary"
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
	free        []span // the same by address
}

// arenaStates reads the arenas' own bookkeeping: they form a ring that the
// first one of heaps leads into.
func (l *layout) arenaStates(heaps []claim) []arena {
	var out []arena
	seen := map[uint64]bool{}
	left := maxFreeChunks
	for _, h := range heaps {
		var info [8]byte
		if l.mem.ReadMem(info[:], h.start) != nil {
			continue
		}
		at := binary.NativeEndian.Uint64(info[:])
		for at != 0 && !seen[at] && len(out) < maxArenas {
			seen[at] = true
			a, next, ok := l.arenaState(at, &left)
			if !ok {
				break
			}
			out = append(out, a)
			at = next
		}
	}
	return out
}

// arenaState reads one arena. It is refused when its top chunk does not end
// where memory of the process ends, or holds more than the arena has.
func (l *layout) arenaState(at uint64, left *int) (a arena, next uint64, ok bool) {
	var b [stateSize]byte
	if l.mem.ReadMem(b[:], at) != nil {
		return arena{}, 0, false
	}
	word := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	a = arena{at: at, systemBytes: int64(word(stateSystemMem))}
	top := word(stateTop)
	size, ok := l.chunkSize(top)
	if !ok || a.systemBytes <= 0 || a.systemBytes > 1<<46 || int64(size) > a.systemBytes || (top+size)%l.page != 0 {
		return arena{}, 0, false
	}
	a.addFree(top, size)
	for i := range stateBinCount {
		l.walkBin(&a, at+stateBins+uint64(i)*16-chunkFD, word(stateBins+i*16), left)
	}
	return a, word(stateNext), a.freeBytes <= a.systemBytes
}

func (a *arena) addFree(at, size uint64) {
	a.free = append(a.free, span{at, at + size})
	a.freeBytes += int64(size)
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
		a.addFree(at, size)
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
	arenas := s.layout.arenaStates(s.layout.arenas())
	if len(arenas) == 0 {
		return
	}
	var free []span
	var used int64
	for _, a := range arenas {
		used += a.systemBytes - a.freeBytes
		free = append(free, a.free...)
	}
	kept := residentIn(free, s.runs, s.layout.page)
	for i := range f.Rows {
		if r := &f.Rows[i]; r.Owner == Malloc {
			r.Children = append(r.Children, Child{Name: "free, kept by glibc", ResidentBytes: kept})
			r.Arenas, r.UsedBytes = len(arenas), &used
		}
	}
}
