package footprint_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/nativetest"
	"tare.dev/tare/internal/testkit/results"
)

// nativeStep is memory that something else in the process than the JVM takes.
type nativeStep struct {
	step
	since int // the first JDK that can
	// shared says that it is mapped as a file is, but of a file in memory, which
	// the kernel cannot drop.
	shared bool
}

var nativeOut = flag.String("truth.native.out", "", "file for the table of rows against what libraries hold, in Markdown")

// nativeSteps take memory as libraries in a JVM do. The sizes are those of
// which the JVM has memory too: the card table of a heap of 768 MiB takes
// 1.5 MiB of it and the mark bitmap 12, and threads have stacks of 1 or 8 MiB.
func nativeSteps(shm string) []nativeStep {
	return []nativeStep{
		{step: step{"arena 20 3145728", footprint.Malloc}, since: 22},
		{step: step{"arena 5 12582912", footprint.Malloc}, since: 22},
		{step: step{"map 32 1048576", footprint.Unattributed}},
		{step: step{"map 16 2097152", footprint.Unattributed}},
		{step: step{"map 12 3145728", footprint.Unattributed}},
		{step: step{"map 8 8388608", footprint.Unattributed}},
		{step: step{"map 4 12582912", footprint.Unattributed}},
		{step: step{"huge-map 4 16777216", footprint.Unattributed}},
		{step: step{"threads 8 1048576", footprint.ThreadStacks}},
		{step: step{"goroutines 4 16777216", footprint.Unattributed}},
		{step: step{"jemalloc 64 1048576", footprint.Unattributed}},
		{step: step{"mapped 65536 " + shm, footprint.MappedFiles}, shared: true},
	}
}

// nativeJVMs are the JVMs of the test: with -truth.all, all that the goal names.
func nativeJVMs() map[int][]string {
	if !*truthAll {
		return map[int][]string{8: {"G1"}, 17: {"Z"}, 25: {"Serial"}}
	}
	return map[int][]string{
		8:  {"G1", "Serial", "Parallel"}, // the others came later
		17: {"G1", "Serial", "Parallel", "Z", "Shenandoah", "Epsilon"},
		25: {"G1", "Serial", "Parallel", "Z", "Shenandoah", "Epsilon"},
		27: {"G1", "Serial", "Parallel", "Z", "Shenandoah", "Epsilon"},
	}
}

// What libraries and foreign memory take is in the row where it belongs, or the
// row that has it says that it guesses and a warning names the doubt.
func TestRowsAgreeWithNativeTruth(t *testing.T) {
	libraries := []string{nativetest.Memory(t), nativetest.Jemalloc(t), nativetest.Goroutines(t)}
	var all []compared
	jvms := nativeJVMs()
	for _, major := range slices.Sorted(maps.Keys(jvms)) {
		for _, gc := range jvms[major] {
			t.Run(fmt.Sprintf("jdk%d/%s", major, gc), func(t *testing.T) {
				// A jemalloc that is loaded late finds no room for its thread-local
				// data otherwise.
				h := startNativeHolder(t, major, gc, libraries, "export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384; ")
				for _, c := range compareNative(t, h, major, nativeSteps(shmFile(t))) {
					c.collector = gc
					all = append(all, c)
				}
			})
		}
	}
	if *nativeOut != "" {
		writeNativeTruth(t, all)
	}
}

// Threads that a library starts have stacks of the size that the process's
// limit says.
func TestStacksOfEveryLimitAreFound(t *testing.T) {
	library := nativetest.Memory(t)
	for _, mib := range []int{2, 10, 64} {
		for major, collectors := range nativeJVMs() {
			t.Run(fmt.Sprintf("%dMiB/jdk%d", mib, major), func(t *testing.T) {
				h := startNativeHolder(t, major, collectors[0], []string{library}, fmt.Sprintf("ulimit -s %d; ", mib<<10))
				compareNative(t, h, major, []nativeStep{
					{step: step{"threads 8 1572864", footprint.ThreadStacks}},
					{step: step{fmt.Sprintf("map 4 %d", mib<<20), footprint.Unattributed}},
				})
			})
		}
	}
}

// shmFile is a path for shared memory that goes with the test.
func shmFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tare-truth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "shared.bin")
}

func startNativeHolder(t *testing.T, major int, gc string, libraries []string, before string) *jvmtest.Holder {
	t.Helper()
	h := jvmtest.StartHolderFrom(t, before, jvmtest.Java(t, major), []string{
		"-XX:+UnlockExperimentalVMOptions", "-XX:+Use" + gc + "GC", "-Xmx768m", "-Xms768m",
	}, 4)
	for _, l := range libraries {
		h.Take(t, "library "+l)
	}
	return h
}

func compareNative(t *testing.T, h *jvmtest.Holder, major int, steps []nativeStep) []compared {
	t.Helper()
	var out []compared
	// A first round loads the classes that the steps need, and has runtimes set
	// up their own.
	for _, s := range steps {
		if kind, _, _ := strings.Cut(s.order, " "); kind != "mapped" && major >= s.since {
			h.Take(t, kind+" 1 65536")
		}
	}
	before := weighDoubting(t, h.PID(), false)
	for _, s := range steps {
		if major < s.since {
			continue
		}
		held := h.Take(t, s.order)
		after := weighDoubting(t, h.PID(), false)
		c := compare(t, before, after, s.step, held)
		if s.shared { // other files of the row come and go as the kernel likes
			c.grown = row(t, after, s.owner).SharedMemoryBytes - row(t, before, s.owner).SharedMemoryBytes
		}
		c.doubted = doubted(t, after, c.other)
		out = append(out, c)
		if off := c.grown - held; max(off, -off) > tolerance(held) && !c.doubted {
			t.Errorf("%s: %d KiB are held, %s grew by %d, %s changed by %d KiB", s.order, held>>10, s.owner, c.grown>>10, c.other, c.elsewhere>>10)
		}
		before = after
	}
	return out
}

func writeNativeTruth(t *testing.T, all []compared) {
	t.Helper()
	var b strings.Builder
	b.WriteString("A program (`workloads.jar holder`, `-Xmx768m -Xint`) has libraries take memory past the JVM, and knows how much: Panama's arenas\n" +
		"(`arena`), mappings of anonymous memory of several sizes (`map`), huge pages asked for by madvise (`huge-map`), threads that\n" +
		"are not Java's, a library of Go, one with jemalloc linked in, and shared memory (`mapped`). The JVM is weighed before and\n" +
		"after. The goal: the row grows by what was taken within 1 % or 256 KiB, whichever is larger, or the row that has it says\n" +
		"`heuristic` and a warning names the doubt. Of shared memory only that part of the row is compared.\n\n" +
		"| JDK | collector | taken | row | held KiB | row grew by KiB | off % | elsewhere KiB | doubt |\n|---|---|---|---|---|---|---|---|---|\n")
	missed, doubts := 0, 0
	for _, c := range all {
		doubt, off := "", c.grown-c.held
		switch {
		case max(off, -off) <= tolerance(c.held):
		case c.doubted:
			doubt = "named"
			doubts++
		default:
			missed++
		}
		taken := c.order
		if kind, _, _ := strings.Cut(taken, " "); kind == "mapped" {
			taken = "mapped, of /dev/shm"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %d | %+.2f | %+d (%s) | %s |\n", c.jdk, c.collector, taken, c.owner,
			c.held>>10, c.grown>>10, 100*float64(off)/float64(c.held), c.elsewhere>>10, c.other, doubt)
	}
	fmt.Fprintf(&b, "\nRows outside of the tolerance: %d of %d (goal 0: %s), and %d more that a warning names.\n",
		missed, len(all), results.Reached(missed == 0), doubts)
	if err := os.WriteFile(*nativeOut, []byte(results.Text("Rows against what libraries hold", "make bench-truth", b.String())), 0o644); err != nil {
		t.Fatal(err)
	}
}

// doubted says that a row is a guess and that a warning says so.
func doubted(t *testing.T, f *footprint.Footprint, o footprint.Owner) bool {
	t.Helper()
	if row(t, f, o).How != footprint.Heuristic {
		return false
	}
	for _, w := range f.Warnings {
		if strings.Contains(w, string(o)) {
			return true
		}
	}
	return false
}
