package fit

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"tare.dev/tare/internal/trial"
)

const (
	maxSpread = 0.15
	// steadySpread is how much the baselines of a machine may differ whose speed is
	// taken to stay as it is for steadyTrials trials.
	steadySpread = 0.05
	steadyTrials = 2
	// givenTrials is how many trials may go into the smallest limit as
	// given, which is only compared with.
	givenTrials = 2
	// usualCache is the share of page cache that is taken to be needed until
	// a trial has told; mostCache is the most that one is believed.
	usualCache, mostCache = 0.3, 0.5
	// filled is the share of the largest heap from which one counts as filled.
	filled = 0.9
)

// runBaselines runs the baselines and keeps the one of median throughput: the
// bar of a relative objective must not hang on one run's luck. Where several
// differ much (apart), one more is run. Of several nodes each has one, and the first another.
func (s *Search) runBaselines(ctx context.Context) error {
	s.expect(DefaultTrials)
	nodes, least := s.nodes(), s.Baselines
	if len(nodes) > 0 {
		least = max(least, len(nodes)+1)
	}
	var runs []Trial
	for len(runs) < least || len(nodes) == 0 && len(runs) == least && s.apart(runs) > maxSpread {
		t, err := s.baseline(ctx, nodeOf(nodes, len(runs)))
		if err != nil {
			return err
		}
		switch raised := len(runs) == 0 && s.raiseAmple(t); {
		case raised && !t.Passed:
			continue
		case !t.Passed:
			return s.fails(t)
		}
		if len(runs) == 0 {
			if err := s.checkJVM(t); err != nil {
				return err
			}
			s.work = WorkOf(t.Measured)
			for i := 1; i < least; i++ {
				s.ahead(ctx, s.baselineOn(nodeOf(nodes, i)))
			}
		}
		runs = append(runs, t)
		counted := s.undisturbed(runs)
		if lent(counted) {
			counted = counted[1:]
			s.found.Trials[0].CacheBytes = 0 // or it would be pooled with what the others tell
		}
		s.found.Baseline = Median(counted)
	}
	s.unsteady = s.apart(runs) > steadySpread
	s.setBar()
	s.Facts.Unwarmed = s.found.unwarmed()
	s.readFrom(s.found.Baseline)
	return nil
}

// WorkOf is the work that a trial's load did.
func WorkOf(m trial.Measured) trial.Work {
	if m.Load == nil {
		return trial.Work{}
	}
	return trial.Work{Warmup: m.Warmup, Measured: m.Load.Sent, Blocks: m.WarmBlocks, Within: slowestWork * m.WarmTime}
}

// setBar takes what trials are measured against from all baselines that were made: one slow
// half-minute of the machine lowers the bar for nothing that comes, and a machine that stays
// slow does.
func (s *Search) setBar() {
	all := s.baselines()
	bar := barOf(all)
	s.bar = &bar
	s.bars = map[string]*trial.Measured{}
	for _, node := range s.nodes() {
		here := slices.DeleteFunc(slices.Clone(all), func(t Trial) bool { return t.Node != node })
		if m := barOf(here).Measured; len(here) > 0 {
			s.bars[node] = &m
		}
	}
}

// barOf is the baseline of median speed, at the median of what the work cost in all of them, of
// two the mean. The faster of two may owe that to luck, and its cost to a pace of the machine that
// was told badly: an answer of Tomcat cost 8 % less over that pace in one of two baselines than in
// the other and in all trials after them.
func barOf(runs []Trial) Trial {
	bar := Median(runs)
	var costs []time.Duration
	for _, t := range runs {
		costs = append(costs, t.Measured.CostAt(bar.Measured.Pace))
	}
	slices.Sort(costs)
	if n := len(costs); n > 0 && costs[0] > 0 {
		bar.Measured.Cost = (costs[(n-1)/2] + costs[n/2]) / 2
	}
	return bar
}

// baselines are those that tell what the application as given is like.
func (s *Search) baselines() []Trial {
	var all []Trial
	for _, t := range s.found.Trials {
		if t.Phase == PhaseBaseline && t.Passed {
			all = append(all, t)
		}
	}
	return s.undisturbed(all)
}

// undisturbed leaves out of baselines those that others' work disturbed, where one of the same
// node that was left alone says otherwise: some applications do the same work for less beside
// others, and nothing that is left alone would be as cheap. An answer of a broker (Artemis) took
// 83 µs where half of the machine was busy, for threads that get the processor late find more to
// do each time, and 131 µs where it was not.
func (s *Search) undisturbed(runs []Trial) []Trial {
	var out []Trial
	for _, t := range runs {
		contradicted := slices.ContainsFunc(runs, func(o Trial) bool {
			return o.Node == t.Node && !o.disturbed() && s.apart([]Trial{o, t}) > maxSpread
		})
		if !t.disturbed() || !contradicted {
			out = append(out, t)
		}
	}
	return out
}

// lent says that the first of several baselines had page cache that others had paid for: the later
// ones had more. Which files an application opens is known after the first alone, so they were not
// dropped before it, and what other processes had read of them was charged to those. A Lucene
// service whose index of 77 MiB had just been made could do without all but 3 MiB there.
func lent(runs []Trial) bool {
	return len(runs) > 1 && runs[0].Number == 1 && !slices.ContainsFunc(runs[1:], func(t Trial) bool {
		return pageCache(t)-pageCache(runs[0]) <= strayUnpaid
	})
}

// disturbed says that other processes took so much of the machine that a trial's speed may be
// theirs.
func (t Trial) disturbed() bool { return t.Result != nil && t.Result.Others >= disturbingShare }

// nodeOf is the node of a run, by its number: they go round; without nodes it is anywhere.
func nodeOf(nodes []string, run int) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[run%len(nodes)]
}

// baseline makes one baseline, and once more where it lived and yet did not meet
// the objective: chance may have had a hand in it, and all else hangs on it.
func (s *Search) baseline(ctx context.Context, node string) (Trial, error) {
	a := s.baselineOn(node)
	t, err := s.once(ctx, a)
	if err == nil && (t.Verdict == trial.Errors || t.Verdict == trial.TooSlow) {
		a.Repeat = 1
		t, err = s.once(ctx, a)
	}
	return t, err
}

func (s *Search) baselineOn(node string) Attempt {
	return Attempt{Phase: PhaseBaseline, LimitBytes: s.AmpleBytes, On: node}
}

// Median is the trial of median speed, of an even number the upper one.
func Median(trials []Trial) Trial {
	if len(trials) == 0 {
		return Trial{}
	}
	sorted := slices.Clone(trials)
	slices.SortStableFunc(sorted, slower)
	return sorted[len(sorted)/2]
}

// spread is how much faster the fastest trial was than the slowest.
func spread(trials []Trial) float64 {
	if len(trials) < 2 {
		return 0
	}
	low := slices.MinFunc(trials, slower).Speed()
	if low <= 0 {
		return 0
	}
	return slices.MaxFunc(trials, slower).Speed()/low - 1
}

// doubts says that a trial may have been too slow only because the machine has
// slowed since the baseline. A baseline beside it takes one of few trials: so it
// must be that nothing else tells why it was slow, and that the baselines differed
// or the last is a while ago.
func (s *Search) doubts(t Trial) bool {
	if t.AskedShare <= 0 { // it was not, or was not to be as fast as a baseline
		return false
	}
	if t.enough() && (findsLimit(t.Phase) || s.blameless(t)) { // its speed does not matter
		return false
	}
	if s.hasNew(t, spendsSpeed) { // it is made without that lever instead, as where its cost is not told
		return false
	}
	if s.surelyDear(t) || s.heapTooSmall(t) { // the pace of the machine is divided out, or collections tell why
		return false
	}
	last := 0
	for _, t := range s.found.Trials {
		if t.Phase == PhaseBaseline {
			last = t.Number
		}
	}
	return t.Verdict == trial.TooSlow && s.room() >= 2 && (s.unsteady || t.Number-last > steadyTrials)
}

// besideBaseline makes a baseline beside a trial that was too slow: the machine may
// have slowed since the first. Where the trial was fast enough beside that, it is
// made again, and measured against that baseline.
func (s *Search) besideBaseline(ctx context.Context, slow Trial) (Trial, error) {
	b, err := s.beside(ctx, slow)
	if err != nil || b == nil {
		return slow, err
	}
	again := slow.Attempt
	again.Repeat, again.Baseline, again.ByNode, again.On = max(1, again.Repeat), b, nil, slow.Node
	return s.once(ctx, again)
}

// beside makes a baseline beside a trial that was too slow, and returns what it
// measured where the trial was fast enough beside it; else nil.
func (s *Search) beside(ctx context.Context, slow Trial) (*trial.Measured, error) {
	b, err := s.baselineAfter(ctx, slow)
	if err != nil || !slow.FastBeside(b) {
		return nil, err
	}
	s.note("a baseline beside it was as slow: the machine has slowed, and the run is made again")
	return &b.Measured, nil
}

// baselineAfter makes a baseline after a trial, where that was made. The bar of the trials that
// come is by all baselines.
func (s *Search) baselineAfter(ctx context.Context, t Trial) (Trial, error) {
	b, err := s.once(ctx, s.baselineOn(t.Node))
	s.setBar()
	return b, err
}

// SlowAlone says that a trial was slower than a share of the baseline, and nothing else,
// for no lack of memory that shows: the machine may have slowed.
func (t Trial) SlowAlone() bool { return t.AskedShare > 0 && !t.lacksMemory() }

// FastBeside says that such a trial keeps beside a later baseline what it missed before.
func (t Trial) FastBeside(baseline Trial) bool {
	switch {
	case !baseline.Passed:
		return false
	case len(t.Missed) == 0: // one that a tare stored which did not keep them
		return t.Speed() >= t.AskedShare*baseline.Speed()
	}
	return len(trial.SLO(t.Missed).Check(t.Measured, &baseline.Measured)) == 0
}

// apart is how much baselines differ in what decides: by how much more the same work cost in
// the dearest, without what is usually felt of the pace of the machine, or else how much faster
// the fastest was.
func (s *Search) apart(runs []Trial) float64 {
	if len(runs) < 2 || !s.ByWork || s.burnsIdle() {
		return spread(runs)
	}
	var logs []float64
	for _, t := range runs {
		p, told := s.costPoint(t)
		if !told {
			return spread(runs)
		}
		logs = append(logs, p.log-usualFeeling*p.pace)
	}
	return math.Exp(slices.Max(logs)-slices.Min(logs)) - 1
}

// findAsGiven finds about the smallest limit with nothing added, and how much
// of its page cache the application needs there.
func (s *Search) findAsGiven(ctx context.Context) error {
	s.cacheShare = usualCache
	p := point{at: s.found.Baseline}
	goal, most := narrowing{phase: PhaseAsGiven, share: coarse, guess: s.guessAsGiven(s.found.Baseline), needs: s.heapFixed()}, givenTrials
	if len(s.Levers) == 0 {
		goal.share, most = s.fine(), s.room()
		goal.guess, goal.near = cmp.Or(s.GuessBytes, s.foreseeAsGiven(s.found.Baseline)+s.beyondOwn()), s.GuessBytes > 0 || s.CacheBytes > 0
	}
	if s.ownHeap() > 0 { // with less it might pass now, and not once the heap is full
		goal.needs, most = false, 1
	}
	p, err := s.narrow(ctx, p, goal, most)
	s.best, s.carried = p, []point{p}
	s.foundGiven(p)
	s.learnCache()
	return err
}

// learnCache learns how much of its page cache the application needs, where it
// was memory that decided on the limit as given.
func (s *Search) learnCache() {
	t, cache := s.given.at, pageCache(s.found.Baseline)
	if cache > 0 && t.PeakBytes+tolerance(t.LimitBytes, s.fine()) >= t.LimitBytes {
		s.cacheShare = min(mostCache, max(0.1, float64(t.LimitBytes-t.NeededBytes)/float64(cache)))
	}
}

// foundGiven keeps the smallest limit as given. Below it one may pass and yet be near its
// limit (pressed): that one did not fail.
func (s *Search) foundGiven(p point) {
	s.given, s.found.AsGiven, s.found.AsGivenFails = p, p.at, 0
	for _, t := range s.found.Trials {
		if findsLimit(t.Phase) && t.Setup.empty() && !t.enough() && t.LimitBytes < p.limit() {
			s.found.AsGivenFails = max(s.found.AsGivenFails, t.LimitBytes)
		}
	}
}

// narrowAsGiven spends trials that are left on the limit as given.
func (s *Search) narrowAsGiven(ctx context.Context) error {
	if s.best.setup.empty() {
		s.foundGiven(s.best)
		return nil
	}
	if s.ownHeap() > 0 {
		return nil // its bound decides
	}
	p, err := s.narrow(ctx, s.given, narrowing{phase: PhaseAsGiven, share: coarse, guess: s.given.limit()}, givenTrials)
	s.foundGiven(p)
	return err
}

// guessAsGiven is a limit as given that is likely to be enough, by a trial as given.
func (s *Search) guessAsGiven(t Trial) int64 {
	return s.bounded(s.overMean(s.foreseeAsGiven(t)) + s.beyondOwn())
}

// foreseeAsGiven foresees the smallest limit as given, by a trial as given: the JVM sizes its heap
// by the limit, and with it the bound of direct buffers, and all else stays as it is. One that had
// too little memory, or was killed early, does not tell all that the application needs: the rest is
// no less than the baseline's. One that filled its heap fills a larger one: a small limit has a JVM
// begin with a small heap, from which what does not live gets old, and such a heap grows as far as it
// may (a Lucene service took 15 MiB of 512, and 91 of 96).
func (s *Search) foreseeAsGiven(t Trial) int64 {
	cache := s.cacheNeed(t)
	heap := ledgerOf(t, 0).heap()
	beside := t.NeededBytes - heap
	if base := s.found.Baseline; !t.hasRoom() {
		cache = max(cache, s.cacheNeed(base))
		beside = max(beside, base.NeededBytes-ledgerOf(base, 0).heap())
	}
	limit := t.NeededBytes + cache
	if s.heapFixed() {
		return wholeMiB(limit)
	}
	if float64(heap) > filled*float64(s.Facts.Given.MaxHeap(t.LimitBytes)) {
		heap = s.AmpleBytes
	}
	limit = s.limitWith(max(floorBytes, beside)+cache, func(limit int64) int64 { return min(heap, s.Facts.Given.MaxHeap(limit)) })
	if c, ok := fitGCCost(heapPointOf(t, s.Facts.Given.MaxHeap(t.LimitBytes))); ok {
		limit = max(limit, s.limitOfHeap(c.knee(s.Facts.Given.MaxHeap(s.AmpleBytes), KneeShare)))
	}
	if s.leavesDirect() && ledgerOf(t, 0).directFollowsHeap() { // with less the whole heap is collected each time
		limit = max(limit, s.limitOfHeap(s.directTaken()))
	}
	return wholeMiB(min(limit, s.AmpleBytes))
}

// limitWith is the limit that leaves room for the heap that goes by it, beside the rest.
func (s *Search) limitWith(rest int64, heap func(limit int64) int64) int64 {
	limit := rest
	for range 100 { // it converges: a heap is a part of the limit
		limit = min(s.AmpleBytes, rest+heap(limit))
	}
	return limit
}

// limitOfHeap is the smallest limit, in whole MiB, at which HotSpot takes a heap by
// itself, or the ample one.
func (s *Search) limitOfHeap(heap int64) int64 {
	most := int(s.AmpleBytes / mib)
	return mib * int64(sort.Search(most, func(n int) bool { return s.Facts.Given.MaxHeap(int64(n)*mib) >= heap }))
}
