package fit

import (
	"cmp"
	"math"
	"slices"

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
	// GrowthBytes is in both: room for what still grew at the end of the load. HeldBytes
	// and CacheBytes are the rest of the mean as it was measured with room: what cannot be
	// dropped, with the heap full, and page cache. TriedBytes is what limits that were tried
	// add to that, or take from it. UntouchedBytes is the rest of a heap that the user has
	// sized, no page of which was touched (beyondOwn); it is in both, and in none of the others.
	GrowthBytes, HeldBytes, CacheBytes, TriedBytes, UntouchedBytes int64
	// Samples are the trials that the mean is of, and Pressed says that those near the limit
	// made it, by how long they waited for memory (pressureLine). Deviation is the standard
	// deviation of the logarithm, about that line or else pooled over all setups, with
	// Freedom degrees of freedom, of which Assumed are no trials' (needSpread).
	Samples            int
	Pressed            bool
	Deviation, Freedom float64
	Assumed            float64
}

// BoundWith is the bound that so many samples would give, if they differed as those so
// far do.
func (n Need) BoundWith(samples int) int64 {
	freedom, sure := n.Freedom-n.Assumed+float64(samples-n.Samples), n.GrowthBytes+n.UntouchedBytes
	return sure + boundOf(float64(n.MeanBytes-sure), samples, max(needFreedom, freedom), n.Deviation)
}

// Content is the share of runs that need no more than a limit, with the confidence of the bound.
func (n Need) Content(limit int64) float64 {
	sure := n.GrowthBytes + n.UntouchedBytes
	if limit <= sure {
		return 0
	}
	above := math.Log(float64(limit-sure) / float64(n.MeanBytes-sure))
	return toleranceContent(n.Samples, n.Freedom, above/n.Deviation, needConfidence)
}

func boundOf(mean float64, samples int, freedom, deviation float64) int64 {
	return int64(mean * math.Exp(deviation*toleranceFactor(samples, freedom, needContent, needConfidence)))
}

// sample is what one trial says of the need of setups that differ from its own in the
// size of the heap alone.
type sample struct {
	// held is what cannot be dropped but for what collections free, and cache the page cache.
	held, cache int64
	// growth is what still grew.
	growth int64
	// touched is what is resident of that which collections free.
	touched int64
}

// full is what cannot be dropped with all that collections free as full as its bound lets it
// become, if it has one.
func (m sample) full(bound int64) int64 {
	if bound > 0 {
		return m.held + bound
	}
	return m.held + m.touched
}

// fixesHeap says that a setup's heap does not follow the limit.
func (s *Search) fixesHeap(setup Setup) bool { return setup.heapBytes() > 0 || s.heapFixed() }

// needOf is what a setup whose heap is fixed needs; known is false where no trial
// tells.
func (s *Search) needOf(setup Setup) (n Need, known bool) {
	samples := s.samples(setup)
	if len(samples) == 0 {
		return n, false
	}
	n.Samples, n.GrowthBytes = len(samples), s.growthOf(setup)
	measured := meanOf(samples, s.boundOn(setup))
	for _, m := range samples {
		n.CacheBytes += m.cache / int64(len(samples))
	}
	n.HeldBytes = int64(measured) - n.CacheBytes
	center, line := s.corrected(setup, measured, float64(n.HeldBytes))
	if n.Pressed = line.samples > 0; n.Pressed {
		n.Samples, n.Deviation, n.Freedom, n.Assumed = line.samples, line.deviation, line.freedom, line.assumed
	} else {
		n.Deviation, n.Freedom, n.Assumed = s.needDeviation()
	}
	n.TriedBytes = int64(center) - int64(measured)
	n.UntouchedBytes = s.beyondOwn()
	sure := n.GrowthBytes + n.UntouchedBytes
	n.MeanBytes = int64(center) + sure
	n.BoundBytes = boundOf(center, n.Samples, n.Freedom, n.Deviation) + sure
	return n, true
}

// needLogs are the logarithms of what samples of a setup needed, with so much at the bounds of
// what collections free.
func needLogs(samples []sample, bound int64) []float64 {
	var logs []float64
	for _, m := range samples {
		logs = append(logs, math.Log(float64(max(1, m.full(bound)+m.cache))))
	}
	return logs
}

// meanOf is what samples of a setup needed on the average (geometric), as needLogs has it.
func meanOf(samples []sample, bound int64) float64 { return math.Exp(mean(needLogs(samples, bound))) }

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
		cache := s.used(t) - t.NeededBytes
		touched := s.touchedIn(t)
		out = append(out, sample{held: t.NeededBytes - touched, cache: cache, growth: t.growth(), touched: touched})
	}
	return out
}

// used is what a trial that had enough memory needed, with the heap as full as it was.
func (s *Search) used(t Trial) int64 { return min(t.LimitBytes, t.NeededBytes+s.cacheOf(t)) }

// boundOn is the bound that a setup sets on what collections free: the heap, and direct buffers
// where those that nobody holds stay. Of a heap that the user has sized it is what the baseline
// used (usedOwn); 0 is a heap that follows the limit.
func (s *Search) boundOn(setup Setup) int64 {
	heap := setup.heapBytes()
	if heap > 0 && s.leavesDirect() {
		return heap + setup.directBytes()
	}
	return cmp.Or(heap, s.usedOwn())
}

// touchedIn is what is resident in a trial of that which collections free, untouchedIn what may
// become so up to the bound.
func (s *Search) touchedIn(t Trial) int64 {
	touched := heapTouched(t)
	if most := cmp.Or(t.Setup.heapBytes(), s.ownHeap()); most > 0 {
		touched = min(touched, most)
	}
	return touched + s.directTouched(t)
}

// heapTouched is what is resident of a trial's heap.
func heapTouched(t Trial) int64 { return min(ledgerOf(t, 0).heap(), t.NeededBytes) }

// untouchedIn is below 0 where a trial touched more of the user's own heap than the baseline.
func (s *Search) untouchedIn(t Trial) int64 {
	untouched := s.boundOn(t.Setup) - s.touchedIn(t)
	if s.ownHeap() > 0 {
		return untouched
	}
	return max(0, untouched)
}

// like are the trials whose setup differs from another one in the size of the heap at
// most; baselines had more memory than they could use.
func (s *Search) like(setup Setup) []Trial {
	return slices.DeleteFunc(s.alikeButForHeap(setup), func(t Trial) bool {
		sized := (t.Setup.heapBytes() > 0) == (setup.heapBytes() > 0)
		return !sized || t.Setup.directBytes() != setup.directBytes()
	})
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
		alike := t.Setup.withoutHeap().plus(Setup{Options: withDirectBound(t.Setup.directBytes())})
		if !s.fixesHeap(t.Setup) || containsSetup(seen, alike) {
			continue
		}
		seen = append(seen, alike)
		logs := needLogs(s.samples(t.Setup), s.boundOn(t.Setup))
		center := mean(logs)
		for _, l := range logs {
			sum += (l - center) * (l - center)
		}
		freedom += float64(max(0, len(logs)-1))
	}
	return withPrior(sum, freedom)
}

// withPrior is the standard deviation of a sum of squares with so many degrees of freedom,
// needSpread standing in for those that lack of needFreedom.
func withPrior(squares, has float64) (deviation, freedom, assumed float64) {
	assumed = max(0, needFreedom-has)
	freedom = has + assumed
	return math.Sqrt((squares + assumed*needSpread*needSpread) / freedom), freedom, assumed
}

func containsSetup(setups []Setup, s Setup) bool {
	for _, o := range setups {
		if o.Same(s) {
			return true
		}
	}
	return false
}

// corrected is what is needed by measurement with room, corrected by the limits that were
// tried: no more than the smallest that was enough (and the heap that was not touched
// there), and no less than the largest that was not. Where trials near the limit tell of
// pressure, their line takes the place of both; it is zero where it does not decide. The
// long run may need more than they do.
func (s *Search) corrected(setup Setup, measured, held float64) (center float64, line pressureLine) {
	growth := s.growthOf(setup)
	line = s.byPressure(setup)
	enough, lacked, more, long := math.Inf(1), 0.0, 0.0, 0.0
	for _, t := range s.found.Trials {
		if !t.Setup.Same(setup) || t.Phase == PhaseBelow {
			continue
		}
		switch {
		case t.Phase == PhaseLong && t.enough():
			if limit, told := s.longLimit(t, line); told {
				long = max(long, limit-float64(growth))
			} else {
				more = max(more, float64(t.NeededBytes+s.untouchedIn(t)-growth)-held)
			}
		case line.samples > 0 && t.tellsPressure():
		case t.lacksMemory():
			lacked = max(lacked, float64(t.LimitBytes+min(0, s.untouchedIn(t))-growth))
		case t.hasRoom() && t.ofTheLoad():
			enough = min(enough, float64(t.LimitBytes+s.untouchedIn(t)-growth))
		}
	}
	center = min(measured, enough)
	if line.samples > 0 {
		center = min(enough, line.limit-float64(growth))
	}
	return max(lacked, long, center+more), line
}

// longLimit is the limit, as of pressureLine, at which waiting for memory would take all that
// it may of the worst quarter of a long run, by what it took of that, but no less than what
// the run held, and that alone where it hardly waited: then the limit at which it would have may
// be far below. Told is false where it does not tell. What the run held more than others says
// less: it may take the place of page cache that was in use at the start alone.
func (s *Search) longLimit(t Trial, line pressureLine) (limit float64, told bool) {
	most := MayWait(s.Spare)
	if most <= 0 || t.Result == nil || t.Result.WorstReclaimShare == nil {
		return 0, false
	}
	limit = float64(t.NeededBytes)
	if share := min(mostPressure, *t.Result.WorstReclaimShare); share >= leastPressure {
		slope := cmp.Or(line.slope, -usualSlope)
		limit = max(limit, float64(t.LimitBytes)*math.Pow(share/most, -slope))
	}
	return limit + float64(s.untouchedIn(t)), true
}

const (
	// leastPressure and mostPressure are the shares of the time that waiting for memory
	// takes between which it rises about exponentially as the limit falls.
	leastPressure, mostPressure = trial.LeastWait, 0.5
	// usualSlope is that of the logarithm of the limit over the logarithm of the pressure until trials
	// tell, negated: of four services on JDK 17 and 25 it was from 0.05 to 0.12, with 0.08 a limit
	// 6 % smaller has twice the pressure (docs/results/raw/peers.jsonl.gz). usualSpread is the standard
	// deviation of its logarithm.
	usualSlope, usualSpread = 0.08, 0.35
	// nearSpread is needSpread of runs near the limit, where what others do counts as well.
	nearSpread = 2 * needSpread
	// flattest and steepest are the slopes that it is looked for between, in slopeSteps steps of
	// the same ratio.
	flattest, steepest, slopeSteps = -0.2, -0.01, 200
)

// tellsPressure says that a trial was near its limit, and not beyond.
func (t Trial) tellsPressure() bool {
	near := t.Phase == PhaseRefine || t.Phase == PhaseConfirm
	return near && t.Result != nil && !t.Result.Ended && t.Result.Load != nil && t.Result.ReclaimShare >= leastPressure && t.Result.ReclaimShare <= mostPressure
}

// pressureLine is the limit, with what is not touched of the heap, at which waiting for
// memory takes all that it may (MayWait), by so many trials near it; the deviation is that
// of the logarithms of their limits about the line, as in Need.
type pressureLine struct {
	limit, slope                float64
	samples                     int
	deviation, freedom, assumed float64
}

// byPressure is the line through all trials near the limit, over the logarithm of the
// pressure: one trial that is on this or on that side of a limit is chance, and the line is
// much less so. It is zero where fewer than two tell.
func (s *Search) byPressure(setup Setup) (line pressureLine) {
	most := MayWait(s.Spare)
	if most <= 0 {
		return line
	}
	var xs, ys []float64
	for _, t := range s.found.Trials {
		if t.Setup.Same(setup) && t.tellsPressure() {
			xs = append(xs, math.Log(t.Result.ReclaimShare/most))
			ys = append(ys, math.Log(float64(t.LimitBytes+s.untouchedIn(t))))
		}
	}
	if len(xs) < 2 {
		return line
	}
	slope := likelySlope(xs, ys)
	squares := squaresAbout(xs, ys, slope)
	line.limit, line.slope, line.samples = math.Exp(mean(ys)-slope*mean(xs)), slope, len(xs)
	line.deviation, line.freedom, line.assumed = withPrior(squares, float64(max(0, len(xs)-2)))
	return line
}

// likelySlope is the slope of a line through points, the logarithms of limits over those of
// pressures, that is most likely where what runs need differs by nearSpread. A limit is chosen, and
// what a run needs makes its pressure: the steeper the pressure rises, the farther apart it is in
// two runs that differ by chance.
func likelySlope(xs, ys []float64) float64 {
	best, most := 0.0, math.Inf(-1)
	for i := 0; i <= slopeSteps; i++ {
		slope := steepest * math.Pow(flattest/steepest, float64(i)/slopeSteps)
		off := math.Log(slope/-usualSlope) / usualSpread
		likely := float64(len(xs)-1)*math.Log(-slope) - squaresAbout(xs, ys, slope)/(2*nearSpread*nearSpread) - off*off/2
		if likely > most {
			best, most = slope, likely
		}
	}
	return best
}

// squaresAbout is the sum of the squares by which points are off a line of that slope.
func squaresAbout(xs, ys []float64, slope float64) (sum float64) {
	x, y := mean(xs), mean(ys)
	for i := range xs {
		off := ys[i] - y - slope*(xs[i]-x)
		sum += off * off
	}
	return sum
}

// lacksMemory says that a trial's limit was not enough, by memory's own signals.
func (t Trial) lacksMemory() bool {
	if t.hasRoom() {
		return false
	}
	return t.Pressed || ofMemory(t.Verdict) || t.LimitCost >= unasked || t.Result != nil && t.Result.ReclaimShare >= unasked
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
