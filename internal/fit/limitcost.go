package fit

import (
	"context"
	"slices"
	"time"
)

// A small limit costs processor time before anything waits for memory: pages are dropped,
// read and mapped again, and their content is no longer in the processor's caches. The
// control is the same options with room, and the pages that were read again bound it: a
// compiler that is further in one run than in another makes the same difference, and no
// page comes back for that.

const (
	// DearestPage is the most processor time that a page of PageBytes has cost which was read
	// again, with all that came of it: of the trials of three services it was 5 to 30 µs in most
	// and about 100 µs at most.
	DearestPage = 150 * time.Microsecond
	// PageBytes is a page as the kernel counts those that are read again.
	PageBytes = 4096
)

// readAgain is the share of its processor time that a trial can owe to pages which were read
// again, at most; 0 where its load used none.
func (t Trial) readAgain() float64 {
	if t.Result == nil || t.Result.LoadCPUTime <= 0 {
		return 0
	}
	pages := float64(t.Result.RefaultBytes) / PageBytes
	return min(1, pages*DearestPage.Seconds()/t.Result.LoadCPUTime.Seconds())
}

// atLimit is the word that a trial's setup adds in the regression of costs where it looks
// for a limit or proves it: all that such a limit costs.
const atLimit = "a limit that is looked for"

// limitCost is the share of its processor time that a trial which looks for a limit, or
// proves it, is sure to owe to that: the lower bound, with the confidence of cost bounds, by
// itself and the trials of its options at no smaller limit that read about as much again, beside
// those with room; but no more than the pages that it read again can have cost. It is 0 where
// they do not tell. As given those with room are the baselines, also where the heap follows the
// limit: what a smaller one costs is the limit's too.
func (s *Search) limitCost(t Trial) float64 {
	if _, told := s.costPoint(t); !told || !findsLimit(t.Phase) {
		return 0
	}
	runs := []Trial{t}
	for _, o := range s.found.Trials {
		if findsLimit(o.Phase) && o.Number != t.Number && o.LimitBytes >= t.LimitBytes && o.Setup.Same(t.Setup) && 2*o.readAgain() >= t.readAgain() {
			runs = append(runs, o)
		}
	}
	if cost := s.overRoom(t.Setup, runs); cost.CostLow > 1 {
		return min(1-1/cost.CostLow, t.readAgain())
	}
	return 0
}

// overRoom is the cost of runs of a setup near its limit over that of trials with room.
func (s *Search) overRoom(setup Setup, runs []Trial) RelativeCost {
	if len(s.costs(setup)) == 0 || s.burnsIdle() {
		return RelativeCost{}
	}
	costs, tight := s.nearLimit(setup, runs)
	return costs.relative(tight, setup)
}

// overBaseline is the cost of runs of a setup near its limit over that of the baseline.
func (s *Search) overBaseline(setup Setup, runs []Trial) RelativeCost {
	if s.burnsIdle() {
		return RelativeCost{}
	}
	costs, tight := s.nearLimit(setup, runs)
	return costs.relative(tight, Setup{})
}

// nearLimit are the costs of runs of a setup near its limit beside those of the trials that tell
// levers, and what stands there for the setup at the limit.
func (s *Search) nearLimit(setup Setup, runs []Trial) (costs regression, tight Setup) {
	tight = setup
	tight.Env = append(slices.Clone(tight.Env), atLimit)
	points := s.costPoints()
	for _, t := range runs {
		if p, told := s.costPoint(t); told {
			p.setup = tight
			points = append(points, p)
		}
	}
	return regress(points), tight
}

// priceLimit tells what the recommendation costs by the runs that prove it, and what of that is
// its limit's: nothing where they are sure to differ by more from those with room than the pages
// that they read again can have cost.
func (s *Search) priceLimit(context.Context) error {
	runs := s.found.FreshRuns()
	cost, most := s.overRoom(s.found.Setup, runs), 0.0
	for _, t := range runs {
		if _, told := s.costPoint(t); told {
			most = max(most, t.readAgain())
		}
	}
	if cost.CostLow*(1-most) > 1 {
		cost = RelativeCost{}
	}
	s.found.AtLimit, s.found.ProofCost = cost, s.overBaseline(s.found.Setup, runs)
	return nil
}

// blamesLimitAlone says that a trial was too slow for what its limit costs in processor time,
// and for nothing else of memory. A machine that has slowed since the trials with room looks
// the same.
func (s *Search) blamesLimitAlone(t Trial) bool {
	if t.LimitCost == 0 || t.enough() {
		return false
	}
	t.LimitCost = 0
	return s.slowElsewhere(t)
}

// besideControl runs the options of a trial with room beside it, where its limit alone is
// blamed, and judges it again by all trials. Where no other run fits in, it is judged as if
// its limit cost nothing.
func (s *Search) besideControl(ctx context.Context, t Trial) (Trial, error) {
	blamed := t.LimitCost
	t.LimitCost = 0
	proves := t.Phase == PhaseConfirm || t.Phase == PhaseBelow
	if !s.spent() && (proves || s.room() > 0) {
		s.note("the work cost at least %.0f %% more than with room: a run with room beside it tells whether the limit or the machine is the reason", 100*blamed/(1-blamed))
		control := s.baselineOn(t.Node)
		if !t.Setup.empty() {
			control = Attempt{Phase: PhaseControl, Setup: t.Setup, LimitBytes: s.leverLimit(), On: t.Node}
		}
		if _, err := s.once(ctx, control); err != nil {
			return t, err
		}
		s.setBar() // where it was a baseline
		t.LimitCost = s.limitCost(t)
	}
	t.SlowElsewhere = s.slowElsewhere(t)
	s.found.Trials[t.Number-1] = t
	if t.enough() {
		s.note("what the work cost at %d MiB does not speak against that limit", t.LimitBytes/mib)
	} else {
		s.note("%d MiB is the reason that the work cost more: it is too little", t.LimitBytes/mib)
	}
	return t, nil
}

// leaves is the part of a share of a trial's speed that its options do not take, unasked at
// least: a limit that is sure to cost more is the reason why the trial was too slow.
func (s *Search) leaves(t Trial, share float64) float64 {
	ratio, known := s.costRatio(t.Setup, Setup{})
	if !known {
		ratio = 1
	}
	return max(unasked, 1-(1-share)*max(1, ratio))
}
