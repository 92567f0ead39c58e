package footprint

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// arenaWords lays out the state of an arena at an address: its top chunk, the
// free chunks in its first bin, and the next arena of the ring.
func arenaWords(w words, at, system uint64, top span, free []span, next uint64) {
	for off := uint64(0); off < stateSize; off += 8 {
		w[at+off] = 0
	}
	chunk := func(s span) { w[s.start], w[s.start+8] = 0, uint64(s.size())|1 }
	w[at+stateTop], w[at+stateNext], w[at+stateSystemMem] = top.start, next, system
	chunk(top)
	for i := range uint64(stateBinCount) {
		w[at+stateBins+i*16] = at + stateBins + i*16 - chunkFD // empty
	}
	link := at + stateBins
	for _, s := range free {
		chunk(s)
		w[link] = s.start
		link = s.start + chunkFD
	}
	if len(free) > 0 {
		w[link] = at + stateBins - chunkFD
	}
}

const (
	heapA, stateA = 5 * arenaSize, 5*arenaSize + 0x30
	heapB, stateB = 6 * arenaSize, 6*arenaSize + 0x30
	stateMain     = 0x1000
)

// threeArenas has the main arena, and two whose heaps are known.
func threeArenas() ([]linux.VMA, words) {
	w := words{}
	for _, h := range []uint64{heapA, heapB} {
		w[h], w[h+8], w[h+16], w[h+24] = h+0x30, 0, 0x21000, 0x21000
	}
	arenaWords(w, stateMain, 0x21000, span{0x201000, 0x221000}, nil, stateB)
	arenaWords(w, stateA, 0x21000, span{heapA + 0x20000, heapA + 0x21000}, []span{{heapA + 0x8000, heapA + 0xa000}, {heapA + 0xa000, heapA + 0xb000}}, stateMain)
	arenaWords(w, stateB, 0x21000, span{heapB + 0x10000, heapB + 0x21000}, nil, stateA)
	return []linux.VMA{
		mapping(stateMain, stateMain+page, "rw-p"),
		mapping(0x200000, 0x221000, "rw-p"),
		mapping(heapA, heapA+0x21000, "rw-p"), mapping(heapA+0x21000, heapB, "---p"),
		mapping(heapB, heapB+0x21000, "rw-p"), mapping(heapB+0x21000, heapB+arenaSize, "---p"),
	}, w
}

func TestReadMalloc(t *testing.T) {
	vmas, w := threeArenas()
	m := newLayout(vmas, w, page).readMalloc(allOf(vmas))
	want := []arena{
		{stateMain, 0x21000, 0x20000, []span{{0x201000, 0x221000}}, false},
		{stateA, 0x21000, 0x4000, []span{{heapA + 0x8000, heapA + 0xb000}, {heapA + 0x20000, heapA + 0x21000}}, false},
		{stateB, 0x21000, 0x11000, []span{{heapB + 0x10000, heapB + 0x21000}}, false},
	}
	if !reflect.DeepEqual(m.arenas, want) {
		t.Errorf("got %+v\nwant %+v", m.arenas, want)
	}
	var parts []string
	for _, c := range m.claims() {
		parts = append(parts, c.part)
	}
	if want := []string{"arenas/arena:1", "arenas/arena:2"}; !reflect.DeepEqual(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
}

// An arena that does not look like one does not hide those behind it.
func TestReadMallocPassesOverAnOddArena(t *testing.T) {
	vmas, w := threeArenas()
	w[stateB+stateSystemMem] = 0
	m := newLayout(vmas, w, page).readMalloc(allOf(vmas))
	if len(m.arenas) != 2 || m.arenas[0].at != stateMain || m.arenas[1].at != stateA {
		t.Errorf("got %+v", m.arenas)
	}
}

// A list of free chunks that is not followed to its end is said to be cut: then
// it is not known how much is in use.
func TestReadMallocCut(t *testing.T) {
	for name, next := range map[string]uint64{
		"a list without end":       heapA + 0x8000,
		"a page that is not there": 1 << 40,
	} {
		vmas, w := threeArenas()
		w[heapA+0x8000+chunkFD] = next
		mem := present{w, vmas}
		s := madeUp(nil, vmas)
		s.vm, s.runs, s.layout = &hotspot.VM{}, allOf(vmas), newLayout(vmas, mem, page)
		if s.malloc = s.layout.readMalloc(s.runs); !s.malloc.cut() {
			t.Errorf("%s: not cut: %+v", name, s.malloc.arenas)
		}
		f := &Footprint{Rows: []Row{{Owner: Malloc, ResidentBytes: 1 << 30}}}
		s.nameMalloc(f)
		r := f.row(Malloc)
		free, ok := part(r.Children, PartFreeMalloc)
		if !ok || free.How != Heuristic || r.UsedBytes != nil || !slices.Contains(f.Warnings, cutNote) {
			t.Errorf("%s: row %+v, warnings %q", name, r, f.Warnings)
		}
	}
}

func part(children []Child, id string) (Child, bool) {
	i := slices.IndexFunc(children, func(c Child) bool { return c.ID == id })
	if i < 0 {
		return Child{}, false
	}
	return children[i], true
}

// present is the memory of mappings alone.
type present struct {
	words
	vmas []linux.VMA
}

func (m present) ReadMem(p []byte, addr uint64) error {
	if (&layout{vmas: m.vmas}).at(addr) < 0 {
		return linux.ErrNotResident
	}
	return m.words.ReadMem(p, addr)
}

// changing is a memory that is another one after some readings.
type changing struct {
	words
	after int
	then  words
}

func (c *changing) Forget() {
	if c.after--; c.after == 0 {
		c.words = c.then
	}
}

// An arena that changes while it is read is read again, as it is then.
func TestReadMallocAgainWhenItChanges(t *testing.T) {
	vmas, before := threeArenas()
	then := maps.Clone(before)
	// The two free chunks were joined with the top chunk.
	arenaWords(then, stateA, 0x21000, span{heapA + 0x8000, heapA + 0x21000}, nil, stateMain)
	m := newLayout(vmas, &changing{before, 2, then}, page).readMalloc(allOf(vmas))
	if len(m.arenas) != 3 || m.arenas[1].freeBytes != 0x19000 {
		t.Errorf("got %+v", m.arenas)
	}
	// One that always changes ends, and counts no byte twice.
	m = newLayout(vmas, &restless{words: before}, page).readMalloc(allOf(vmas))
	for _, a := range m.arenas {
		if a.freeBytes > a.systemBytes {
			t.Errorf("%d of %d bytes free", a.freeBytes, a.systemBytes)
		}
	}
}

// restless changes at each reading.
type restless struct {
	words
	n uint64
}

func (r *restless) Forget() {
	r.n++
	r.words[stateA+stateBins] = []uint64{heapA + 0x8000, heapA + 0xa000}[r.n%2]
}

func TestUnion(t *testing.T) {
	got := union([]span{{5, 7}, {1, 3}, {2, 4}, {4, 5}, {10, 12}, {10, 11}})
	if want := []span{{1, 7}, {10, 12}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What hostile memory says of arenas is bounded, and read in bounded time.
func FuzzReadMalloc(f *testing.F) {
	f.Add(uint32(0), uint64(0))
	f.Add(uint32(stateTop/8), uint64(1)<<63)
	f.Add(uint32(stateNext/8), uint64(stateA))
	f.Add(uint32(stateBins/8), uint64(heapA+0x8000))
	f.Fuzz(func(t *testing.T, word uint32, value uint64) {
		vmas, w := threeArenas()
		at := stateA + uint64(word)*8%0x21000&^7
		w[at] = value
		m := newLayout(vmas, w, page).readMalloc(allOf(vmas))
		for _, a := range m.arenas {
			if a.freeBytes < 0 || a.freeBytes > a.systemBytes {
				t.Errorf("%d of %d bytes free", a.freeBytes, a.systemBytes)
			}
			for i, s := range a.free {
				if s.end <= s.start || i > 0 && s.start <= a.free[i-1].end {
					t.Errorf("free %x", a.free)
				}
			}
		}
	})
}

// allOf says that all of the mappings is resident.
func allOf(vmas []linux.VMA) (runs []linux.PageRun) {
	for _, v := range vmas {
		runs = append(runs, linux.PageRun{Start: v.Start, End: v.End})
	}
	return runs
}
