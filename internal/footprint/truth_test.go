package footprint_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	truthAll = flag.Bool("truth.all", false, "compare with the truth on every JDK and with more collectors")
	truthOut = flag.String("truth.out", "", "file for the table of rows against the truth, in Markdown")
)

// tolerance is how far a row may be off: 1 %, or 256 KiB where that is more.
func tolerance(bytes int64) int64 { return max(bytes/100, 256<<10) }

// step is memory of one kind that a holder takes.
type step struct {
	order string // to the holder
	owner footprint.Owner
}

// steps take each kind of memory. Each is large enough that 1 % of it is more
// than 256 KiB.
func steps(file string) []step {
	return []step{
		{"heap 512", footprint.JavaHeap},
		{"stacks 512", footprint.ThreadStacks},
		{"direct 65536", footprint.Malloc}, // one large chunk
		{"malloc 1000 64000", footprint.Malloc},
		{"mapped 65536 " + file, footprint.MappedFiles},
	}
}

// compared is one row against what is really held.
type compared struct {
	jdk, collector string
	order          string
	owner          footprint.Owner
	held, grown    int64
	// elsewhere is how much the row that changed most did that had no reason
	// to, and whose it is.
	elsewhere int64
	other     footprint.Owner
	// doubted says that the other row is a guess, and a warning says so.
	doubted bool
}

// A JVM that says how much it has taken of one kind of memory: the row of that
// kind grows by as much, and no other row does.
func TestRowsAgreeWithTheTruth(t *testing.T) {
	majors, collectors := []int{8, 17, 25}, []string{"G1"}
	if *truthAll {
		majors, collectors = jvmtest.Majors(t), []string{"G1", "Serial", "Parallel"}
	}
	var all []compared
	for _, major := range majors {
		for _, gc := range collectors {
			t.Run(fmt.Sprintf("jdk%d/%s", major, gc), func(t *testing.T) {
				all = append(all, compareWithTruth(t, major, gc)...)
			})
		}
	}
	if *truthOut != "" {
		writeTruth(t, all)
	}
}

func compareWithTruth(t *testing.T, major int, gc string) []compared {
	// The young generation has room for all of it, for a collection would
	// copy it. Buffers of threads would fill that room: JDK 8 begins with 4 MiB
	// for each.
	h := jvmtest.StartHolder(t, jvmtest.Java(t, major), []string{
		"-XX:+Use" + gc + "GC", "-XX:-UseTLAB", "-Xmx768m", "-Xms768m", "-Xmn512m",
	}, 100)
	file := filepath.Join(t.TempDir(), "mapped.bin")
	// A first round loads the classes that the steps need.
	for _, order := range []string{"heap 64", "stacks 16", "direct 64", "malloc 1 64000", "mapped 64 " + file + ".first"} {
		h.Take(t, order)
	}
	before := weighDoubting(t, h.PID(), false)
	var out []compared
	for _, s := range steps(file) {
		held := h.Take(t, s.order)
		after := weighDoubting(t, h.PID(), false)
		c := compare(t, before, after, s, held)
		c.collector = gc
		out = append(out, c)
		if off := c.grown - held; max(off, -off) > tolerance(held) {
			t.Errorf("%s: %d bytes are held, %s grew by %d", s.order, held, s.owner, c.grown)
		}
		if max(c.elsewhere, -c.elsewhere) > tolerance(held) {
			t.Errorf("%s: %s changed by %d bytes", s.order, c.other, c.elsewhere)
		}
		before = after
	}
	mapped := footprint.Child{Name: "mapped.bin", ResidentBytes: 64 << 20}
	if !slices.ContainsFunc(row(t, before, footprint.MappedFiles).Children, func(c footprint.Child) bool {
		return c.Name == mapped.Name && c.ResidentBytes == mapped.ResidentBytes
	}) {
		t.Error("no part of the mapped files is mapped.bin with 64 MiB")
	}
	return out
}

func compare(t *testing.T, before, after *footprint.Footprint, s step, held int64) compared {
	c := compared{jdk: after.JDK, order: s.order, owner: s.owner, held: held}
	for _, r := range after.Rows {
		change := r.ResidentBytes - row(t, before, r.Owner).ResidentBytes
		if r.Owner == s.owner {
			c.grown = change
		} else if max(change, -change) >= max(c.elsewhere, -c.elsewhere) {
			c.elsewhere, c.other = change, r.Owner
		}
	}
	return c
}

func writeTruth(t *testing.T, all []compared) {
	var b strings.Builder
	fmt.Fprintf(&b, "A program (`workloads.jar holder`, 100 threads, `-Xint -XX:-UseTLAB`, %d runs) takes memory of one kind after the other and knows to the\n"+
		"byte how much it has written; the JVM is weighed before and after, zero touch. The goal: each row grows by what was\n"+
		"taken within 1 %% or 256 KiB, whichever is larger. \"Elsewhere\" is the largest change of a row that should not\n"+
		"have changed; what a buffer needs in the Java heap is there.\n\n", len(all)/len(steps("")))
	b.WriteString("| JDK | collector | taken | row | held KiB | row grew by KiB | off % | elsewhere KiB |\n|---|---|---|---|---|---|---|---|\n")
	var worst float64
	missed := 0
	for _, c := range all {
		off := 100 * float64(c.grown-c.held) / float64(c.held)
		worst = max(worst, off, -off)
		if d := c.grown - c.held; max(d, -d) > tolerance(c.held) {
			missed++
		}
		kind, _, _ := strings.Cut(c.order, " ")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %d | %+.2f | %+d (%s) |\n", c.jdk, c.collector, kind, c.owner,
			c.held>>10, c.grown>>10, off, c.elsewhere>>10, c.other)
	}
	fmt.Fprintf(&b, "\nThe largest deviation: %.2f %%. Rows outside of the tolerance: %d of %d (goal 0: %s).\n",
		worst, missed, len(all), results.Reached(missed == 0))
	text := results.Text("Rows against known truth", "make bench-truth", b.String())
	if err := os.WriteFile(*truthOut, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
