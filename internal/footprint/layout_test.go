package footprint

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// words is a memory of single words, the rest unreadable.
type words map[uint64]uint64

func (w words) ReadMem(p []byte, addr uint64) error {
	for i := 0; i < len(p); i += 8 {
		v, ok := w[addr+uint64(i)]
		if !ok {
			return errors.New("not there")
		}
		binary.NativeEndian.PutUint64(p[i:], v)
	}
	return nil
}

const (
	page = 4096
	mib  = 1 << 20
)

func mapping(start, end uint64, perms string) linux.VMA {
	return linux.VMA{Start: start, End: end, Perms: perms}
}

func spans(claims []claim) (out []span) {
	for _, c := range claims {
		out = append(out, c.span)
	}
	return out
}

func TestArenas(t *testing.T) {
	const a, b = 5 * arenaSize, 6 * arenaSize
	vmas := []linux.VMA{
		// Two heaps of arenas whose accessible parts touch nothing else, the
		// second one merged with memory below it.
		mapping(a, a+0x21000, "rw-p"),
		mapping(a+0x21000, b, "---p"),
		mapping(b, b+0x40000, "rw-p"),
		mapping(7*arenaSize-mib, 7*arenaSize+mib, "rw-p"),
	}
	mem := words{
		a: a + 0x30, a + 8: 0, a + 16: 0x20000, a + 24: 0x21000,
		// Not a heap: it has opened less than it uses.
		b: b + 0x30, b + 8: 0, b + 16: 0x40000, b + 24: 0x21000,
		7 * arenaSize: a + 0x30, 7*arenaSize + 8: a, 7*arenaSize + 16: mib, 7*arenaSize + 24: mib,
	}
	m := mallocState{heaps: newLayout(vmas, mem, page).arenaHeaps(allOf(vmas))}
	got := spans(m.claims())
	want := []span{{a, b}, {7 * arenaSize, 7*arenaSize + mib}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestChunks(t *testing.T) {
	const a = 0x7f0000000000
	vmas := []linux.VMA{mapping(a, a+0x100000, "rw-p")}
	mem := words{
		a: 0, a + 8: 0x21000 | mmapped,
		a + 0x21000: 0, a + 0x21008: 0x30000 | mmapped, // a neighbour that merged
		a + 0x52000: 0, a + 0x52008: 0x10000 - 16 | mmapped, // glibc 2.43, behind a gap
		a + 0x63000: 0, a + 0x63008: 0x500000 | mmapped, // would reach beyond the mapping
		a + 0x64000: 0, a + 0x64008: 0x1000 | 1, // an ordinary chunk's size
	}
	probes := allProbes
	got := spans(newLayout(vmas, mem, page).chunks(span{a, a + 0x100000}, &probes))
	want := []span{{a, a + 0x21000}, {a + 0x21000, a + 0x51000}, {a + 0x52000, a + 0x62000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The kernel joins what malloc mapped to memory of the JVM's: the JVM then says
// one use of the whole mapping, its own.
func TestChunksInAMappingOfTheJVM(t *testing.T) {
	const a = 0x7f0000000000
	vmas := []linux.VMA{mapping(a, a+0x100000, "rw-p")}
	mem := words{a: 0, a + 8: 0x21000 | mmapped}
	s := madeUp(describedHotSpot{&hotspot.VM{Major: 25}}, vmas)
	s.mapped = []attach.NMTRegion{{Region: hotspot.Region{Start: a, End: a + 0x100000}, Category: "GC"}}
	s.layOut(mem, page)
	owners := map[span]Owner{}
	for _, g := range attributed(t, s) {
		owners[g.span] = g.owner
	}
	want := map[span]Owner{{a, a + 0x21000}: Malloc, {a + 0x21000, a + 0x100000}: GC}
	if !reflect.DeepEqual(owners, want) {
		t.Errorf("got %v, want %v", owners, want)
	}
}

func TestStacks(t *testing.T) {
	const a = 0x7f0000000000
	vmas := []linux.VMA{
		mapping(a, a+page, "---p"),
		// A stack of 1 MiB, guard included, and something that merged.
		mapping(a+page, a+mib+0x3000, "rw-p"),
	}
	l := newLayout(vmas, words{}, page)
	got := spans(l.stacks([]stackPointer{{1, a + mib - 64}}, []int64{mib}))
	if want := []span{{a + page, a + mib}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if l.looksLikeStack(1, []int64{mib}) {
		t.Error("a mapping that is larger than a stack looks like one")
	}
	if !l.looksLikeStack(1, []int64{mib + 0x3000}) {
		t.Error("guard and stack of the right size do not look like a stack")
	}
}

// The stack of a thread that ended is kept by glibc with its guard, and could
// by its size end with a card table.
func TestStackThatCouldBeATable(t *testing.T) {
	const a = 0x7f0000000000
	vmas := []linux.VMA{
		mapping(a, a+3*page, "---p"),
		mapping(a+3*page, a+mib, "rw-p"),
		// Without a guard it is the table.
		mapping(a+2*mib, a+3*mib-3*page, "rw-p"),
	}
	s := madeUp(describedHotSpot{&hotspot.VM{StackBytes: []int64{mib}, GCTables: []hotspot.GCTable{{Name: "card table", Bytes: 768 << 10}}}}, vmas)
	s.layOut(words{}, page)
	var got []Owner
	for _, g := range attributed(t, s) {
		if g.vma.Writable() {
			got = append(got, g.owner)
		}
	}
	if want := []Owner{ThreadStacks, GC, GC}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestClassSpace(t *testing.T) {
	const gib = 1 << 30
	// JDK 8: the class space begins where the heap ends, and their accessible
	// parts merged.
	vmas := []linux.VMA{
		mapping(gib-256*mib, gib+mib, "rw-p"),
		mapping(gib+mib, 2*gib, "---p"),
		// Another GiB that is reserved, for something else.
		mapping(8*gib, 9*gib, "---p"),
	}
	vm := &hotspot.VM{
		Major: 8, ClassSpaceBytes: gib,
		Heap:     hotspot.Region{Start: gib - 256*mib, End: gib},
		Classes:  []uint64{gib + 0x28, gib + 0x4000},
		Metadata: []uint64{0x7f0000000000},
	}
	got, ok := newLayout(vmas, words{}, page).classSpace(vm)
	if want := (span{gib, 2 * gib}); !ok || got.span != want || got.owner != ClassSpace {
		t.Errorf("got %x (%v), want %x", got, ok, want)
	}
	vm.ClassSpaceBytes = 512 * mib
	if got, ok := newLayout(vmas[:2], words{}, page).classSpace(vm); ok && overlaps(got.span, vm.Heap) {
		t.Errorf("class space %x lies in the heap", got.span)
	}
}

func TestMetadata(t *testing.T) {
	const a = 0x7f0000000000
	vmas := []linux.VMA{
		mapping(a, a+18*mib, "rw-p"),
		mapping(a+18*mib, a+64*mib, "---p"),
		mapping(a+64*mib, a+65*mib, "rw-p"),
	}
	l := newLayout(vmas, words{}, page)
	got := spans(l.metadata([]uint64{a + 8, a + 100, a + 17*mib}, rootChunkSize))
	covered := func(addr uint64) bool {
		for _, s := range got {
			if s.start <= addr && addr < s.end {
				return true
			}
		}
		return false
	}
	for addr, want := range map[uint64]bool{a: true, a + 16*mib: true, a + 18*mib - 1: true, a + 60*mib: true, a + 64*mib: false} {
		if covered(addr) != want {
			t.Errorf("%#x covered: %v, in %x", addr, !want, got)
		}
	}
}

func TestMappingOwner(t *testing.T) {
	for path, want := range map[string]Owner{
		"[heap]":                       Malloc,
		"[stack]":                      ThreadStacks,
		"[vdso]":                       JVMOther,
		"[anon: glibc: malloc arena]":  Malloc,
		"/jdk/lib/server/classes.jsa":  CDS,
		"/app/cache.aot":               CDS,
		"/tmp/hsperfdata_user/42":      JVMOther,
		"/memfd:java_heap (deleted)":   JavaHeap,
		"/jdk/lib/libjvm.so (deleted)": MappedFiles,
		"/app/app.jar":                 MappedFiles,
		"/dev/zero (deleted)":          MappedFiles,
		"":                             Unattributed,
	} {
		v := linux.VMA{Path: path, Perms: "r--p"}
		if path != "" && path[0] == '/' {
			v.Inode = 1
		}
		if got := mappingClaim(&v).owner; got != want {
			t.Errorf("%s belongs to %s, want %s", path, got, want)
		}
	}
}

// A JVM that says nothing of itself still adds up.
func TestFootprintOfTheKernelAlone(t *testing.T) {
	vmas := []linux.VMA{mapping(page, 5*page, "rw-p"), {Start: 8 * page, End: 9 * page, Perms: "r--p", Inode: 3, Path: "/a/b.jar"}}
	s := madeUp(openJ9{}, vmas)
	s.rollup, s.runs = linux.VMA{PSS: 5}, []linux.PageRun{{Start: page, End: 2 * page}, {Start: 8 * page, End: 10 * page}}
	s.layOut(closed{}, page)
	f := s.footprint(attributed(t, s))
	if f.RSSBytes != 3*page || f.PSSBytes != 5 {
		t.Errorf("Rss %d, Pss %d", f.RSSBytes, f.PSSBytes)
	}
	files, _ := f.Row(MappedFiles)
	rest, _ := f.Row(Unattributed)
	if files.ResidentBytes != page || rest.ResidentBytes != 2*page {
		t.Errorf("files %d, rest %d", files.ResidentBytes, rest.ResidentBytes)
	}
	if want := []Child{{ID: "file:b.jar", Name: "b.jar", ResidentBytes: page, Children: []Child{{ID: "read-only", Name: "read-only", ResidentBytes: page}}}}; !reflect.DeepEqual(files.Children, want) {
		t.Errorf("children %v", files.Children)
	}
}
