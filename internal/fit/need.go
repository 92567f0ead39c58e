package fit

import (
	"math"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/trial"
)

// What a setup needs is measured in any trial that had enough memory: what cannot be
// dropped, with the heap as full as it may become, and the page cache that it works
// with. Trials of one setup differ, so the limit is no limit that happened to pass but
// an upper bound of what runs need.

const (
	// needContent of all runs need no more than the bound, with needConfidence.
	needContent, needConfidence = 0.99, 0.95
	// needSpread is the standard deviation that the logarithm of what a setup needs
	// is taken to have until trials tell: it stands in for the degrees of freedom that
	// they lack of needFreedom.
	needSpread  = 0.02
	needFreedom = 20
)

// Need is what a setup needs, by all trials that tell.
type Need struct {
	// MeanBytes is what runs need on the average (geometric), and BoundBytes the upper
	// tolerance bound: 99 % of runs need no more, with a confidence of 95 %.
	MeanBytes, BoundBytes int64
	// GrowthBytes is in both: room for what still grew at the end of the load.
	GrowthBytes int64
	// Samples are the trials that the mean is of, Deviation is the standard deviation
	// of the logarithm, pooled over all setups, with Freedom degrees of freedom, of which
	// Assumed are no trials' (needSpread).
	Samples            int
	Deviation, Freedom float64
	Assumed            float64
}

// BoundWith is the bound that so many samples would give, if they differed as those so
// far do.
func (n Need) BoundWith(samples int) int64 {
	freedom := n.Freedom - n.Assumed + float64(samples-n.Samples)
	return n.GrowthBytes + boundOf(float64(n.MeanBytes-n.GrowthBytes), samples, max(needFreedom, freedom), n.Deviation)
}

func boundOf(mean float64, samples int, freedom, deviation float64) int64 {
	return int64(mean * math.Exp(deviation*toleranceFactor(samples, freedom, needContent, needConfidence)))
}

// sample is what one trial says of the need of setups that differ from its own in the
// size of the heap alone.
type sample struct {
	// rest is what is needed without the heap, the page cache with it.
	rest int64
	// growth is what still grew.
	growth int64
	// heap is what is resident of the heap in the trial.
	heap int64
}

// fixesHeap says that a setup's heap does not follow the limit.
func (s *Search) fixesHeap(setup Setup) bool { return setup.heapBytes() > 0 || s.heapFixed() }

// needOf is what a setup whose heap is fixed needs; known is false where no trial
// tells.
func (s *Search) needOf(setup Setup) (n Need, known bool) {
	logs := s.needs(setup)
	if len(logs) == 0 {
		return n, false
	}
	n.Deviation, n.Freedom, n.Assumed = s.needDeviation()
	n.Samples, n.GrowthBytes = len(logs), s.growthOf(setup)
	mean := math.Exp(mean(logs)) * s.correction(setup)
	n.MeanBytes = int64(mean) + n.GrowthBytes
	n.BoundBytes = boundOf(mean, n.Samples, n.Freedom, n.Deviation) + n.GrowthBytes
	return n, true
}

// needs are the logarithms of what the trials of a setup needed, with its heap full.
func (s *Search) needs(setup Setup) []float64 {
	var logs []float64
	for _, m := range s.samples(setup) {
		heap := m.heap
		if bound := setup.heapBytes(); bound > 0 {
			heap = bound
		}
		logs = append(logs, math.Log(float64(max(1, m.rest+heap))))
	}
	return logs
}

// growthOf is the mean of what still grew at the end of the loads of a setup.
func (s *Search) growthOf(setup Setup) int64 {
	samples := s.samples(setup)
	var sum int64
	for _, m := range samples {
		sum += m.growth
	}
	return sum / int64(max(1, len(samples)))
}

// samples are of all trials that had enough memory with a setup or, where it sizes the
// heap, with one that differs in that alone.
func (s *Search) samples(setup Setup) []sample {
	var out []sample
	for _, t := range s.like(setup) {
		if !t.enough() {
			continue
		}
		out = append(out, sample{rest: s.used(t) - t.heapTouched(), growth: t.growth(), heap: t.heapTouched()})
	}
	return out
}

// used is what a trial that had enough memory needed, with the heap as full as it was.
func (s *Search) used(t Trial) int64 { return min(t.LimitBytes, t.NeededBytes+s.cacheOf(t)) }

// heapTouched is what is resident of a trial's heap, heapUntouched what may become so
// where its setup sizes the heap.
func (t Trial) heapTouched() int64 {
	heap := min(ledgerOf(t, 0).heap(), t.NeededBytes)
	if own := t.Setup.heapBytes(); own > 0 {
		heap = min(heap, own)
	}
	return heap
}

func (t Trial) heapUntouched() int64 { return max(0, t.Setup.heapBytes()-t.heapTouched()) }

// like are the trials whose setup differs from another one in the size of the heap at
// most; baselines had more memory than they could use.
func (s *Search) like(setup Setup) []Trial {
	var out []Trial
	rest := setup.withoutHeap()
	for _, t := range s.found.Trials {
		sized := (t.Setup.heapBytes() > 0) == (setup.heapBytes() > 0)
		if t.Phase != PhaseBaseline && t.ofTheLoad() && sized && t.Setup.withoutHeap().Same(rest) {
			out = append(out, t)
		}
	}
	return out
}

// cacheOf is the page cache that a trial could not do without: what its own squeeze
// told, else the mean of those with the same setup, else a share of what there is with
// room.
func (s *Search) cacheOf(t Trial) int64 {
	if t.CacheBytes > 0 {
		return s.cacheNeed(t)
	}
	if squeezed := s.squeezed(t.Setup); len(squeezed) > 0 {
		var sum int64
		for _, o := range squeezed {
			sum += s.cacheNeed(o)
		}
		return sum / int64(len(squeezed))
	}
	roomy := t
	for _, o := range s.like(t.Setup) {
		if pageCache(o) > pageCache(roomy) {
			roomy = o
		}
	}
	return s.cacheNeed(roomy)
}

// squeezed are the trials like a setup's whose page cache was measured.
func (s *Search) squeezed(setup Setup) []Trial {
	var out []Trial
	for _, t := range s.like(setup) {
		if t.CacheBytes > 0 && t.enough() {
			out = append(out, t)
		}
	}
	return out
}

// needDeviation is the standard deviation of the logarithms of what runs of one setup
// need, pooled over all setups whose heap is fixed; assumed of its degrees of freedom
// are needSpread's.
func (s *Search) needDeviation() (deviation, freedom, assumed float64) {
	var sum float64
	var seen []Setup
	for _, t := range s.found.Trials {
		if !s.fixesHeap(t.Setup) || containsSetup(seen, t.Setup.withoutHeap()) {
			continue
		}
		seen = append(seen, t.Setup.withoutHeap())
		logs := s.needs(t.Setup)
		center := mean(logs)
		for _, l := range logs {
			sum += (l - center) * (l - center)
		}
		freedom += float64(max(0, len(logs)-1))
	}
	assumed = max(0, needFreedom-freedom)
	freedom += assumed
	return math.Sqrt((sum + assumed*needSpread*needSpread) / freedom), freedom, assumed
}

func containsSetup(setups []Setup, s Setup) bool {
	for _, o := range setups {
		if o.Same(s) {
			return true
		}
	}
	return false
}

// correction is what the need by measurement is multiplied with, so that it agrees with
// the limits that were tried: no more than the smallest that was enough (and the heap that
// was not touched there), and no less than the largest that was not.
func (s *Search) correction(setup Setup) float64 {
	measured := math.Exp(mean(s.needs(setup)))
	growth := s.growthOf(setup)
	pressed, told := s.byPressure(setup)
	enough, lacked := math.Inf(1), 0.0
	for _, t := range s.found.Trials {
		if !t.Setup.Same(setup) || t.Phase == PhaseBelow {
			continue
		}
		of := func(bytes int64) float64 { return float64(bytes-growth) / measured }
		switch {
		case t.Phase == PhaseLong && t.enough(): // what it grew by is no guess
			lacked = max(lacked, of(s.used(t)+t.heapUntouched()))
		case told && t.tellsPressure():
		case t.lacksMemory():
			lacked = max(lacked, of(t.LimitBytes))
		case t.hasRoom() && t.ofTheLoad():
			enough = min(enough, of(t.LimitBytes+t.heapUntouched()))
		}
	}
	if told {
		return max(lacked, min(enough, (pressed-float64(growth))/measured))
	}
	return max(lacked, min(1, enough))
}

const (
	// leastPressure and mostPressure are the shares of the time that waiting for memory
	// takes between which it rises about exponentially as the limit falls.
	leastPressure, mostPressure = 0.002, 0.5
	// flattest and steepest are the logarithm of the limit over that of the pressure: a
	// slope of few trials that is beyond them is chance. Of the demo service it is about
	// 0.06: a limit 6 % smaller has 2.7 times the pressure.
	flattest, steepest = -0.12, -0.03
)

// tellsPressure says that a trial was near its limit, and not beyond.
func (t Trial) tellsPressure() bool {
	near := t.Phase == PhaseRefine || t.Phase == PhaseConfirm
	return near && t.Result != nil && !t.Result.Ended && t.Result.Load != nil && t.Result.ReclaimShare >= leastPressure && t.Result.ReclaimShare <= mostPressure
}

// byPressure is the limit, with what is not touched of the heap, at which waiting for memory
// takes as much as a limit may have it take (pressed). One trial that is on this or on that
// side of it is chance; the line through all of them, over the logarithm of the pressure,
// is much less so. Known is false where fewer than two tell.
func (s *Search) byPressure(setup Setup) (limit float64, known bool) {
	if s.Spare <= 0 {
		return 0, false
	}
	var xs, ys []float64
	for _, t := range s.found.Trials {
		if t.Setup.Same(setup) && t.tellsPressure() {
			xs = append(xs, math.Log(t.Result.ReclaimShare/(pressedPart*s.Spare)))
			ys = append(ys, math.Log(float64(t.LimitBytes+t.heapUntouched())))
		}
	}
	if len(xs) < 2 {
		return 0, false
	}
	x, y := mean(xs), mean(ys)
	var sxx, sxy float64
	for i := range xs {
		sxx += (xs[i] - x) * (xs[i] - x)
		sxy += (xs[i] - x) * (ys[i] - y)
	}
	slope := min(steepest, max(flattest, sxy/max(sxx, 1e-9)))
	return math.Exp(y - slope*x), true
}

// lacksMemory says that a trial's limit was not enough, by memory's own signals.
func (t Trial) lacksMemory() bool {
	if t.hasRoom() {
		return false
	}
	return t.Pressed || ofMemory(t.Verdict) || t.Result != nil && t.Result.ReclaimShare >= unasked
}

// ofTheLoad says that a trial had the load and the processors that were asked for, and the
// heap that its options give.
func (t Trial) ofTheLoad() bool {
	return t.Phase != PhaseLong && t.Phase != PhaseHalf && t.Phase != PhaseBelow
}

// growth is what still grew at the end of a trial's load and may grow as much again, up
// to the JVM's own caps; the heap has its bound.
func (t Trial) growth() int64 {
	if t.Result == nil {
		return 0
	}
	var sum int64
	for _, g := range t.Result.Growth {
		if g.Of != trial.LiveSet && g.Of != string(footprint.JavaHeap) {
			sum += min(g.Bytes, ledgerOf(t, 0).capOf(footprint.Owner(g.Of)))
		}
	}
	return sum
}

// capOf is how much an owner's memory may still grow.
func (l Ledger) capOf(o footprint.Owner) int64 {
	caps := map[footprint.Owner]string{footprint.CodeCache: "ReservedCodeCacheSize", footprint.Metaspace: "MaxMetaspaceSize", footprint.ClassSpace: "CompressedClassSpaceSize"}
	if l.Footprint == nil || caps[o] == "" {
		return math.MaxInt64
	}
	if most := l.flag(caps[o]); most > 0 {
		return max(0, most-l.resident(o))
	}
	return math.MaxInt64
}
