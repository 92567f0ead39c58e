package footprint

import (
	"fmt"
	"os"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// weighOutside weighs as if the memory of the process were closed.
func weighOutside(t *testing.T, pid int) *Footprint {
	t.Helper()
	proc := linux.NewFS("/proc")
	target, err := process.Find(proc, pid)
	if err != nil {
		t.Fatal(err)
	}
	s := newScan(proc, target)
	s.jvm = readCounted(reading{proc: proc, target: target, timed: s.timed})
	if err := s.readPages(t.Context(), proc); err != nil {
		t.Fatal(err)
	}
	s.layOut(closed{}, uint64(os.Getpagesize()))
	return s.footprint(attributed(t, s))
}

// What the layout alone tells of a JVM agrees with what the JVM says of itself,
// so that closed memory costs detail, not truth.
func TestOutsideAgreesWithTheJVM(t *testing.T) {
	for _, c := range []struct {
		major int
		gc    string
	}{{8, "Parallel"}, {11, "G1"}, {17, "Serial"}, {17, "G1"}, {21, "Parallel"}, {25, "G1"}, {25, "ZGC"}, {27, "Serial"}} {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.gc), func(t *testing.T) {
			flag := map[string]string{"ZGC": "-XX:+UseZGC"}[c.gc]
			if flag == "" {
				flag = "-XX:+Use" + c.gc + "GC"
			}
			p := jvmtest.StartFiller(t, jvmtest.Java(t, c.major), []string{"-Xmx128m", "-Xss512k", flag}, 50, 100, 50)
			outside := weighOutside(t, p.PID())
			inside, err := Weigh(t.Context(), p.PID(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if outside.JDK != inside.JDK || outside.Collector != inside.Collector || outside.Heap == nil || outside.Heap.CapacityBytes != inside.Heap.CapacityBytes {
				t.Errorf("JDK %s %s, heap %+v; want %s %s", outside.JDK, outside.Collector, outside.Heap, inside.JDK, inside.Collector)
			}
			for _, o := range []Owner{JavaHeap, CDS, CodeCache, ThreadStacks} {
				if c.gc == "ZGC" && o == JavaHeap {
					continue // named by the kernel, and ZGC never rests
				}
				checkAlike(t, o, outside, inside)
			}
			a, _ := outside.Row(JavaHeap)
			b, _ := inside.Row(JavaHeap)
			if d := *a.ReservedBytes - *b.ReservedBytes; c.gc != "ZGC" && (d < -1<<20 || d > 1<<20) {
				t.Errorf("a heap of %d bytes by the layout, %d by the JVM", *a.ReservedBytes, *b.ReservedBytes)
			}
			most := outside.RSSBytes / 20
			// There metaspace, or the collector's tables, have no shape to be
			// known by.
			if c.major < 16 || c.gc == "ZGC" {
				most = outside.RSSBytes / 6
			}
			if rest, _ := outside.Row(Unattributed); rest.ResidentBytes > most {
				t.Errorf("%d of %d bytes unattributed", rest.ResidentBytes, outside.RSSBytes)
			}
		})
	}
}

// checkAlike allows what the JVM touches between two weighings, and what the
// layout does not show: the code cache's own tables, and a collector's table that
// has the size of a stack, with a gap below.
func checkAlike(t *testing.T, o Owner, a, b *Footprint) {
	t.Helper()
	x, _ := a.Row(o)
	y, _ := b.Row(o)
	if d := x.ResidentBytes - y.ResidentBytes; d > 768<<10 || d < -256<<10 {
		t.Errorf("%s: %d bytes by the layout, %d by the JVM", o, x.ResidentBytes, y.ResidentBytes)
	}
}

// The heap's place is where most nearly as much is accessible as is committed, of
// the ranges of its size without a gap.
func TestHeapBySize(t *testing.T) {
	const a = 0x700000000000
	archived := linux.VMA{Start: a + 3*mib, End: a + 4*mib, Perms: "rw-p", Inode: 5, Path: "/jdk/lib/server/classes.jsa"}
	file := linux.VMA{Start: a + 22*mib, End: a + 23*mib, Perms: "r--p", Inode: 6, Path: "/lib/x.so"}
	vmas := []linux.VMA{
		mapping(a, a+2*mib, "rw-p"), mapping(a+2*mib, a+3*mib, "---p"), archived, // 4 MiB, 3 of them accessible
		mapping(a+8*mib, a+9*mib, "rw-p"), mapping(a+9*mib, a+12*mib, "---p"), // 4 MiB, 1 accessible
		mapping(a+16*mib, a+18*mib, "rw-p"), mapping(a+19*mib, a+20*mib, "rw-p"), // a gap
		mapping(a+21*mib, a+22*mib, "rw-p"), file, mapping(a+23*mib, a+25*mib, "rw-p"), // a file between
	}
	l := newLayout(vmas, closed{}, page)
	for committed, want := range map[int64]uint64{3 * mib: a, 4 * mib: a, mib: a + 8*mib, 0: a + 8*mib} {
		if got, ok := l.heapBySize([]int64{4 * mib}, committed); !ok || got != (span{want, want + 4*mib}) {
			t.Errorf("%d committed: %x, %v, want it at %x", committed, got, ok, uint64(want))
		}
	}
	if got, ok := l.heapBySize([]int64{5 * mib}, 0); ok {
		t.Errorf("no 5 MiB are in one piece, and found %x", got)
	}
}
