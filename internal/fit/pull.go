package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/stats"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/trial"
)

const (
	// leastSaving is the share of what is needed, and leastBytes what at least
	// it must be, that is worth a trial.
	leastSaving = 0.01
	leastBytes  = 2 * mib
	// boldSaving is the share of what is needed for which a lever that may cost
	// speed is tried with those that do not.
	boldSaving = 0.10
)

// worthATrial is the least saving for which a lever is tried.
func (s *Search) worthATrial() int64 {
	return max(leastBytes, int64(leastSaving*float64(s.predict(s.best.at))))
}

// leverLimit is the limit that levers are tried at: a tenth above the smallest as
// given, where reclaim does not disturb, and the heap is about as large.
func (s *Search) leverLimit() int64 {
	return min(s.AmpleBytes, wholeMiB(s.given.limit()+s.given.limit()/10))
}

// pullLevers tries the levers on top of each other, at a limit where memory is not the
// bottleneck: a trial tells what is needed and how fast it is.
func (s *Search) pullLevers(ctx context.Context) error {
	fast, slow, files := bundles(s.openLevers())
	// By then it is known what speed is to spare for hot code alone, and it
	// needs no trial of its own; what a smaller code cache saves depends on it.
	slow, hot := take(slow, spendsSpeed)
	slow, code := take(slow, func(l Lever) bool { return l.Last })
	s.expect(2 + len(slow) + reserve)
	bold := s.bold(slow)
	slow = slices.DeleteFunc(slow, func(l Lever) bool { return slices.ContainsFunc(bold, l.same) })
	s.coming = [][]Lever{files}
	if err := s.pull(ctx, slices.Concat(fast, bold)); err != nil {
		return err
	}
	var heap []Lever
	if s.best.setup.heapBytes() > 0 {
		heap = s.openSizes("heap")
	}
	direct := s.openDirect()
	files = append(files, hot...)
	s.coming = [][]Lever{files, direct, heap}
	for len(slow) > 0 {
		s.promising(slow)
		if err := s.pull(ctx, slow[:1]); err != nil {
			return err
		}
		slow = slow[1:]
	}
	s.coming = [][]Lever{direct, heap}
	if err := s.pull(ctx, files); err != nil {
		return err
	}
	return s.pull(ctx, code)
}

// take parts levers from those of a kind.
func take(levers []Lever, kind func(Lever) bool) (rest, taken []Lever) {
	for _, l := range levers {
		if kind(l) {
			taken = append(taken, l)
		} else {
			rest = append(rest, l)
		}
	}
	return rest, taken
}

// bold are the levers that may cost speed, but promise so much that they are
// tried with the first: what speed they cost does not matter while the objective
// holds, and what they save would hide what others do.
func (s *Search) bold(slow []Lever) []Lever {
	ledger := s.ledger()
	var bold []Lever
	for _, l := range slow {
		covered := slices.ContainsFunc(bold, l.needless)
		if n := ledger.bound(l); !covered && n != nil && float64(*n) >= boldSaving*float64(s.predict(s.best.at)) {
			bold = append(bold, l)
		}
	}
	return bold
}

// promising brings the levers that could save most to the front, and before them the
// user's own, of which nothing is known.
func (s *Search) promising(levers []Lever) {
	ledger := s.ledger()
	most := func(l Lever) int64 {
		if l.Own {
			return math.MaxInt64
		}
		if n := ledger.bound(l); n != nil {
			return *n
		}
		return 0
	}
	slices.SortStableFunc(levers, func(a, b Lever) int { return cmp.Compare(most(b), most(a)) })
}

// openLevers are the levers that this JVM and its user leave open, but for the
// heap's, which come last.
func (s *Search) openLevers() []Lever {
	var open []Lever
	var closed, others []LeverResult // others are forms for other releases
	for _, l := range s.Levers {
		left, ok, reason := l.open(s.Facts)
		switch r := (LeverResult{Lever: l, Reason: reason}); {
		case ok:
			open = append(open, left)
		case l.isFor(s.Facts.Release):
			closed = append(closed, r)
		default:
			others = append(others, r)
		}
	}
	said := map[string]bool{}
	for _, l := range open {
		said[l.ID] = true
	}
	for _, r := range append(closed, others...) { // one reason for all forms of a lever
		if !said[r.Lever.ID] {
			said[r.Lever.ID] = true
			s.drop(r, r.Reason)
		}
	}
	return slices.DeleteFunc(open, func(l Lever) bool { return l.ByCurve })
}

// bundles are the levers by how they are tried: those that cost no speed in one
// trial; those that may, one by one; and at the end, in one trial, class archives
// and the layout of jars that they need.
func bundles(levers []Lever) (fast, slow, files []Lever) {
	for _, l := range levers {
		switch {
		case l.TrainOption != "" || l.Extract:
			files = append(files, l)
		case l.Slows:
			slow = append(slow, l)
		default:
			fast = append(fast, l)
		}
	}
	return fast, slow, files
}

// pull tries levers together on top of the best point and keeps them when less
// is needed. Those that do nothing beside others of them wait for what becomes of
// those.
func (s *Search) pull(ctx context.Context, levers []Lever) error {
	waiting, first := take(levers, func(l Lever) bool { return !slices.ContainsFunc(levers, l.needless) })
	if err := s.pullTogether(ctx, first); err != nil || len(waiting) == 0 {
		return err
	}
	return s.pull(ctx, waiting)
}

// pullTogether tries levers in one trial. Where that fails, it tries them in parts:
// without the one that it points at, else as split says.
func (s *Search) pullTogether(ctx context.Context, levers []Lever) error {
	levers = s.worthwhile(s.stillOpen(levers))
	if len(levers) == 0 {
		return nil
	}
	if s.room() <= s.reserveBeside(levers) {
		for _, l := range levers {
			s.drop(LeverResult{Lever: l, BoundBytes: s.ledger().bound(l)}, noTrialLeft)
		}
		return nil
	}
	added, err := s.prepare(ctx, levers)
	if err != nil || len(added) == 0 {
		return err
	}
	t, err := s.tryLevers(ctx, added)
	if err != nil {
		return err
	}
	if len(t.Setup.Options) == 0 && s.Facts.Unreached != "" {
		return s.pull(ctx, leversOf(added))
	}
	reason := s.unfit(t)
	if reason == "" {
		reason = s.carry(s.on(s.best, added, t))
	}
	switch i := s.culprit(added, t); {
	case reason == "":
	case len(added) > 1 && i >= 0:
		s.dropTried(added[i:i+1], t, reason)
		return s.pull(ctx, leversOf(slices.Delete(added, i, i+1)))
	case len(added) > 1:
		one, other := split(leversOf(added), s.suspect(t))
		if err := s.pull(ctx, one); err != nil {
			return err
		}
		return s.pull(ctx, other)
	default:
		s.dropTried(added, t, reason)
	}
	return nil
}

// culprit is the lever that a failed trial points at: the heap's where that was
// too small, hot code's where it was too slow; -1 for none.
func (s *Search) culprit(added []LeverResult, t Trial) int {
	if s.heapTooSmall(t) && !hopeless(t) {
		if i := slices.IndexFunc(added, func(r LeverResult) bool { return r.Lever.sizesHeap() }); i >= 0 {
			return i
		}
	}
	if t.AskedSpeed <= 0 && !s.passedByLuck(t) {
		return -1
	}
	return slices.IndexFunc(added, func(r LeverResult) bool { return spendsSpeed(r.Lever) })
}

// suspect says of levers whether they can have failed a trial. None can where memory lacked
// at the limit: levers save it. One that was too slow for its throughput, at no more
// processor time, waited; what pauses take is told by collections.
func (s *Search) suspect(t Trial) func(Lever) bool {
	harms := func(any ...Harm) func(Lever) bool {
		return func(l Lever) bool {
			return slices.ContainsFunc(any, func(h Harm) bool { return slices.Contains(l.Harms, h) })
		}
	}
	switch {
	case s.tooDear(t), t.Verdict == trial.TooSlow && !s.withinCost(t):
		return harms(HarmSpeed, HarmStart)
	case t.Verdict == trial.TooSlow && t.AskedSpeed > 0:
		return func(l Lever) bool { return l.Waits }
	case t.Verdict == trial.TooSlow:
		return harms(HarmLatency)
	case t.Verdict == trial.NeverReady:
		return harms(HarmStart, HarmRun)
	case t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing:
		return harms(HarmHeap)
	case t.Verdict == trial.Crashed || t.Verdict == trial.Errors:
		return harms(HarmRun)
	}
	return harms()
}

// split parts a bundle that failed: those that cannot have failed it from the suspects
// or, where all are alike, in halves.
func split(levers []Lever, suspect func(Lever) bool) (one, other []Lever) {
	one, other = take(levers, suspect)
	if len(one) > 0 && len(other) > 0 {
		return one, other
	}
	half := len(levers) / 2
	return levers[:half], levers[half:]
}

const noTrialLeft = "no trial was left for it (--trials, --budget)"

// reserveBeside is how many trials are kept when levers could be tried: for
// finding the limit, and for levers to come that promise more, or a large part of what is
// needed: a bound is what levers save at most; not where the user asks for these.
func (s *Search) reserveBeside(levers []Lever) int {
	if slices.ContainsFunc(levers, func(l Lever) bool { return l.Own }) {
		return reserve
	}
	ledger := s.ledger()
	least := min(ledger.bounds(levers)+1, int64(boldSaving*float64(s.predict(s.best.at))))
	kept := reserve
	for _, later := range s.coming {
		if ledger.bounds(later) >= least {
			kept++
		}
	}
	return kept
}

// bounds is the most that levers could save together, as far as that is known.
func (l Ledger) bounds(levers []Lever) int64 {
	var sum int64
	for _, lever := range levers {
		if n := l.bound(lever); n != nil {
			sum += *n
		}
	}
	return sum
}

func leversOf(results []LeverResult) []Lever {
	var out []Lever
	for _, r := range results {
		out = append(out, r.Lever)
	}
	return out
}

// worthwhile leaves out levers that cannot save enough by the ledger of the
// best point, or that are without effect beside those that are kept.
func (s *Search) worthwhile(levers []Lever) []Lever {
	ledger := s.ledger()
	var out []Lever
	for _, l := range levers {
		r := LeverResult{Lever: l, BoundBytes: ledger.bound(l)}
		if by := s.coveredBy(l); by != "" {
			s.drop(r, by+" leaves nothing to it")
			continue
		}
		if r.BoundBytes == nil && !l.Blind {
			s.drop(r, "no footprint tells what it could save")
			continue
		}
		// A heap that follows the limit is what its largest size allows, whatever it had.
		fixes := l.sizesHeap() && !s.fixesHeap(s.best.setup)
		if r.BoundBytes != nil && *r.BoundBytes < s.worthATrial() && !fixes {
			s.drop(r, fmt.Sprintf("could save at most %s", mibText(*r.BoundBytes)))
			continue
		}
		if spendsSpeed(l) && s.scale(l) == 0 {
			s.drop(r, "the other levers leave no speed to spare for it")
			continue
		}
		if times, dear := s.foreseenDear(l); dear {
			s.drop(r, fmt.Sprintf("by trials with it the work costs at least %.2f times that as given", times))
			continue
		}
		out = append(out, l)
	}
	return out
}

// bound is a lever's bound; nil where nothing tells.
func (l Ledger) bound(lever Lever) *int64 {
	if l.Footprint == nil || lever.bound == nil {
		return nil
	}
	n := lever.bound(l)
	return &n
}

// ledger is of the best point, or of the last trial before it that has a
// footprint.
func (s *Search) ledger() Ledger {
	l := ledgerOf(s.best.at, s.Facts.CPUs)
	if l.Footprint == nil {
		l = ledgerOf(s.found.Baseline, s.Facts.CPUs)
	}
	if l.LiveBytes == 0 {
		l.LiveBytes = s.live(s.best)
	}
	return l
}

// uses says that the best point has a lever.
func (s *Search) uses(l Lever) bool {
	return slices.ContainsFunc(s.best.levers, func(r LeverResult) bool { return r.Lever.same(l) })
}

// coveredBy names the kept lever beside which another one does nothing.
func (s *Search) coveredBy(l Lever) string {
	for _, r := range s.best.levers {
		if l.needless(r.Lever) {
			return r.Lever.Name
		}
	}
	return ""
}

// prepare makes what the levers need, such as archives, and drops those for
// which that fails.
func (s *Search) prepare(ctx context.Context, levers []Lever) ([]LeverResult, error) {
	var added []LeverResult
	setup := s.best.setup
	ledger := s.ledger()
	for _, l := range levers {
		v := s.sizes(ledger, firstHeap)
		v.scale = s.scale(l)
		var err error
		switch {
		case l.Extract:
			v.jar, err = extract(ctx, s.Trier)
		case l.TrainOption != "":
			s.observe(Event{Attempt: Attempt{Number: len(s.found.Trials), Phase: PhaseTrain, Lever: l.Name, Setup: setup, LimitBytes: s.AmpleBytes}})
			v.archive, err = s.Trier.Train(ctx, setup, l.TrainOption)
		}
		r := LeverResult{Lever: l, Setup: l.setup(v), BoundBytes: ledger.bound(l)}
		if sizeIn(r.Setup.Options, directOption) > 0 {
			r.Lever.Why += "; direct buffers keep the bound that they had"
		}
		switch {
		case errors.Is(err, ErrNoArchive) || errors.Is(err, ErrNotExtracted):
			s.drop(r, err.Error())
			s.note("%s: %v", l.Name, err)
		case err != nil:
			return nil, err
		default:
			setup = setup.plus(r.Setup)
			added = append(added, r)
		}
	}
	return added, nil
}

func extract(ctx context.Context, t Trier) (string, error) {
	if e, ok := t.(Extractor); ok {
		return e.Extract(ctx)
	}
	return "", ErrNotExtracted
}

// sizes are what the levers' placeholders become: the heap in live sets, but
// smaller than the heap that there is, if that is not too small.
func (s *Search) sizes(l Ledger, lives float64) sizes {
	live := s.live(s.best)
	heap := heapFor(live, lives)
	if has := l.heap(); has > 0 && lives == firstHeap {
		heap = min(heap, max(heapFor(live, 1.5), wholeMiB(share(has, 85))))
	}
	heap = max(heap, wholeMiB(s.tooSmallAsGiven()*5/4))
	v := sizes{heap: heap, direct: s.directKept(), cpus: max(1, int(s.Facts.CPUs+0.999))}
	v.young, v.initial = youngFor(v.heap, live), s.initialHeap(live)
	if l.Footprint != nil {
		v.code = max(leastCode, wholeMiB(l.resident(footprint.CodeCache)*3/4))
	}
	return v
}

// tooSmallAsGiven is the largest heap that a trial as given had grown to its bound, and of which
// collections took too much, where the JVM has by itself the collector that levers choose; 0
// without one, and where direct buffers wait for collections. One that has not grown so far tells
// nothing of its size: Serial leaves the young generation as small as it began until the whole heap
// is collected.
func (s *Search) tooSmallAsGiven() int64 {
	if s.leavesDirect() {
		return 0
	}
	most := int64(0)
	for _, t := range s.found.Trials {
		if heap := t.heapAsGiven(serial); s.heapTooSmall(t) && float64(t.grown(heap)) >= heapFull*float64(heap) {
			most = max(most, heap)
		}
	}
	return most
}

// heapFull is the part of its bound from which a heap has grown to it.
const heapFull = 0.9

// serial is the collector that levers choose, as footprints name it.
const serial = "Serial"

// initialHeap is the heap to begin with where that must not go by the limit: what
// lives, in which the JVM's own objects are, or what HotSpot has at least.
func (s *Search) initialHeap(live int64) int64 {
	initial := max(leastInitial, live)
	if heap := s.best.setup.heapBytes(); heap > 0 {
		initial = min(initial, heap)
	}
	return initial
}

// leastInitial is the least heap that HotSpot begins with by itself.
const leastInitial = 8 * mib

// scale is the first of the lever's scales that the levers so far have made enough
// speed for, 0 where they have not. Where work tells, all but the last, which costs least,
// must be sure to have it, and that one must not be sure to lack it: its own trial tells,
// and what a lever is tried by must not hang on how fast the machine was for a minute.
func (s *Search) scale(l Lever) int {
	faster := s.faster(s.best, point{at: s.found.Baseline})
	surely, perhaps := faster, faster
	if c := s.relativeCost(s.best.setup, Setup{}); c.CostLow > 0 {
		surely, perhaps = 1/c.CostHigh, 1/c.CostLow
	}
	for i, c := range l.Scales {
		if c.Keeps*surely >= 1 || i == len(l.Scales)-1 && c.Keeps*perhaps >= 1 {
			return c.Times
		}
	}
	return 0
}

// leastCode is the smallest code cache that is tried: HotSpot's own code needs
// about 3 MiB of it.
const leastCode = 6 * mib

// live is the live set: the least that a collection left in a trial which did the load's work.
// What young collections leave holds what became old and is dead, so that each is an upper
// bound. Where none tells it is the heap in use.
func (s *Search) live(p point) int64 {
	live := p.at.LiveBytes
	for _, t := range s.found.Trials {
		if t.LiveBytes > 0 && t.ofTheLoad() && (t.Passed || s.didTheWork(t)) && (live == 0 || t.LiveBytes < live) {
			live = t.LiveBytes
		}
	}
	return cmp.Or(live, p.at.HeapBytes)
}

// tryLevers tries levers at the limit as given, and with a larger heap where
// the first was too small.
func (s *Search) tryLevers(ctx context.Context, added []LeverResult) (Trial, error) {
	a := Attempt{Phase: PhaseLever, Lever: names(added), Setup: s.best.setup, LimitBytes: s.leverLimit()}
	for _, r := range added {
		a.Setup = a.Setup.plus(r.Setup)
	}
	t, err := s.withoutChance(ctx, a)
	if err != nil {
		return t, err
	}
	i := slices.IndexFunc(added, func(r LeverResult) bool { return r.Lever.sizesHeap() })
	if i < 0 || s.unfit(t) == "" || !s.heapTooSmall(t) || hopeless(t) || s.room() <= reserve {
		return s.sure(ctx, t)
	}
	added[i].Setup = added[i].Lever.setup(s.largerHeap(t))
	a.Setup = a.Setup.plus(added[i].Setup)
	return s.try(ctx, a)
}

// heapTooSmall says that a larger heap may help: a trial that was too slow was so for
// collections where they took as much as at the knee or, beyond what they do with ample
// memory, half of what the objective leaves.
func (s *Search) heapTooSmall(t Trial) bool {
	most := 1 - KneeShare
	if s.Spare > 0 {
		most = min(most, gcShareOf(s.found.Baseline)+s.Spare/2)
	}
	return t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing || t.Verdict == trial.TooSlow && gcShareOf(t) > most
}

// hopeless says that a setup that was too slow would be so with any heap.
func hopeless(t Trial) bool {
	return t.Verdict == trial.TooSlow && t.Speed()/(1-gcShareOf(t)) < t.AskedSpeed
}

// largerHeap are the sizes to try after a trial with too small a heap: as fast as
// the baseline nearly was by the curve of what collections cost.
func (s *Search) largerHeap(t Trial) sizes {
	v := s.sizes(s.ledger(), laterHeap)
	has := t.Setup.heapBytes()
	c, ok := fitGCCost(heapPointOf(t, has))
	if !ok || t.Speed() <= 0 {
		return v
	}
	if heap := c.faster(t.Speed(), nearly*s.found.Baseline.Speed(), has); heap > 0 {
		v.heap = wholeMiB(min(v.heap, max(heap, has*5/4)))
	}
	return v
}

func (t Trial) codeCacheFull() bool { return t.Result != nil && t.Result.CodeCacheFull }

func gcShareOf(t Trial) float64 {
	if t.Result == nil || t.Result.GCShare == nil {
		return 0
	}
	return *t.Result.GCShare
}

// unfit says why a trial's levers are out of the question, whatever is preferred, or "".
func (s *Search) unfit(t Trial) string {
	if !t.Passed && !(t.SlowElsewhere && s.blameless(t)) {
		return fmt.Sprintf("%s at %d MiB", t.Verdict, t.LimitBytes/mib)
	}
	if s.passedByLuck(t) {
		ratio, _ := s.costRatio(t.Setup, Setup{})
		return fmt.Sprintf("its work cost %.2f times that as given: too near to the %.2f that the objective allows", ratio, 1/(1-s.Spare))
	}
	if reason := s.answersLate(t); reason != "" {
		return reason
	}
	if t.codeCacheFull() && !s.best.at.codeCacheFull() {
		return "the code cache was full"
	}
	if t.ArchiveUnused {
		return "the JVM did not use the archive: its log says why"
	}
	return ""
}

// needed is what a point and a trial with other levers need. Where they differ in the
// heap's size alone they need the same page cache, of which two squeezes say different
// things, and a heap that is not full yet may become so. Where both have their heaps sized,
// the sizes are all that differs, but where one needs more than chance tells: what else two
// trials had more or less is that. A heap that one has sized and that follows the limit in the
// other may become full in both.
func (s *Search) needed(t Trial, p point) (before, after int64) {
	best := p.at
	switch {
	case s.fixesHeap(t.Setup) != s.fixesHeap(best.Setup):
		return s.limitFull(best), s.limitFull(t)
	case t.Setup.heapBytes() == 0 || !best.Setup.withoutHeap().Same(t.Setup.withoutHeap()):
		return s.limitOf(best), s.limitOf(t)
	}
	cache := (s.cacheNeed(best) + s.cacheNeed(t)) / 2
	before = best.NeededBytes + s.untouchedIn(best) + cache
	after = t.NeededBytes + s.untouchedIn(t) + cache
	if has := s.boundOn(best.Setup); has > 0 { // else it is the user's own, and nobody sized it
		if foreseen := before - (has - s.boundOn(t.Setup)); after-foreseen <= s.chance(before, sizesConfidence) {
			after = foreseen
		}
	}
	return before, after
}

// limitFull is limitOf with the heap as full as it may become.
func (s *Search) limitFull(t Trial) int64 {
	if s.fixesHeap(t.Setup) {
		return s.limitOf(t) + s.untouchedIn(t)
	}
	rest := t.NeededBytes - s.touchedIn(t) + s.cacheNeed(t)
	return max(s.limitOf(t), s.limitWith(rest, s.Facts.Given.MaxHeap))
}

// unforeseen says that nothing foresees that levers save memory: what trials tell of
// them may be chance.
func unforeseen(added []LeverResult) bool {
	return len(added) > 0 && !slices.ContainsFunc(added, func(r LeverResult) bool { return r.Lever.bound != nil })
}

// sizesConfidence is that with which a smaller heap must be seen to need more elsewhere. It has
// done so with native memory that waits for collections; else such trials differ by chance, and by
// more than is assumed before trials tell: malloc had 36 to 46 MiB of the demo service, most of
// them C2's.
const sizesConfidence = 0.999

// chance is by how much the needs of two trials of the same setup differ at most, with a
// confidence.
func (s *Search) chance(need int64, confidence float64) int64 {
	deviation, freedom, _ := s.needDeviation()
	return int64(stats.InvCDF(stats.TDist{V: freedom})(confidence) * math.Sqrt2 * deviation * float64(need))
}

// on is the point of a trial of levers on top of another point. A lever that the other
// one has with other sizes takes its place, and all that both changed is its own.
func (s *Search) on(p point, added []LeverResult, t Trial) point {
	cost, known := s.costRatio(t.Setup, p.setup)
	if !known {
		cost = 0
	}
	before, saved := p.at.Number, s.predict(p.at)-s.predict(t)
	out := point{setup: t.Setup, at: t, levers: slices.Clone(p.levers), unforeseen: unforeseen(added)}
	for _, r := range added {
		r.Kept, r.Reason, r.CostRatio, r.SavedBytes, r.Before, r.Trial = true, "", cost, saved, before, t.Number
		if i := slices.IndexFunc(out.levers, func(o LeverResult) bool { return o.Lever.same(r.Lever) }); i >= 0 {
			r.SavedBytes, r.Before = saved+out.levers[i].SavedBytes, out.levers[i].Before
			out.levers = slices.Delete(out.levers, i, i+1)
		}
		out.levers = append(out.levers, r)
	}
	return out
}

func (s *Search) drop(r LeverResult, reason string) {
	r.Reason, r.Kept, r.Setup = reason, false, Setup{}
	s.dropped = append(s.dropped, r)
	s.adopt(s.best)
}

func (s *Search) dropTried(added []LeverResult, t Trial, reason string) {
	for _, r := range added {
		r.Before, r.Trial = s.best.at.Number, t.Number
		s.drop(r, reason)
	}
	s.note("%s: dropped, %s", names(added), reason)
}

func names(added []LeverResult) string {
	var all []string
	for _, r := range added {
		all = append(all, r.Lever.Name)
	}
	return strings.Join(all, " + ")
}

func mibText(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mib) }

// leastTighter is what a tighter heap must save to be worth a trial, in whole MiB: where one
// was found already, as much of what is needed as limits are found to.
func (s *Search) leastTighter() int64 {
	if !slices.ContainsFunc(s.best.levers, func(r LeverResult) bool { return r.Lever.ByCurve }) {
		return mib
	}
	return max(mib, share(s.predict(s.best.at), 3)/mib*mib)
}

// nearly is the share of the baseline's speed that a heap is chosen for: an
// objective of 0.9 then leaves room for chance.
const nearly = 0.93

// openSizes is the lever of this name that goes by a curve, or none where its user leaves
// nothing of it open.
func (s *Search) openSizes(id string) []Lever {
	for _, l := range s.Levers {
		if left, ok, _ := l.open(s.Facts); ok && l.ByCurve && l.ID == id {
			return []Lever{left}
		}
	}
	return nil
}

// tightenHeap tries smaller heaps by the curve of what collections cost, as long
// as it foresees enough to save.
func (s *Search) tightenHeap(ctx context.Context) error {
	open := s.openSizes("heap")
	if len(open) == 0 {
		return nil // openLevers has said why
	}
	lever := open[0]
	result := LeverResult{Lever: lever, BoundBytes: s.ledger().bound(lever), Before: s.best.at.Number}
	tooSmall := int64(0)
	var smaller heapTrial
	defer s.forget(PhaseLever)
	for range 3 {
		next, reason := s.nextHeap(tooSmall)
		if reason != "" {
			result.Reason = cmp.Or(result.Reason, reason)
			break
		}
		h := s.heapTrial(lever, s.best.setup, next)
		if len(s.plan) > 0 && max(next-smaller.heap, smaller.heap-next) <= mib {
			h = smaller
		} else if has := s.best.setup.heapBytes(); len(s.plan) == 0 && s.room() > reserve+1 {
			smaller = s.heapTrial(lever, h.Setup, next*next/has/mib*mib)
			s.ahead(ctx, h.Attempt, smaller.Attempt)
		}
		t, err := s.try(ctx, h.Attempt)
		if err != nil {
			return err
		}
		result.Setup = h.added
		if !s.carriesSize(&result, t, h.heap) {
			tooSmall = h.heap
		}
	}
	if !s.uses(lever) {
		s.drop(result, result.Reason)
	}
	return nil
}

// carriesSize carries the point of a trial with a smaller size, or says in its lever's result why
// not.
func (s *Search) carriesSize(r *LeverResult, t Trial, size int64) bool {
	reason := s.unfit(t)
	if reason == "" {
		reason = s.carry(s.on(s.best, []LeverResult{*r}, t))
	}
	if reason != "" {
		r.Trial, r.Reason = t.Number, fmt.Sprintf("with %d MiB: %s", size/mib, reason)
	}
	return reason == ""
}

// heapTrial is a trial of a heap, which it adds to a setup.
type heapTrial struct {
	Attempt
	heap  int64
	added Setup
}

func (s *Search) heapTrial(lever Lever, setup Setup, heap int64) heapTrial {
	young := youngFor(heap, s.live(s.best))
	if has := sizeIn(setup.Options, youngOption); has > 0 && s.leavesDirect() {
		young = min(young, has) // by it fewer of them wait
	}
	added := lever.setup(sizes{heap: heap, young: young})
	return heapTrial{Attempt{Phase: PhaseLever, Lever: lever.Name, Setup: setup.plus(added), LimitBytes: s.leverLimit()}, heap, added}
}

// keepSpeed is the share of its speed that the best point should keep with a
// smaller heap: KneeShare, or more where it is not much faster than the baseline. That it is
// slower counts by as much as is sure: trials of the same options differ by more than a heap
// costs.
func (s *Search) keepSpeed() float64 {
	faster := s.faster(s.best, point{at: s.found.Baseline})
	if c := s.relativeCost(s.best.setup, Setup{}); c.CostLow > 0 {
		faster = max(faster, min(1, 1/c.CostLow))
	}
	return min(0.999, max(KneeShare, nearly/max(faster, nearly)))
}

// above is a size to try, or the middle between one that was too small, where there is one, and
// one that was not.
func above(tooSmall, size, has int64) int64 {
	if tooSmall > 0 {
		return max(size, (tooSmall+has)/2/mib*mib)
	}
	return size
}

// nextHeap is the heap to try next, above one that was too small; or the reason
// why there is none.
func (s *Search) nextHeap(tooSmall int64) (int64, string) {
	has := s.best.setup.heapBytes()
	heap, ok := tightHeap(heapPoints(s.found.Trials, s.best.setup), has, s.keepSpeed())
	heap = above(tooSmall, heap, has)
	switch {
	case has == 0:
		return 0, "the heap is not sized: the collector's lever was not kept"
	case !ok:
		return 0, "no trial told of collections"
	case has-heap < s.leastTighter():
		return 0, fmt.Sprintf("by the curve of collections %d MiB is right for %d MiB alive", has/mib, s.live(s.best)/mib)
	case s.room() <= reserve:
		return 0, noTrialLeft
	}
	return heap, ""
}
