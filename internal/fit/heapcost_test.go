package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
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

// collecting is a trial whose heap has grown to its bound, with so much alive, and the share of its
// time that collections took.
func collecting(s Setup, collector string, heap, live int64, share float64) Trial {
	f := &footprint.Footprint{Collector: collector, Heap: &footprint.Heap{CapacityBytes: heap}, Flags: map[string]string{"MaxHeapSize": strconv.FormatInt(heap, 10)}}
	return Trial{Attempt{Setup: s, Phase: PhaseLever}, Outcome{Passed: true, Verdict: trial.Passed, LiveBytes: live, Result: &trial.Result{GCShare: &share, Peak: f}}}
}

// A trial as given whose heap was too small for its collections tells more of a smaller heap
// than the curve through one that was large; one whose heap was larger tells nothing new.
func TestHeapPointsAsGiven(t *testing.T) {
	sized := Setup{Options: []string{"-XX:+UseSerialGC", "-Xmx258m"}}
	own := collecting(sized, serial, 258*mib, 144*mib, 0.019)
	small := collecting(Setup{}, serial, 146*mib, 76*mib, 0.146)
	small.Passed, small.Verdict = false, trial.TooSlow
	large := collecting(Setup{}, serial, 512*mib, 96*mib, 0.01)
	other := collecting(Setup{}, "G1", 100*mib, 60*mib, 0.3)
	points := heapPoints([]Trial{large, small, other, own}, sized)
	if len(points) != 2 || points[1].heap != 146*mib {
		t.Fatalf("%+v", points)
	}
	if heap, ok := tightHeap(points, 258*mib, nearly); !ok || heap < 180*mib || heap > 200*mib {
		t.Errorf("%d MiB", heap/mib)
	}
	s := &Search{Spare: 0.1, found: Found{Trials: []Trial{large, small, other, own}, Baseline: large}}
	if got := s.tooSmallAsGiven(); got != 146*mib {
		t.Errorf("collections took too much of %d MiB", got/mib)
	}
	ungrown := collecting(Setup{}, serial, 146*mib, 6*mib, 0.146) // it could have grown, and did not
	ungrown.Verdict, ungrown.Result.Peak.Heap.CapacityBytes = trial.TooSlow, 8*mib
	s.found.Trials = []Trial{large, ungrown}
	if got := s.tooSmallAsGiven(); got != 0 {
		t.Errorf("collections took too much of %d MiB, and the heap had 8", got/mib)
	}
	if points := heapPoints([]Trial{large, small}, sized); len(points) != 0 {
		t.Errorf("without a trial of its own: %+v", points)
	}
}

// A young collection leaves what became old and is dead: of trials that did the work, the least
// tells what lives. One that did less may have had less alive.
func TestLiveIsTheLeast(t *testing.T) {
	left := func(phase Phase, live int64) Trial {
		tr := costing(Setup{}, phase, 60)
		tr.LiveBytes = live * mib
		return tr
	}
	short := left(PhaseLever, 20)
	short.Passed = false
	short.Result.Load = &load.Result{OK: 300}
	s := &Search{found: Found{Trials: []Trial{left(PhaseBaseline, 96), left(PhaseAsGiven, 76), left(PhaseLever, 144), left(PhaseLong, 50), short}}}
	s.found.Baseline = s.found.Trials[0]
	if got := s.live(point{at: s.found.Trials[2]}); got != 76*mib {
		t.Errorf("%d MiB", got/mib)
	}
	s.found.Trials = nil
	if got := s.live(point{at: Trial{Outcome: Outcome{HeapBytes: 30 * mib}}}); got != 30*mib {
		t.Errorf("without a collection: %d MiB", got/mib)
	}
}

// Options that are not sure to be slower leave a heap the speed that trials of the same options
// differ by; options that are, do not.
func TestSpeedThatAHeapKeeps(t *testing.T) {
	one := Setup{Options: []string{"-XX:+UseSerialGC", "-Xmx100m"}}
	for _, c := range []struct {
		given, own []float64
		low, high  float64
	}{
		{[]float64{60, 66, 56}, []float64{64}, nearly, nearly},
		{[]float64{60, 60.2, 60.1}, []float64{70, 70.1, 69.9}, 0.97, 0.999},
		{[]float64{60, 60.2, 60.1}, []float64{40}, KneeShare, KneeShare},
	} {
		s := &Search{}
		for _, seconds := range c.given {
			s.found.Trials = append(s.found.Trials, costing(Setup{}, PhaseBaseline, seconds))
		}
		for _, seconds := range c.own {
			s.found.Trials = append(s.found.Trials, costing(one, PhaseLever, seconds))
		}
		s.found.Baseline, s.best = s.found.Trials[0], point{setup: one, at: s.found.Trials[len(c.given)]}
		if got := s.keepSpeed(); got < c.low-1e-9 || got > c.high+1e-9 {
			t.Errorf("%v beside %v: %.3f, want %.3f to %.3f", c.own, c.given, got, c.low, c.high)
		}
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

// Where a smaller limit as given was too small for its heap's collections, options that let the
// heap follow the limit need the smallest limit as given, however little was resident there.
func TestHeapThatFollowsTheLimitNeedsIt(t *testing.T) {
	share := func(v float64) *trial.Result { return &trial.Result{GCShare: &v} }
	given := Trial{Attempt{Phase: PhaseAsGiven, LimitBytes: 594 * mib}, Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: 285 * mib, Result: share(0.05)}}
	lacked := Trial{Attempt{Phase: PhaseAsGiven, LimitBytes: 493 * mib}, Outcome{Verdict: trial.TooSlow, NeededBytes: 255 * mib, Result: share(0.43)}}
	base := Trial{Attempt{Phase: PhaseBaseline, LimitBytes: 2048 * mib}, Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: 650 * mib, Result: share(0.01)}}
	s := &Search{Spare: 0.1, found: Found{Baseline: base, Trials: []Trial{base, given, lacked}}, given: point{at: given}}
	follows := Trial{Attempt{Setup: Setup{Options: []string{"-XX:+UseCompactObjectHeaders"}}, LimitBytes: 654 * mib}, Outcome{NeededBytes: 270 * mib}}
	sized := Trial{Attempt{Setup: Setup{Options: []string{"-Xmx200m"}}, LimitBytes: 654 * mib}, Outcome{NeededBytes: 400 * mib}}
	for _, c := range []struct {
		trial Trial
		want  int64
	}{{given, 594}, {follows, 594}, {sized, 400}, {lacked, 493}} {
		if got := s.limitOf(c.trial); got != c.want*mib {
			t.Errorf("%v at %d MiB: %d MiB, want %d", c.trial.Setup.Options, c.trial.LimitBytes/mib, got/mib, c.want)
		}
	}
	s.found.Trials[2].Verdict = trial.Stalled
	if got := s.limitOf(given); got != 285*mib {
		t.Errorf("without one whose collections took too much: %d MiB", got/mib)
	}
	s.found.Trials[2].Verdict, s.found.Trials[2].PeakBytes = trial.Crashed, 230*mib
	if got := s.limitOf(follows); got != 594*mib {
		t.Errorf("one ended by itself with memory to spare: %d MiB", got/mib)
	}
	s.found.Trials[2].PeakBytes = 490 * mib
	if got := s.limitOf(follows); got != 270*mib {
		t.Errorf("one ended by itself with its limit full: %d MiB", got/mib)
	}
}

// Where a smaller heap saves as much as bold levers do, it takes one of the trials that are kept for
// finding the limit.
func TestTighterHeapIsWorthAReservedTrial(t *testing.T) {
	for _, c := range []struct {
		name             string
		left             int
		need, heap, live int64
		tried            bool
	}{
		{"a trial is left", reserve + 1, 138, 61, 25, true},
		{"it saves a fifth", reserve, 138, 61, 25, true},
		{"and only one may go", reserve - 1, 138, 61, 25, false},
		{"it saves a tenth or less", reserve, 400, 61, 25, false},
	} {
		share := 0.017
		at := Trial{Attempt{Phase: PhaseLever, Setup: Setup{Options: []string{fmt.Sprintf("-Xmx%dm", c.heap)}}, LimitBytes: 1024 * mib},
			Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: c.need * mib, LiveBytes: c.live * mib, Result: &trial.Result{GCShare: &share}}}
		s := &Search{AmpleBytes: 2048 * mib, MaxTrials: 1 + c.left, found: Found{Trials: []Trial{at}}, best: point{setup: at.Setup, at: at}}
		heap, reason := s.nextHeap(0)
		if tried := reason == ""; tried != c.tried || !tried && reason != noTrialLeft {
			t.Errorf("%s: %d MiB, %q", c.name, heap/mib, reason)
		}
	}
}

// A collector that runs beside the application has no pauses: that its heap is too small, its
// processor time tells, beyond what it takes with ample memory.
func TestHeapTooSmallForConcurrentCollector(t *testing.T) {
	none := 0.0
	took := func(share float64, paused *float64) Trial {
		times := &runner.Times{JVM: true, Group: 100 * time.Second, Collector: time.Duration(share * 100 * float64(time.Second))}
		return Trial{Outcome: Outcome{Verdict: trial.TooSlow, Result: &trial.Result{GCShare: paused, Times: times}}}
	}
	s := &Search{Spare: 0.09, found: Found{Baseline: took(0.2, &none)}}
	for share, small := range map[float64]bool{0.2: false, 0.24: false, 0.26: true, 1: true} {
		if got := took(share, &none); s.heapTooSmall(got) != small {
			t.Errorf("collections took %.2f of the processor time: too small a heap %v", share, !small)
		}
	}
	paused := 0.3
	if got, known := took(0.1, &paused).Collecting(); got != paused || !known {
		t.Errorf("collections took %v, %v", got, known)
	}
	if got, known := (Trial{}).Collecting(); got != 0 || known {
		t.Errorf("of nothing collections took %v, %v", got, known)
	}
}

// An application that allocates much beside little that lives is tried with as much heap as
// collections ask for, however many live sets that is, and with less than the heap that there is.
func TestLargerHeap(t *testing.T) {
	run := func(heap, resident int64, share, seconds float64) Trial {
		tr := collecting(Setup{Options: []string{"-XX:+UseSerialGC", fmt.Sprintf("-Xmx%dm", heap/mib)}}, serial, heap, 6*mib, share)
		tr.Measured = trial.Measured{Time: time.Duration(seconds * float64(time.Second))}
		tr.Result.Peak.Rows = []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: resident}}
		return tr
	}
	for _, c := range []struct{ resident, want int64 }{{500, 81}, {90, 77}, {20, 37}} {
		s := &Search{AmpleBytes: 2048 * mib, Job: true}
		s.found.Baseline = run(512*mib, c.resident*mib, 0.25, 14.2)
		s.best.at = s.found.Baseline
		slow := run(29*mib, 29*mib, 0.58, 25.5)
		if got := s.largerHeap(slow).heap; got != c.want*mib {
			t.Errorf("beside %d MiB: %d, want %d", c.resident, got/mib, c.want)
		}
	}
}
