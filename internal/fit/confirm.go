package fit

import (
	"cmp"
	"context"
)

const (
	maxRaises = 8
	raise     = 0.03
	// failureShare is the part of the recommended limit at which a run shows
	// what failure looks like.
	failureShare = 0.9
)

// confirm makes fresh runs at the limit found and a margin, and raises it until
// all of them pass. Where that takes it to the limit as given, chance had a hand
// in one of the two: the options as given are then put to the same test, and are
// the recommendation unless less is confirmed with more.
func (s *Search) confirm(ctx context.Context) error {
	given, start, below := s.given, s.withMargin(), s.mostLimit()
	if s.best.setup.empty() {
		below = s.AmpleBytes + 1
	}
	c, err := s.confirmFrom(ctx, s.best.setup, start, below)
	best := s.best
	if err != nil || c.passed() || best.setup.empty() {
		return s.recommend(best.setup, c, err)
	}
	s.note("from %d MiB on nothing is saved: the options as given are put to the same test", given.limit()/mib)
	g, err := s.confirmFrom(ctx, given.setup, max(given.limit(), c.forHeap), s.AmpleBytes+1)
	if err != nil || !g.passed() {
		return s.recommend(given.setup, g, err)
	}
	s.found.AsGiven = g.last()
	again, err := s.confirmFrom(ctx, best.setup, max(c.limit, start), g.limit)
	if again.failed = cmp.Or(c.failed, again.failed); err != nil || again.passed() {
		return s.recommend(s.best.setup, again, err)
	}
	s.dropLevers("with all that is kept, fresh runs needed no less than as given")
	return s.recommend(given.setup, g, nil)
}

// withMargin is the limit that the proof begins at: the bound of what is needed or, with
// a margin of the user's, the mean and that; but with levers less than as given.
func (s *Search) withMargin() int64 {
	mean, bound := s.best.limit(), s.overMean(s.best.limit())
	if n, known := s.needOf(s.best.setup); known && s.byNeed(s.best.setup) {
		mean, bound = n.MeanBytes, n.BoundBytes
	}
	if s.Margin >= 0 {
		bound = mean + int64(s.Margin*float64(mean))
	}
	start := s.bounded(bound)
	if !s.best.setup.empty() {
		start = min(start, max(s.best.limit(), s.mostLimit()-mib))
	}
	return start
}

// overMean is the bound for a limit that was found by trials with a heap that follows
// it.
func (s *Search) overMean(limit int64) int64 {
	deviation, freedom, _ := s.needDeviation()
	samples := 0
	for _, t := range s.found.Trials {
		if t.enough() && findsLimit(t.Phase) && t.Setup.Same(s.best.setup) {
			samples++
		}
	}
	return boundOf(float64(limit), max(1, samples), freedom, deviation)
}

// recommend makes what was confirmed the result of a search.
func (s *Search) recommend(setup Setup, c confirmation, err error) error {
	if err != nil {
		return err
	}
	if !c.passed() {
		return &UnconfirmedError{c.last()}
	}
	s.found.LimitBytes, s.found.Setup, s.found.Confirmations = c.limit, setup, c.runs
	if setup.empty() {
		s.found.AsGiven = c.last()
	}
	mean := s.best.limit()
	if n, known := s.needOf(setup); known && s.fixesHeap(setup) {
		s.found.Need = &n
		mean = n.MeanBytes
	}
	if setup.Same(s.best.setup) {
		s.found.MarginBytes = max(0, c.limit-mean)
	}
	s.found.RaisedFrom, s.found.OwnHeap = c.failed, s.ownHeapWarning()
	s.found.FailBelow = s.failBelow(setup, c.limit)
	return nil
}

// confirmation is the fresh runs that were made last, and the limit that they
// confirm; where the last of them failed, the limit to try next.
type confirmation struct {
	limit int64
	runs  []Trial
	// failed is the first limit at which a run failed; 0 is none.
	failed int64
	// forHeap is the limit at which a heap that follows it has room for what lives; 0 is unknown.
	forHeap int64
}

func (c confirmation) passed() bool { return len(c.runs) > 0 && c.last().enough() }

func (c confirmation) last() Trial {
	if len(c.runs) == 0 {
		return Trial{}
	}
	return c.runs[len(c.runs)-1]
}

// confirmFrom raises a limit until all runs that prove it pass, but not to the limit
// below or more, nor too often. Where a run lacked heap, and not memory, that is raised with it:
// the best point is then another one. A heap that follows the limit has that raised.
func (s *Search) confirmFrom(ctx context.Context, setup Setup, limit, below int64) (confirmation, error) {
	c := confirmation{limit: limit}
	for raises := 0; raises <= maxRaises && c.limit < below; raises++ {
		s.remaining = s.Confirmations
		if err := s.prove(ctx, setup, &c, below); err != nil || c.passed() || c.limit >= s.AmpleBytes {
			return c, err
		}
		c.failed, c.forHeap = cmp.Or(c.failed, c.limit), max(c.forHeap, s.limitForHeap(c.last()))
		if more, ok := s.raiseHeap(setup, c.last()); ok {
			if setup.empty() { // it is more than as given now
				below = s.mostLimit()
			}
			setup, c.limit = s.best.setup, max(s.foreseen(s.best.setup, below), min(s.AmpleBytes, c.limit+more))
			continue
		}
		s.note("a confirming run at %d MiB was %s: the limit is raised", c.limit/mib, c.last().Verdict)
		step := max(mib, wholeMiB(int64(raise*float64(c.limit))))
		c.limit = max(c.forHeap, s.foreseen(setup, below), min(s.AmpleBytes, c.limit+step<<max(0, raises-1))) // the third and later raises are larger
	}
	return c, nil
}

// foreseen is the bound of what a setup needs as it is known now, where that is below a
// limit and the margin is not the user's; else 0.
func (s *Search) foreseen(setup Setup, below int64) int64 {
	n, known := s.needOf(setup)
	if limit := s.bounded(n.BoundBytes); known && s.fixesHeap(setup) && s.Margin < 0 && limit < below {
		return limit
	}
	return 0
}

// prove makes the runs that prove a limit, until one speaks against it: that is the last
// one then. The long run comes first, for it is the most likely to need more; where it
// did, and yet had enough, the limit is raised to what is foreseen now.
func (s *Search) prove(ctx context.Context, setup Setup, c *confirmation, below int64) error {
	s.planProof(ctx, setup, c.limit)
	long, err := s.runLong(ctx, setup, c.limit)
	if c.runs = long; err != nil || len(long) > 0 {
		return err
	}
	if more := s.foreseen(setup, below); more > c.limit {
		s.note("with all runs so far the bound is %d MiB", more/mib)
		c.limit = more
		s.planProof(ctx, setup, c.limit)
	}
	if c.runs, err = s.confirmAt(ctx, setup, c.limit); err != nil || !c.passed() {
		return err
	}
	half, err := s.runHalf(ctx, setup, c.limit)
	c.runs = append(c.runs, half...)
	return err
}

// planProof says ahead what a proof is made of. A long run at this limit or less that was
// said before stays.
func (s *Search) planProof(ctx context.Context, setup Setup, limit int64) {
	if len(s.nodes()) == 0 {
		return
	}
	long := s.planned(Attempt{Phase: PhaseLong, Setup: setup}, floorBytes, limit)
	s.forget(proofPhases[1:]...)
	if long.LimitBytes == 0 {
		s.forget(PhaseLong)
	}
	var proof []Attempt
	if s.wantsLong(setup, limit) && long.LimitBytes == 0 {
		proof = append(proof, Attempt{Phase: PhaseLong, Setup: setup, LimitBytes: limit})
	}
	for range s.Confirmations {
		proof = append(proof, Attempt{Phase: PhaseConfirm, Setup: setup, LimitBytes: limit})
	}
	if s.Stress {
		proof = append(proof, Attempt{Phase: PhaseHalf, Setup: setup, LimitBytes: limit})
	}
	var need *Need
	if n, known := s.needOf(setup); known && s.fixesHeap(setup) {
		need = &n
	}
	if below, ok := s.below(setup, limit, need); ok {
		proof = append(proof, below)
	}
	s.ahead(ctx, proof...)
}

// dropLevers says of every lever that was kept why it is not.
func (s *Search) dropLevers(reason string) {
	for i := range s.found.Levers {
		if l := &s.found.Levers[i]; l.Kept {
			l.Kept, l.Reason = false, reason
		}
	}
}

// confirmAt makes fresh runs until one fails or enough passed; the last one tells
// which.
func (s *Search) confirmAt(ctx context.Context, setup Setup, limit int64) ([]Trial, error) {
	var runs []Trial
	first := Attempt{Phase: PhaseConfirm, Setup: setup, LimitBytes: limit}
	next := first
	for aside := 0; len(runs) < s.Confirmations; {
		if s.spent() {
			return nil, &BudgetError{s.Budget, limit, len(runs), s.Confirmations}
		}
		t, err := s.once(ctx, next)
		if err != nil {
			return nil, err
		}
		again := false
		if aside < s.Confirmations {
			if next, again, err = s.setAside(ctx, next, t); err != nil {
				return nil, err
			}
		}
		if again {
			aside++
			continue
		}
		next = first
		if runs = append(runs, t); !t.enough() {
			break
		}
	}
	return runs, nil
}

// setAside says whether a fresh run tells too little, and how to make it again: it
// missed by little, or passed with pages that another process paid for; or it was too
// slow, and so was a baseline beside it. It stays among the fresh runs that are
// counted and shown.
func (s *Search) setAside(ctx context.Context, made Attempt, t Trial) (next Attempt, again bool, err error) {
	next = made
	next.Repeat = 1
	switch {
	case t.SlowElsewhere:
		return made, false, nil
	case made.Repeat == 0 && s.stray(t) && !s.lent:
		s.lent = true // it may go on
		s.note("the run passed with pages that another process paid for: it is set aside, and made again")
		return next, true, nil
	case made.Repeat == 0 && t.Narrow:
		s.note("the run missed by little: it is set aside, and made again")
		return next, true, nil
	case made.Baseline == nil && t.SlowAlone() && !s.spent():
		next.On = t.Node
		next.Baseline, err = s.beside(ctx, t)
		return next, next.Baseline != nil, err
	}
	return made, false, nil
}

// FreshRuns are all runs that were made to prove the recommendation: those that
// confirm it, and those that were set aside.
func (f *Found) FreshRuns() []Trial {
	var out []Trial
	for _, t := range f.Trials {
		if t.Phase == PhaseConfirm && t.LimitBytes == f.LimitBytes && t.Setup.Same(f.Setup) {
			out = append(out, t)
		}
	}
	return out
}

// showFailure makes one run below the recommendation, less the room for growth, and less
// what of the heap and of direct buffers no trial touched: it should fail. AlwaysPreTouch would have the heap
// touched, but the JDK's newer releases write to all pages of class archives with it, which
// are page cache otherwise.
func (s *Search) showFailure(ctx context.Context) error {
	defer s.forget(proofPhases...)
	a, ok := s.below(s.found.Setup, s.found.LimitBytes, s.found.Need)
	if !ok || s.outOfTime("the run below the limit") {
		return nil
	}
	within := tolerance(a.LimitBytes, s.fine())
	t, err := s.once(ctx, s.planned(a, a.LimitBytes-within, a.LimitBytes+within))
	if err != nil {
		return err
	}
	if t.hasRoom() {
		s.note("a run at %d MiB passed, too: with more --trials a smaller limit may be found", t.LimitBytes/mib)
	}
	s.found.FailBelow = s.failBelow(s.found.Setup, s.found.LimitBytes)
	return nil
}

// below is the run below a limit of a setup, the need of which is nil where it is not known;
// false where no run is wanted or possible.
func (s *Search) below(setup Setup, limit int64, need *Need) (a Attempt, ok bool) {
	if need != nil {
		limit -= need.GrowthBytes + need.UntouchedBytes
	}
	limit = (int64(failureShare*float64(limit)) - s.untouched(setup)) / mib * mib
	return Attempt{Phase: PhaseBelow, Setup: setup, LimitBytes: limit}, s.ShowFailure && limit >= floorBytes
}

// untouched is how much of what collections free a setup's runs did not touch, on the average.
func (s *Search) untouched(setup Setup) int64 {
	var sum, n int64
	for _, t := range s.found.Trials {
		if t.ofTheLoad() && t.enough() && t.Setup.Same(setup) {
			sum, n = sum+s.untouchedIn(t), n+1
		}
	}
	return sum / max(1, n)
}

// outOfTime says that what comes after the proof no longer fits into the budget.
func (s *Search) outOfTime(what string) bool {
	if !s.spent() {
		return false
	}
	s.note("the budget of %s is used up: %s is left out", s.Budget, what)
	return true
}

// failBelow is the nearest trial below the limit with the same setup that had not enough
// memory, or waited for it too long.
func (s *Search) failBelow(setup Setup, limit int64) *Trial {
	var nearest *Trial
	for i := range s.found.Trials {
		t := &s.found.Trials[i]
		same := t.Setup.Same(setup) && t.ofTheLoad() || t.Phase == PhaseBelow
		if t.hasRoom() || t.LimitBytes >= limit || !same {
			continue
		}
		if nearest == nil || t.LimitBytes > nearest.LimitBytes {
			nearest = t
		}
	}
	return nearest
}
