package footprint

import (
	"strings"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// madeUp is a made-up JVM with mappings of which no page is resident.
func madeUp(j jvm, vmas []linux.VMA) *scan {
	return &scan{target: &process.Target{PID: 1}, pageView: pageView{vmas: vmas}, jvmView: jvmView{jvm: j}}
}

// guessing is a made-up JVM of which little is known: what the mappings alone
// make of it.
func guessing(vmas []linux.VMA, vm hotspot.VM, mem hotspot.Memory) *scan {
	s := madeUp(describedHotSpot{&vm}, vmas)
	s.runs, s.stackLimit = allOf(vmas), 8*mib
	s.layOut(mem, page)
	s.malloc = s.layout.readMalloc(s.runs)
	return s
}

// What is guessed is said to be, and what cannot be known has no owner.
func TestGuesses(t *testing.T) {
	const at = 1 << 40
	heap := hotspot.Region{Start: 1 << 42, End: 1<<42 + 1<<30}
	jemalloc := linux.VMA{Start: 1 << 30, End: 1<<30 + page, Perms: "r-xp", Path: "/lib/libjemalloc.so.2", Inode: 5}
	for _, c := range []struct {
		name   string
		vmas   []linux.VMA
		vm     hotspot.VM
		mem    hotspot.Memory
		change func(*scan)
		want   Owner
		how    How
		doubt  string // a part of the warning
	}{
		{name: "the size of a default stack, and no guard", vmas: []linux.VMA{mapping(at, at+8*mib, "rw-p")}, want: Unattributed},
		{name: "behind a guard", vmas: []linux.VMA{mapping(at-page, at, "---p"), mapping(at, at+8*mib, "rw-p")}, want: ThreadStacks, how: Layout},
		{name: "behind a reservation", vmas: []linux.VMA{mapping(at-64*mib, at, "---p"), mapping(at, at+8*mib, "rw-p")}, want: ThreadStacks, how: Heuristic, doubt: "thread-stacks"},
		{
			name: "another limit", vmas: []linux.VMA{mapping(at-page, at, "---p"), mapping(at, at+8*mib, "rw-p")},
			change: func(s *scan) { s.stackLimit = 64 * mib }, want: Unattributed,
		},
		{
			name: "a stack of that limit", vmas: []linux.VMA{mapping(at-page, at, "---p"), mapping(at, at+64*mib, "rw-p")},
			change: func(s *scan) { s.stackLimit = 64 * mib }, want: ThreadStacks, how: Layout,
		},
		{
			name: "the stack of a goroutine in its heap", vmas: []linux.VMA{mapping(at, at+64*mib, "rw-p")},
			change: func(s *scan) { s.sps = []stackPointer{{9, at + 5*mib}} }, want: Unattributed,
		},
		{
			name: "a stack pointer in a mapping as large as a stack", vmas: []linux.VMA{mapping(at, at+4*mib, "rw-p")},
			change: func(s *scan) { s.sps = []stackPointer{{9, at + 3*mib}} }, want: ThreadStacks, how: Heuristic, doubt: "thread-stacks",
		},
		{
			name: "the size of a table", vmas: []linux.VMA{mapping(at, at+16*mib, "rw-p")},
			vm: hotspot.VM{Heap: heap, Collector: "G1", GCTables: []hotspot.GCTable{{Name: "mark bitmap", Bytes: 16 * mib}}}, want: GC, how: Layout,
		},
		{
			name: "the size of a table, with musl", vmas: []linux.VMA{mapping(at, at+16*mib, "rw-p")},
			vm:     hotspot.VM{Heap: heap, Collector: "G1", GCTables: []hotspot.GCTable{{Name: "mark bitmap", Bytes: 16 * mib}}},
			change: func(s *scan) { s.target.Musl = true }, want: GC, how: Heuristic, doubt: "gc:",
		},
		{
			name: "the size of a table, with Epsilon", vmas: []linux.VMA{mapping(at, at+16*mib, "rw-p")},
			vm: hotspot.VM{Heap: heap, Collector: "Epsilon", GCTables: []hotspot.GCTable{{Name: "mark bitmap", Bytes: 16 * mib}}}, want: Unattributed,
		},
		{
			name: "behind class metadata of JDK 8", vmas: []linux.VMA{mapping(at, at+32*mib, "rw-p")},
			vm: hotspot.VM{Major: 8, Metadata: []uint64{at + page}}, want: Metaspace, how: Heuristic, doubt: "metaspace",
		},
		{name: "another allocator", vmas: []linux.VMA{jemalloc, mapping(at, at+32*mib, "rw-p")}, want: Malloc, how: Heuristic, doubt: "malloc"},
		{
			name: "another allocator that is mapped, and not in use", vmas: []linux.VMA{jemalloc, mapping(at, at+32*mib, "rw-p")},
			change: func(s *scan) { s.malloc.arenas = []arena{{systemBytes: 20 * mib}} }, want: Unattributed,
		},
		{name: "named by glibc", vmas: []linux.VMA{{Start: at, End: at + mib, Perms: "rw-p", Path: "[anon: glibc: malloc arena]"}}, want: Malloc, how: Exact},
		{name: "a stack named by glibc", vmas: []linux.VMA{{Start: at, End: at + mib, Perms: "rw-p", Path: "[anon: glibc: pthread user stack: 17]"}}, want: ThreadStacks, how: Exact},
		{
			name: "a stack named by the program", vmas: []linux.VMA{mapping(at-page, at, "---p"), {Start: at, End: at + 8*mib, Perms: "rw-p", Path: "[anon:worker]"}},
			want: ThreadStacks, how: Layout,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := c.mem
			if mem == nil {
				mem = closed{}
			}
			s := guessing(c.vmas, c.vm, mem)
			if c.change != nil {
				c.change(s)
			}
			f := s.footprint(attributed(t, s))
			size := c.vmas[len(c.vmas)-1].Size()
			r := f.row(c.want)
			if r.ResidentBytes < size || c.how != "" && r.How != c.how {
				t.Errorf("%s is %+v, want %d bytes as %s", c.want, r, size, c.how)
			}
			if got := strings.Join(f.Warnings, "\n"); c.doubt == "" && got != "" || !strings.Contains(got, c.doubt) {
				t.Errorf("warnings %q, want one of %q", got, c.doubt)
			}
		})
	}
}

// Where brk fails, the main arena maps memory: it is malloc's.
func TestMainArenaOutsideOfBrk(t *testing.T) {
	vmas, w := threeArenas() // its main arena is at no [heap]
	s := guessing(vmas, hotspot.VM{}, present{w, vmas})
	f := s.footprint(attributed(t, s))
	main, ok := part(f.row(Malloc).Children, PartMainArena)
	if !ok || main.ResidentBytes != 0x21000 {
		t.Errorf("malloc %+v", f.row(Malloc))
	}
}
