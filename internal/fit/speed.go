package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/trial"
)

// Speed is how fast a trial was: good answers per second, for jobs runs and
// without load starts per second. 0 where it did not come so far.
func (t Trial) Speed() float64 {
	switch {
	case t.Measured.Time > 0:
		return 1 / t.Measured.Time.Seconds()
	case t.Measured.Load != nil:
		return t.Throughput
	case t.Measured.Start > 0:
		return 1 / t.Measured.Start.Seconds()
	}
	return 0
}

// slower orders trials by their speed.
func slower(a, b Trial) int { return cmp.Compare(a.Speed(), b.Speed()) }

// BestPassed is the passed trials that no other passed one beats in both, less
// memory and at least its speed; by memory. Baselines are not among them: their
// limit means nothing.
func BestPassed(trials []Trial) []Trial {
	passed := slices.Clone(trials)
	passed = slices.DeleteFunc(passed, func(t Trial) bool { return !t.Passed || Aside(t.Phase) })
	slices.SortStableFunc(passed, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.LimitBytes, b.LimitBytes), cmp.Compare(b.Speed(), a.Speed()))
	})
	var out []Trial
	for _, t := range passed {
		if len(out) == 0 || t.Speed() > out[len(out)-1].Speed() {
			out = append(out, t)
		}
	}
	return out
}

// HeapCurve is how speed depends on the heap, all else alike.
type HeapCurve struct {
	// Setup is what the trials have in common, without the heap.
	Setup  Setup
	Points []HeapPoint // by heap
	// Swept says that its trials were made for it. Those of a search are minutes apart, and
	// the machine's own pace differs by more than a heap costs.
	Swept bool
	// KneeBytes is the heap below which speed falls under KneeShare of the
	// fastest, between two measured heaps by their straight line; 0 where it
	// does not fall so far, or the curve was not swept.
	KneeBytes int64
}

// HeapPoint is the trials with one -Xmx.
type HeapPoint struct {
	HeapBytes int64
	Trials    []Trial
	// Median, Slowest and Fastest are by speed.
	Median, Slowest, Fastest Trial
}

const (
	// KneeShare is the share of the fastest speed that is still on the flat
	// of the curve: the default objective bears the same loss.
	KneeShare = 0.9
	// KneeMargin is how far above the knee a heap should stay: nearer to it,
	// a live set that grows by a tenth costs much of the speed.
	KneeMargin = 0.2
)

// NewHeapCurve makes the curve from trials that differ in nothing but the heap
// and, as far as it was enough, the limit: of several such sets, the one with
// most heaps. It is nil with fewer than two heaps. given is the application's
// own command, whose -Xmx counts where the setup has none.
func NewHeapCurve(trials []Trial, given []string) *HeapCurve {
	sets := map[string]*HeapCurve{}
	var best *HeapCurve
	for _, t := range trials {
		heap := t.Setup.heapBytes()
		if heap == 0 {
			heap = maxHeap(given)
		}
		if heap == 0 || !tellsOfHeap(t) {
			continue
		}
		rest := t.Setup.withoutHeap()
		key := strings.Join(append(append([]string{}, rest.Env...), rest.Options...), "\x00")
		if sets[key] == nil {
			sets[key] = &HeapCurve{Setup: rest}
		}
		sets[key].add(heap, t)
		if best == nil || len(sets[key].Points) > len(best.Points) {
			best = sets[key]
		}
	}
	if best == nil {
		return nil
	}
	best.keepSweep()
	if len(best.Points) < 2 {
		return nil
	}
	best.finish()
	return best
}

// tellsOfHeap says whether the heap, and not the limit, decided how fast it was.
func tellsOfHeap(t Trial) bool {
	collector := t.Verdict == trial.Thrashing || t.Verdict == trial.OutOfMemory || t.Phase == PhaseHeap && t.Verdict == trial.TooSlow
	return (t.Measured.Load != nil || t.Measured.Time > 0) && (t.Passed || collector)
}

// maxHeap is the last -Xmx of a command, 0 without one.
func maxHeap(args []string) int64 { return sizeIn(args, "-Xmx") }

// sizeIn is the size behind the last option that begins so, 0 without one.
func sizeIn(args []string, option string) int64 {
	for _, a := range slices.Backward(args) {
		size, ok := strings.CutPrefix(a, option)
		if !ok || size == "" {
			continue
		}
		shift := map[byte]uint{'k': 10, 'm': 20, 'g': 30}[size[len(size)-1]|0x20]
		if shift > 0 {
			size = size[:len(size)-1]
		}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n > 0 && n < 1<<62>>shift {
			return n << shift
		}
	}
	return 0
}

func (c *HeapCurve) add(heap int64, t Trial) {
	i, ok := slices.BinarySearchFunc(c.Points, heap, func(p HeapPoint, h int64) int { return cmp.Compare(p.HeapBytes, h) })
	if !ok {
		c.Points = slices.Insert(c.Points, i, HeapPoint{HeapBytes: heap})
	}
	c.Points[i].Trials = append(c.Points[i].Trials, t)
}

// keepSweep leaves out trials of the search where there are some for the curve:
// at their limits reclaim may have cost speed.
func (c *HeapCurve) keepSweep() {
	var points []HeapPoint
	for _, p := range c.Points {
		p.Trials = slices.DeleteFunc(slices.Clone(p.Trials), func(t Trial) bool { return t.Phase != PhaseHeap })
		if len(p.Trials) > 0 {
			points = append(points, p)
		}
	}
	if c.Swept = len(points) > 1; c.Swept {
		c.Points = points
	}
}

// finish works out speeds and the knee.
func (c *HeapCurve) finish() {
	fastest := 0.0
	for i := range c.Points {
		p := &c.Points[i]
		p.Median, p.Slowest, p.Fastest = Median(p.Trials), slices.MinFunc(p.Trials, slower), slices.MaxFunc(p.Trials, slower)
		fastest = max(fastest, p.Median.Speed())
	}
	if !c.Swept {
		return
	}
	bar := KneeShare * fastest
	for i := len(c.Points) - 2; i >= 0; i-- {
		a, b := c.Points[i], c.Points[i+1]
		if slow, fast := a.Median.Speed(), b.Median.Speed(); slow < bar && fast >= bar {
			c.KneeBytes = a.HeapBytes + int64(float64(b.HeapBytes-a.HeapBytes)*(bar-slow)/(fast-slow))
			return
		}
	}
}

// NearKnee tells whether a heap is below the knee, or so little above it that
// it should not be relied on.
func (c *HeapCurve) NearKnee(heap int64) bool {
	return c.KneeBytes > 0 && heap > 0 && float64(heap) < (1+KneeMargin)*float64(c.KneeBytes)
}

// HeapBytes is the -Xmx in effect: of the recommendation, or as given; 0 without
// one.
func (r *Result) HeapBytes() int64 {
	if h := r.Setup.heapBytes(); h > 0 {
		return h
	}
	return maxHeap(r.Config.Command.With())
}

// heapWarning warns of a recommended heap that is near the knee: of the curve
// that was measured or, without one, of the one that collections foresee.
func heapWarning(r *Result) []string {
	heap := r.HeapBytes()
	if r.LimitBytes == 0 || heap == 0 {
		return nil
	}
	c, how := NewHeapCurve(r.Trials, r.Config.Command.With()), "knee of the curve"
	if c == nil || !c.Swept {
		cost, ok := fitGCCost(heapPoints(r.Trials, r.Setup))
		if !ok {
			return nil
		}
		c, how = &HeapCurve{KneeBytes: cost.knee(math.MaxInt64, KneeShare)}, "knee that the time in collections foresees"
	}
	if !c.NearKnee(heap) {
		return nil
	}
	where := "near"
	if heap < c.KneeBytes {
		where = "below"
	}
	return []string{fmt.Sprintf("the recommended heap of %d MiB is %s the %s, about %d MiB: a live set that grows a little costs much speed; "+
		"leave it a margin with -Xmx and the limit", heap/mib, where, how, (c.KneeBytes+mib-1)/mib)}
}
