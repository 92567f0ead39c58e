package fit

import (
	"cmp"
	"context"
	"slices"
)

const (
	maxRaises = 8
	raise     = 0.03
	// mostMargin bounds the margin that is taken from the spread of what trials
	// needed, and each of at most mostSpeedMargins from the spread of their speed.
	mostMargin       = 0.03
	mostSpeedMargins = 2
	// nearPercent of the limit that was found is near it.
	nearPercent = 110
	// failureShare is the part of the recommended limit at which a run shows
	// what failure looks like.
	failureShare = 0.9
)

// confirm makes fresh runs at the limit found and a margin, and raises it until
// all of them pass. Where that takes it to the limit as given, chance had a hand
// in one of the two: the options as given are then put to the same test, and are
// the recommendation unless less is confirmed with more.
func (s *Search) confirm(ctx context.Context) error {
	best, given := s.best, s.given
	start := s.withMargin()
	if best.setup.empty() {
		c, err := s.confirmFrom(ctx, best.setup, start, s.AmpleBytes+1)
		return s.recommend(best.setup, start, c, err)
	}
	c, err := s.confirmFrom(ctx, best.setup, start, given.limit())
	if err != nil || c.passed() {
		return s.recommend(best.setup, start, c, err)
	}
	s.note("from %d MiB on nothing is saved: the options as given are put to the same test", given.limit()/mib)
	g, err := s.confirmFrom(ctx, given.setup, given.limit(), s.AmpleBytes+1)
	if err != nil || !g.passed() {
		return s.recommend(given.setup, given.limit(), g, err)
	}
	s.found.AsGiven = g.last()
	again, err := s.confirmFrom(ctx, best.setup, max(c.limit, start), g.limit)
	if again.failed = cmp.Or(c.failed, again.failed); err != nil || again.passed() {
		return s.recommend(best.setup, start, again, err)
	}
	s.dropLevers("with all that is kept, fresh runs needed no less than as given")
	return s.recommend(given.setup, given.limit(), g, nil)
}

// withMargin is the limit that was found with the margin added, but with levers
// less than as given. Where trials ran out before any limit below the one that
// levers are tried at passed, confirming begins half way from the largest that
// failed to what was enough, or to the limit as given.
func (s *Search) withMargin() int64 {
	limit := s.best.limit()
	if !s.best.setup.empty() && limit >= s.leverLimit() {
		g := narrowing{needs: true}
		low, high := g.low(s.best), min(g.high(s.best), s.given.limit())
		return max(low+mib, (low+high)/2/mib*mib)
	}
	margin := s.Margin
	if margin < 0 {
		margin = min(mostMargin, float64(s.needSpread())/float64(limit))
	}
	start := min(s.AmpleBytes, wholeMiB(limit+int64(margin*float64(limit))))
	if !s.best.setup.empty() {
		start = min(start, max(limit, s.given.limit()-mib))
	}
	return start
}

// needSpread is by how much trials of the best setup differed in what they
// needed, at limits near the one that was found: where memory abounds more of it
// is taken.
func (s *Search) needSpread() int64 {
	var low, high int64
	for _, t := range s.found.Trials {
		near := t.LimitBytes <= s.best.limit()*nearPercent/100
		if t.enough() && near && t.Phase != PhaseBaseline && t.Setup.Same(s.best.setup) {
			if high = max(high, t.NeededBytes); low == 0 || t.NeededBytes < low {
				low = t.NeededBytes
			}
		}
	}
	return high - low
}

// recommend makes what was confirmed the result of a search that went on to
// confirm from a limit.
func (s *Search) recommend(setup Setup, from int64, c confirmation, err error) error {
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
	if setup.Same(s.best.setup) {
		s.found.MarginBytes = max(0, min(from, c.limit)-s.best.limit()) + c.margin
	}
	s.found.RaisedFrom = c.failed
	s.found.FailBelow = s.failBelow(setup, c.limit)
	return nil
}

// confirmation is the fresh runs that were made last, and the limit that they
// confirm; where the last of them failed, the limit to try next.
type confirmation struct {
	limit int64
	runs  []Trial
	// margin is what speedMargin added to the limit, in so many times.
	margin int64
	times  int
	// failed is the first limit at which a run failed; 0 is none.
	failed int64
}

func (c confirmation) passed() bool { return len(c.runs) > 0 && c.last().enough() }

func (c confirmation) last() Trial {
	if len(c.runs) == 0 {
		return Trial{}
	}
	return c.runs[len(c.runs)-1]
}

// confirmFrom raises a limit until fresh runs confirm it, but not to the limit
// below or more, nor too often.
func (s *Search) confirmFrom(ctx context.Context, setup Setup, limit, below int64) (confirmation, error) {
	c := confirmation{limit: limit}
	for raises := 0; raises <= maxRaises && c.limit < below; raises++ {
		s.remaining = s.Confirmations
		var err error
		if c.runs, err = s.confirmAt(ctx, setup, c.limit); err != nil || c.limit >= s.AmpleBytes {
			return c, err
		}
		if c.passed() {
			more := s.speedMargin(setup, c)
			if more == 0 || c.limit+more >= below || raises == maxRaises {
				return c, nil
			}
			s.note("the slowest run at %d MiB was near what is asked for, as far as runs differ: %s are added", c.limit/mib, mibText(more))
			c.limit, c.margin, c.times = c.limit+more, c.margin+more, c.times+1
			continue
		}
		s.note("a confirming run at %d MiB was %s: the limit is raised", c.limit/mib, c.last().Verdict)
		c.failed = cmp.Or(c.failed, c.limit)
		step := max(mib, wholeMiB(int64(raise*float64(c.limit))))
		c.limit = min(s.AmpleBytes, c.limit+step<<max(0, raises-1)) // the third and later raises are larger
	}
	return c, nil
}

// speedMargin is what to add to a confirmed limit where speed decided on it: runs
// just below were too slow. The slowest run should be as many times as fast as is
// asked for as the fastest is as fast as it: where memory is short, runs differ
// twofold, and five of them show little of how slow one of the next twenty may be.
// How much faster more memory makes it, the run that was too slow tells. 0 where that
// is so already, or the user has set the margin.
func (s *Search) speedMargin(setup Setup, c confirmation) int64 {
	slow := s.failBelow(setup, c.limit)
	if s.Margin >= 0 || c.times == mostSpeedMargins || slow == nil || slow.AskedSpeed <= 0 {
		return 0
	}
	asked := slow.AskedSpeed
	if slow.AskedShare > 0 {
		asked = slow.AskedShare * s.bar.Speed()
	}
	slowest := slices.MinFunc(c.runs, slower)
	if cost, known := s.memoryCost(slowest); known && cost < leastMemoryCost {
		return 0 // more memory makes nothing faster
	}
	lacks := asked*(1+spread(c.runs)) - slowest.Speed()
	rise := (Median(c.runs).Speed() - slow.Speed()) / float64(c.limit-slow.LimitBytes)
	if lacks <= 0 || rise <= 0 {
		return 0
	}
	return max(mib, min(wholeMiB(int64(lacks/rise)), wholeMiB(int64(mostMargin*float64(c.limit)))))
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
	case made.Baseline == nil && t.AskedShare > 0 && !s.spent():
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

// showFailure makes one run below the recommendation: it should fail.
func (s *Search) showFailure(ctx context.Context) error {
	limit := int64(failureShare*float64(s.found.LimitBytes)) / mib * mib
	if !s.ShowFailure || limit < floorBytes || s.outOfTime("the run below the limit") {
		return nil
	}
	t, err := s.once(ctx, Attempt{Phase: PhaseBelow, Setup: s.found.Setup, LimitBytes: limit})
	if t.enough() {
		s.note("a run at %d MiB passed, too: with more --trials a smaller limit may be found", limit/mib)
	}
	s.found.FailBelow = s.failBelow(s.found.Setup, s.found.LimitBytes)
	return err
}

// outOfTime says that what comes after the proof no longer fits into the budget.
func (s *Search) outOfTime(what string) bool {
	if !s.spent() {
		return false
	}
	s.note("the budget of %s is used up: %s is left out", s.Budget, what)
	return true
}

// failBelow is the nearest failure below the limit with the same setup.
func (s *Search) failBelow(setup Setup, limit int64) *Trial {
	var nearest *Trial
	for i := range s.found.Trials {
		t := &s.found.Trials[i]
		if t.enough() || t.LimitBytes >= limit || !t.Setup.Same(setup) {
			continue
		}
		if nearest == nil || t.LimitBytes > nearest.LimitBytes {
			nearest = t
		}
	}
	return nearest
}
