package footprint

import (
	"reflect"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// Tables are found alone, side by side, with what is reserved behind them, and
// not where their size has another owner or another mapping's flags.
func TestClaimTables(t *testing.T) {
	vmas := []linux.VMA{
		mapping(1*mib, 5*mib, "rw-p"), mapping(5*mib, 9*mib, "---p"), // one of 8 MiB, half used
		mapping(20*mib, 36*mib, "rw-p"), // two
		mapping(40*mib, 41*mib, "rw-p"), mapping(41*mib, 49*mib, "rw-p"),
		mapping(50*mib, 53*mib, "rw-p"),
		{Start: 60 * mib, End: 68 * mib, Perms: "rw-p", Flags: "rd wr nr"},
		{Start: 70 * mib, End: 78 * mib, Perms: "rw-p", Path: "/a", Inode: 1},
	}
	tables := []hotspot.GCTable{{Name: "mark bitmap", Bytes: 8 * mib}}
	var got []span
	// Not a table: a large chunk of malloc of that size.
	vmas = append(vmas, mapping(80*mib, 88*mib, "rw-p"))
	mem := words{80 * mib: 0, 80*mib + 8: 8*mib | mmapped}
	segs, err := partition(t.Context(), vmas, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newLayout(vmas, mem, page).claimTables(segs, tables, nil, Layout) {
		if c.owner != GC || c.part != "mark-bitmap" {
			t.Errorf("claim %+v", c)
		}
		got = append(got, c.span)
	}
	want := []span{{1 * mib, 9 * mib}, {20 * mib, 36 * mib}, {41 * mib, 49 * mib}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The kernel merges tables with chunks of malloc: what a chunk leaves of a mapping is a
// table where it has the size of one, and a stack where it is behind a guard.
func TestTablesBesideChunks(t *testing.T) {
	vmas := []linux.VMA{
		mapping(1*mib, 5*mib, "rw-p"),                                   // a table, a chunk, and two tables
		mapping(9*mib, 10*mib, "---p"), mapping(10*mib, 13*mib, "rw-p"), // a stack, and a chunk
		mapping(19*mib, 19*mib+4096, "---p"), mapping(20*mib, 23*mib, "rw-p"), // no guard: there is a gap
		{Start: 30 * mib, End: 33 * mib, Perms: "rw-p", Flags: "rd wr nr"}, // of another allocator
	}
	tables := []hotspot.GCTable{{Name: "mark bitmap", Bytes: mib}}
	l := newLayout(vmas, words{}, page)
	chunk := func(at, size uint64) claim {
		return claim{span{at * mib, (at + size) * mib}, Malloc, Layout, rankHeader, PartLargeChunks}
	}
	var got []span
	for _, c := range []struct {
		mapping int
		chunks  []claim
	}{{0, []claim{chunk(2, 1)}}, {2, []claim{chunk(11, 2)}}, {4, []claim{chunk(21, 2)}}, {4, nil}, {5, []claim{chunk(31, 2)}}} {
		v := &vmas[c.mapping]
		g := segment{span: span{v.Start, v.End}, vma: v, owner: Unattributed}
		for _, claimed := range l.tablesBeside(c.chunks, g, tables, []int64{mib}, Layout) {
			if claimed.owner != GC || claimed.part != "mark-bitmap" {
				t.Errorf("claim %+v", claimed)
			}
			got = append(got, claimed.span)
		}
	}
	if want := []span{{1 * mib, 2 * mib}, {3 * mib, 5 * mib}, {20 * mib, 21 * mib}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// What lies beside a table is the collector's as far as its tables reach, and all
// of it somebody else's where more goes on than they can take.
func TestAdoptNeighbours(t *testing.T) {
	const at = 1 << 40
	table := segment{span: span{at, at + 2*mib}, owner: GC, how: Layout, part: "mark-bitmap"}
	card := segment{span: span{at, at + 2*mib}, owner: GC, how: Exact, part: partCardTable}
	stacks := segment{span: span{at, at + 2*mib}, owner: GC, how: Layout, part: partMarkStacks}
	nobody := func(from, to uint64, path string) segment {
		return segment{span: span{at + from*mib, at + to*mib}, owner: Unattributed, vma: &linux.VMA{Start: at + from*mib, End: at + to*mib, Perms: "rw-p", Path: path}}
	}
	for _, c := range []struct {
		name  string
		first segment
		rest  []segment
		most  int64
		want  []bool // of rest: is the collector's
	}{
		{"within the bound", table, []segment{nobody(2, 4, ""), nobody(4, 5, "")}, 5 * mib, []bool{true, true}},
		{"beyond the bound", table, []segment{nobody(2, 4, ""), nobody(4, 6, "")}, 5 * mib, []bool{false, false}},
		{"the card table has an address of its own", card, []segment{nobody(2, 7, "")}, 5 * mib, []bool{true}},
		{"mark stacks are in no bound", stacks, []segment{nobody(2, 7, "")}, 5 * mib, []bool{true}},
		{"not beside it", table, []segment{nobody(3, 4, "")}, 5 * mib, []bool{false}},
		{"a gap ends what is beside it", table, []segment{nobody(2, 3, ""), nobody(4, 5, "")}, 5 * mib, []bool{true, false}},
		{"the stack of the process", table, []segment{nobody(2, 3, "[stack]")}, 5 * mib, []bool{false}},
		{"two on two sides share it", table, []segment{nobody(2, 3, ""), {span: span{at + 3*mib, at + 4*mib}, owner: GC, how: Layout}, nobody(4, 6, "")}, 5 * mib, []bool{true, true, false}},
		{"a collector without tables", table, []segment{nobody(2, 3, "")}, 0, []bool{false}},
	} {
		segs := append([]segment{c.first}, c.rest...)
		adoptNeighbours(segs, c.most)
		for i, want := range c.want {
			if got := segs[i+1].owner == GC; got != want {
				t.Errorf("%s: segment %d is the collector's: %t", c.name, i, got)
			}
		}
	}
}

// What the tables may take is by collector.
func TestTableBytes(t *testing.T) {
	const slack = 6 * mib
	heap := hotspot.Region{Start: 1 << 40, End: 1<<40 + 512*mib}
	tables := []hotspot.GCTable{{Name: "page and forwarding tables", Bytes: 16 * mib}, {Name: "mark stacks", Bytes: 8 << 30}, {Name: "other tables", Bytes: mib}}
	for _, c := range []struct {
		vm   hotspot.VM
		want int64
	}{
		{hotspot.VM{Collector: "G1", Major: 17, MarkStackBytes: mib}, 4*mib + 16*mib + mib + slack},
		{hotspot.VM{Collector: "G1", Major: 25, MarkStackBytes: mib}, 4*mib + 8*mib + mib + slack},
		{hotspot.VM{Collector: "Parallel"}, 2*mib + 32*mib + slack},
		{hotspot.VM{Collector: "ZGC"}, 16*mib + slack},
		{hotspot.VM{Collector: "Epsilon"}, 0},
	} {
		c.vm.Heap, c.vm.GCTables = heap, tables
		if got := tableBytes(&c.vm); got != c.want {
			t.Errorf("%s %d: %d, want %d", c.vm.Collector, c.vm.Major, got, c.want)
		}
	}
}

// Where more has the size of tables than the collector can have, the highest are
// kept, and are guessed; mark stacks and other owners are in no bound.
func TestBoundTables(t *testing.T) {
	at := func(mb uint64, o Owner, part string) claim {
		return claim{span: span{mb * mib, (mb + 2) * mib}, owner: o, how: Layout, rank: rankTable, part: part}
	}
	claims := []claim{at(10, GC, ""), at(40, GC, "mark-bitmap"), at(20, Malloc, ""), at(30, GC, ""), at(5, GC, partMarkStacks)}
	if got := boundTables(claims, 6*mib); !reflect.DeepEqual(got, claims) {
		t.Errorf("within the bound: %+v", got)
	}
	var got []span
	for _, c := range boundTables(claims, 5*mib) {
		got = append(got, c.span)
		if want := c.owner == GC; (c.how == Heuristic) != want {
			t.Errorf("%+v: guessed is %t", c, !want)
		}
	}
	if want := []span{claims[1].span, claims[2].span, claims[3].span, claims[4].span}; !reflect.DeepEqual(got, want) {
		t.Errorf("kept %x, want %x", got, want)
	}
}
