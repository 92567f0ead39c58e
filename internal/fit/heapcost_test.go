package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/trial"
)

// The curve through trials of a model is the model's.
func TestGCCostIsFitted(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := gcCost{cost: (0.1 + 4*rng.Float64()) * mib, live: (5 + 100*rng.Float64()) * mib}
		var points []heapPoint
		for range 1 + rng.IntN(4) {
			heap := int64(want.live * (1.3 + 3*rng.Float64()))
			points = append(points, heapPoint{heap, int64(want.live), want.share(heap)})
		}
		got, ok := fitGCCost(points)
		if !ok || math.Abs(got.live-want.live) > 0.02*want.live || math.Abs(got.cost-want.cost) > 0.02*want.cost {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
		knee := got.knee(1<<40, KneeShare)
		if keep := 1 - want.share(knee); math.Abs(keep-KneeShare) > 0.01 {
			t.Errorf("seed %d: at the knee speed is %.2f", seed, keep)
		}
		if h := got.faster(70, 90, knee); h <= knee && 90.0/70*(1-got.share(knee)) < 1 {
			t.Errorf("seed %d: %d is no larger heap than %d", seed, h, knee)
		}
	}
	if _, ok := fitGCCost(nil); ok {
		t.Error("a curve through nothing")
	}
}

// Collections are those of the heap that there was: one that may be eight times as large, and
// never grew, says nothing of such a heap.
func TestHeapThatHasNotGrown(t *testing.T) {
	share := 0.03
	tr := Trial{Outcome: Outcome{LiveBytes: 41 * mib, Result: &trial.Result{GCShare: &share, Peak: &footprint.Footprint{Heap: &footprint.Heap{MaxBytes: 512 * mib, CapacityBytes: 62 * mib}}}}}
	if p := heapPointOf(tr, 512*mib); len(p) != 1 || p[0].heap != 62*mib {
		t.Errorf("%+v", p)
	}
	if p := heapPointOf(tr, 50*mib); len(p) != 1 || p[0].heap != 50*mib {
		t.Errorf("%+v", p)
	}
	tr.Result.Peak = nil
	if p := heapPointOf(tr, 512*mib); len(p) != 1 || p[0].heap != 512*mib {
		t.Errorf("without a footprint: %+v", p)
	}
}

func FuzzGCCost(f *testing.F) {
	f.Add(int64(50*mib), int64(20*mib), 0.1, int64(80*mib), int64(20*mib), 0.02)
	f.Add(int64(1), int64(0), 0.0, int64(1), int64(1), 0.99)
	f.Fuzz(func(t *testing.T, h1, l1 int64, s1 float64, h2, l2 int64, s2 float64) {
		var points []heapPoint
		for _, p := range []heapPoint{{h1, l1, s1}, {h2, l2, s2}} {
			if p.heap <= 0 || p.heap > 1<<45 || p.live <= 0 || p.live >= p.heap || !(p.share >= 0 && p.share <= 0.99) {
				return // heapPointOf gives none of these
			}
			points = append(points, p)
		}
		heap, ok := tightHeap(points, h1, KneeShare)
		if !ok || heap < minHeap || heap%mib != 0 || heap < min(l1, l2) {
			t.Errorf("heap %d of %+v", heap, points)
		}
		c, _ := fitGCCost(points)
		for _, h := range []int64{1, h1, h2, 1 << 45} {
			if s := c.share(h); !(s >= 0 && s <= 1) {
				t.Errorf("share %g of %+v at %d", s, c, h)
			}
		}
	})
}

func TestYoungFor(t *testing.T) {
	for heap := int64(minHeap); heap < 300*mib; heap += mib {
		for _, live := range []int64{mib, heap / 4, heap / 2, heap * 7 / 10} {
			young := youngFor(heap, live)
			if young < mib || young > heap/3 || young%mib != 0 {
				t.Fatalf("%d MiB young of %d with %d alive", young/mib, heap/mib, live/mib)
			}
		}
	}
}

func TestSelectLevers(t *testing.T) {
	for list, want := range map[string]string{"c1,heap": "c1 heap", "-archive -jars": strings.Join(without(leverIDs(Levers), "archive", "jars"), " "), "": strings.Join(leverIDs(Levers), " "),
		"headers,c1,-c1": "headers", "none": ""} {
		got, err := SelectLevers(Levers, list)
		if err != nil || strings.Join(leverIDs(got), " ") != want {
			t.Errorf("%q: %v, %v", list, leverIDs(got), err)
		}
	}
	for _, list := range []string{"c2", "c1,none"} {
		if _, err := SelectLevers(Levers, list); err == nil {
			t.Errorf("took %s", list)
		}
	}
}

func without(all []string, some ...string) []string {
	return slices.DeleteFunc(all, func(id string) bool { return slices.Contains(some, id) })
}

func TestBoundOfStacks(t *testing.T) {
	stacks := func(rest int64, largest ...int64) Ledger {
		c := footprint.Child{ID: footprint.PartLargestThreads}
		for _, kib := range largest {
			c.ResidentBytes += kib << 10
			c.Children = append(c.Children, footprint.Child{ResidentBytes: kib << 10})
		}
		row := footprint.Row{Owner: footprint.ThreadStacks, ResidentBytes: c.ResidentBytes + rest<<10, Children: []footprint.Child{{Name: "Java", ResidentBytes: c.ResidentBytes}, c}}
		return Ledger{Footprint: &footprint.Footprint{Rows: []footprint.Row{row}}}
	}
	for want, l := range map[int64]Ledger{0: stacks(900, 512, 80), 88: stacks(900, 600, 100), 1188: stacks(900, 600, 712)} {
		if got := boundStacks(l) >> 10; got != want {
			t.Errorf("%d KiB, want %d", got, want)
		}
	}
}

func TestFlagsOfTheJVMDecide(t *testing.T) {
	headers := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "headers" })]
	for reason, flags := range map[string]map[string]string{"": {"UseCompactObjectHeaders": "false"}, "the JVM has it so already": {"UseCompactObjectHeaders": "true"},
		"this JVM has no UseCompactObjectHeaders": {"UseSerialGC": "true"}} {
		if _, ok, got := headers.open(Facts{Release: headers.Since, Flags: flags}); ok != (reason == "") || got != reason {
			t.Errorf("%v: %v %q, want %q", flags, ok, got, reason)
		}
	}
}
