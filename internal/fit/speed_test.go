package fit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// ran is a trial with load.
func ran(number int, phase Phase, limit int64, v trial.Verdict, speed float64, options ...string) Trial {
	return Trial{Attempt{Number: number, Phase: phase, LimitBytes: limit * mib, Setup: Setup{Options: options}},
		Outcome{Passed: v == trial.Passed, Verdict: v, Throughput: speed, Measured: trial.Measured{Load: &load.Result{}, Start: time.Second}}}
}

func TestBestPassed(t *testing.T) {
	trials := []Trial{
		ran(1, PhaseBaseline, 20, trial.Passed, 900),
		ran(2, PhaseAsGiven, 300, trial.Passed, 110),
		ran(3, PhaseLever, 200, trial.Passed, 100),
		ran(4, PhaseLever, 200, trial.Passed, 105),
		ran(5, PhaseLever, 250, trial.Passed, 105),
		ran(6, PhaseLever, 150, trial.OOMKilled, 400),
		ran(7, PhaseLever, 160, trial.Passed, 90),
		ran(8, PhaseHeap, 100, trial.Passed, 900),
	}
	var got []int
	for _, tr := range BestPassed(trials) {
		got = append(got, tr.Number)
	}
	if !slices.Equal(got, []int{7, 4, 2}) {
		t.Errorf("%v", got)
	}
	if BestPassed(nil) != nil {
		t.Error("a line of nothing")
	}
	idle := ran(1, PhaseAsGiven, 1, trial.Passed, 0)
	idle.Measured = trial.Measured{Start: 4 * time.Second}
	if idle.Speed() != 0.25 {
		t.Error(idle.Speed())
	}
}

func TestHeapCurve(t *testing.T) {
	heap := func(n int) string { return fmt.Sprintf("-Xmx%dm", n) }
	trials := []Trial{
		ran(1, PhaseHeap, 500, trial.Passed, 100, "-XX:+UseSerialGC", heap(80)),
		ran(9, PhaseLever, 90, trial.Passed, 40, "-XX:+UseSerialGC", heap(80)), // slowed by the limit
		ran(2, PhaseHeap, 500, trial.Passed, 98, "-XX:+UseSerialGC", heap(40)),
		ran(3, PhaseHeap, 500, trial.Passed, 102, "-XX:+UseSerialGC", heap(40)),
		ran(4, PhaseHeap, 500, trial.Thrashing, 10, "-XX:+UseSerialGC", heap(20)),
		ran(5, PhaseLever, 90, trial.OOMKilled, 1, "-XX:+UseSerialGC", heap(60)), // the limit's doing
		ran(6, PhaseLever, 90, trial.TooSlow, 50, "-XX:+UseSerialGC", heap(40)),  // perhaps the limit's
		ran(7, PhaseLever, 200, trial.Passed, 50, "-XX:+UseG1GC", heap(80)),      // another set
		ran(8, PhaseAsGiven, 200, trial.Passed, 70),                              // of unknown heap
	}
	c := NewHeapCurve(trials, []string{"java", "-jar", "app.jar"})
	if c == nil || len(c.Points) != 3 || !slices.Equal(c.Setup.Options, []string{"-XX:+UseSerialGC"}) {
		t.Fatalf("%+v", c)
	}
	if p := c.Points[1]; p.HeapBytes != 40*mib || p.Slowest.Throughput != 98 || p.Fastest.Throughput != 102 || p.Median.Throughput != 102 {
		t.Errorf("%+v", p)
	}
	// 0.9 of 102 is 91.8, on the line from (20, 10) to (40, 102).
	if got := float64(c.KneeBytes) / mib; got < 37.7 || got > 37.8 {
		t.Errorf("knee at %g MiB", got)
	}
	for heap, near := range map[int64]bool{0: false, 20: true, 45: true, 46: false, 80: false} {
		if c.NearKnee(heap*mib) != near {
			t.Errorf("%d MiB: near is %v", heap, !near)
		}
	}
	if c := NewHeapCurve(trials[:2], nil); c != nil {
		t.Errorf("a curve of one heap: %+v", c)
	}
	flat := NewHeapCurve(trials[:4], nil)
	if flat == nil || flat.KneeBytes != 0 || flat.NearKnee(mib) {
		t.Errorf("%+v", flat)
	}
	searched := slices.Clone(trials)
	for i := range searched {
		searched[i].Phase = PhaseLever
	}
	if c := NewHeapCurve(searched, nil); c == nil || c.Swept || c.KneeBytes != 0 {
		t.Errorf("a knee by trials that the search made: %+v", c)
	}
	r := &Result{Found: Found{Trials: trials, LimitBytes: 100 * mib, Setup: Setup{Options: []string{heap(40)}}}, Config: Record{Command: jvmopts.Command{Java: "java"}}}
	if w := heapWarning(r); len(w) != 1 || !strings.Contains(w[0], "heap of 40 MiB is near the knee of the curve, about 38 MiB") {
		t.Errorf("%q", w)
	}
	r.Setup.Options[0] = heap(80)
	if w := heapWarning(r); len(w) != 0 {
		t.Errorf("%q", w)
	}
}

// Without a measured curve the time in collections foresees where the knee is.
func TestHeapWarningForeseen(t *testing.T) {
	for heap, near := range map[int64]bool{26: true, 40: false} {
		run := ran(1, PhaseConfirm, 100, trial.Passed, 100, fmt.Sprintf("-Xmx%dm", heap))
		took := gcCost{0.4 * mib, 20 * mib}.share(heap * mib)
		run.LiveBytes, run.Result = 20*mib, &trial.Result{GCShare: &took}
		r := &Result{Found: Found{Trials: []Trial{run}, LimitBytes: 100 * mib, Setup: run.Setup}, Config: Record{Command: jvmopts.Command{Java: "java"}}}
		if w := heapWarning(r); (len(w) == 1) != near || near && !strings.Contains(w[0], "near the knee that the time in collections foresees, about 24 MiB") {
			t.Errorf("%d MiB: %q", heap, w)
		}
	}
}

func TestMaxHeap(t *testing.T) {
	for args, want := range map[string]int64{"java -Xmx64m -Xmx1G -jar x": 1 << 30, "java -Xmx512k": 512 << 10, "java -Xmx1048576": 1 << 20, "java -Xmx": 0, "java -Xmx-5m": 0,
		"java -Xmx9223372036854775807g": 0, "java": 0} {
		if got := maxHeap(strings.Fields(args)); got != want {
			t.Errorf("%s: %d, want %d", args, got, want)
		}
	}
}
