package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/trial"
)

// What a lever does to speed is told by the processor time of the same work, where that
// was measured: it does not count the time in which others had the processor, and
// differs by a few per cent where throughput differs by tens. It is blind to waiting:
// levers that have threads wait for each other (Lever.Waits) are judged by throughput.

const (
	// costSpread is the standard deviation that the logarithm of the cost of the same
	// work is taken to have before trials tell. It counts as priorFreedom degrees of
	// freedom of them. Repeated trials of Spring Boot services were 1 to 5 % apart.
	costSpread   = 0.05
	priorFreedom = 4
	// costConfidence is that of the bounds of cost ratios, each of one side, and causesConfidence
	// that with which trials must tell of work that is dearer than anything measured can have
	// made it. With 0.95 chance told so in one search in forty for the demo service on two nodes.
	costConfidence, causesConfidence = 0.95, 0.99
	// leastGain is the share of its cost that a lever which saves no memory must be
	// seen to save: speed buys memory, as a tighter heap and C1 do.
	leastGain = 0.1
)

// costBound is the upper bound of what the same work costs with a setup over what it
// costs with another, and whether trials tell.
func (s *Search) costBound(with, over Setup) (bound float64, known bool) {
	c := s.relativeCost(with, over)
	return c.CostHigh, c.known()
}

// RelativeCost is what the same work costs in processor time with something over what it
// costs without; all are 0 where trials do not tell.
type RelativeCost struct {
	CostRatio float64 `json:",omitempty"`
	// CostLow and CostHigh are its bounds with a confidence of 95 % each, by all trials of the
	// fit; 0 as well where CostRatio is of two trials alone.
	CostLow  float64 `json:",omitempty"`
	CostHigh float64 `json:",omitempty"`
}

// known says that trials tell.
func (c RelativeCost) known() bool { return c.CostRatio > 0 }

// relativeCost is the cost with a setup over that with another.
func (s *Search) relativeCost(with, over Setup) RelativeCost {
	if !s.costsTell(with, over) {
		return RelativeCost{}
	}
	return regress(s.costPoints()).relative(with, over)
}

// costRatio is the cost of the same work with a setup over that with another.
func (s *Search) costRatio(with, over Setup) (ratio float64, known bool) {
	c := s.relativeCost(with, over)
	return c.CostRatio, c.known()
}

// costsTell says that processor time tells what work costs, and that setups were both tried.
func (s *Search) costsTell(with, over Setup) bool {
	return !s.burnsIdle() && len(s.costs(with)) > 0 && len(s.costs(over)) > 0
}

// priceLevers tells of the levers that were kept what they cost by all trials, and how much
// trials differ.
func (s *Search) priceLevers(context.Context) error {
	for i := range s.found.Levers {
		l := &s.found.Levers[i]
		if l.CostRatio <= 0 || min(l.Trial, l.Before) < 1 {
			continue
		}
		with, over := s.found.Trials[l.Trial-1].Setup, s.found.Trials[l.Before-1].Setup
		if c := s.relativeCost(with, over); c.known() {
			l.RelativeCost = c
			s.found.CostDeviation, s.found.CostFreedom = s.costDeviation()
		}
	}
	return nil
}

// idleBurn is how many processors an application may use when it has nothing to do, for
// processor time to tell what its work costs.
const idleBurn = 0.2

// burnsIdle says that the application as given uses processors when it has nothing to do,
// as threads that spin do: what the same work costs then depends on how long it takes, so
// wall time decides.
func (s *Search) burnsIdle() bool {
	base := s.found.Baseline.Result
	return base != nil && base.IdleCPUs != nil && *base.IdleCPUs > idleBurn
}

// costDeviation is the standard deviation of the logarithms of what the same work costs
// with the same setup, of all setups, and its degrees of freedom.
func (s *Search) costDeviation() (deviation, freedom float64) {
	return regress(s.costPoints()).deviation()
}

// costPoints are the trials that did the work of the baseline and had the memory for it.
func (s *Search) costPoints() []costPoint {
	var out []costPoint
	for _, t := range s.found.Trials {
		if p, told := s.costPoint(t); told && s.tellsLevers(t) {
			out = append(out, p)
		}
	}
	return out
}

// tellsLevers says that a trial was made for its options, and not to find or prove a limit. Of
// baselines it is those that count.
func (s *Search) tellsLevers(t Trial) bool {
	if t.Phase == PhaseBaseline {
		return slices.ContainsFunc(s.baselines(), func(b Trial) bool { return b.Number == t.Number })
	}
	return (t.Phase == PhaseLever || t.Phase == PhaseControl) && t.enough()
}

// leverCosts are the costs that levers are judged by. Where the heap follows the limit (limited)
// it is smaller than with ample memory: what that costs is not the levers', and the trials as
// given at their limits tell it.
func (s *Search) leverCosts(limited bool) regression { return regress(s.leverPoints(limited)) }

// leverPoints are the trials that tell leverCosts.
func (s *Search) leverPoints(limited bool) []costPoint {
	if !limited {
		return s.costPoints()
	}
	var all []costPoint
	told := false
	for _, t := range s.found.Trials {
		p, measured := s.costPoint(t)
		given := t.Phase == PhaseAsGiven && t.hasRoom()
		if measured && (given || s.tellsLevers(t)) {
			p.limited = s.heapLimited(t)
			all = append(all, p)
			told = told || given
		}
	}
	if !told {
		return s.costPoints()
	}
	return all
}

// heapLimited says that the heap of a trial is smaller than with ample memory, for it follows
// the limit, or is as small as one that does so as given: a lever that sizes it to that makes
// nothing dearer.
func (s *Search) heapLimited(t Trial) bool {
	if t.LimitBytes >= s.AmpleBytes {
		return false
	}
	return !s.fixesHeap(t.Setup) || !s.heapFixed() && s.differFreely(t.Setup, Setup{}) && s.collectsAsGiven(t)
}

// collectsAsGiven says that a trial collected its heap about as often for an answer as one as
// given at a limit that had room, with the same collector. It tells of the heap only where the
// work is the same: C1 alone has it allocate more.
func (s *Search) collectsAsGiven(t Trial) bool {
	_, often, known := pausesOf(t)
	return known && slices.ContainsFunc(s.found.Trials, func(o Trial) bool {
		if o.Phase != PhaseAsGiven || !o.hasRoom() || collectorOf(o) != collectorOf(t) {
			return false
		}
		_, given, known := pausesOf(o)
		return known && often <= given*asOften && given <= often*asOften
	})
}

// asOften is the ratio up to which two heaps are collected about as often for an answer.
const asOften = 1.25

// costPoint is what the work cost in a trial that did that of the baseline, or at least cost where
// that is beyond the objective already.
func (s *Search) costPoint(t Trial) (p costPoint, told bool) {
	cost, told := s.workCost(t)
	if !told {
		return p, false
	}
	collecting, _ := collectingOf(t)
	return costPoint{setup: t.Setup, node: t.Node, log: math.Log(cost.Seconds()), pace: math.Log(s.pace(t)), collecting: collecting, at: t.Result.Time}, true
}

// workCost is the processor time of one answer of the baseline's work. A load that took too long
// was ended: all of the work costs at least what a part of it did, and that may be more than the
// objective allows for all. Code of C1 alone made an answer of Quarkus four times as dear.
func (s *Search) workCost(t Trial) (cost time.Duration, told bool) {
	if s.didTheWork(t) {
		return t.Result.AnswerCost()
	}
	base := s.found.Baseline.Result
	if base == nil || t.Result == nil || s.Spare <= 0 {
		return 0, false
	}
	was, measured := base.AnswerCost()
	_, also := t.Result.AnswerCost()
	if !measured || !also || t.Result.Load.OK > base.Load.OK {
		return 0, false
	}
	least := t.Result.LoadCPUTime / time.Duration(base.Load.OK)
	return least, least.Seconds()/max(1, s.pace(t)) > was.Seconds()/(1-s.Spare)
}

// costs are those of one setup.
func (s *Search) costs(setup Setup) []costPoint {
	return slices.DeleteFunc(s.costPoints(), func(p costPoint) bool { return !p.setup.Same(setup) })
}

// pace is how slow the machine was in a trial beside the first baseline; 1 where that is
// not known.
func (s *Search) pace(t Trial) float64 {
	base := s.found.Baseline.Result
	if base == nil || base.Pace <= 0 || t.Result.Pace <= 0 {
		return 1
	}
	return t.Result.Pace.Seconds() / base.Pace.Seconds()
}

func (s *Search) didTheWork(t Trial) bool {
	base := s.found.Baseline.Result
	if t.Result == nil || base == nil {
		return false
	}
	_, comparable := trial.CostRatio(base, t.Result)
	return comparable
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// gains says that a point is sure to save processor time beside another one, and that it
// costs no memory that is worth a trial.
func (s *Search) gains(p, best point) bool {
	return s.surelyCheaper(p, best, leastGain) && s.costsMemory(p.at, best) < s.worthATrial()
}

// costsMemory is how much more a trial has of what cannot be dropped than a point.
// A heap that follows the limit is larger where the trial had the larger limit: that
// part is not the levers'.
func (s *Search) costsMemory(t Trial, best point) int64 {
	more := t.NeededBytes - best.at.NeededBytes
	if !s.heapFixed() && best.setup.heapBytes() == 0 && t.Setup.heapBytes() == 0 {
		more -= max(0, ledgerOf(t, 0).heap()-ledgerOf(best.at, 0).heap())
	}
	return more
}

// faster is how many times as fast a setup is as another: by what the same work costs,
// or else by their speeds as they were measured.
func (s *Search) faster(is, was point) float64 {
	if ratio, known := s.costRatio(is.setup, was.setup); known && ratio > 0 {
		return 1 / ratio
	}
	if was := s.speed(was); was > 0 {
		return s.speed(is) / was
	}
	return 1
}

// leverCost is what the work costs with a trial's levers over what it costs without.
func (s *Search) leverCost(t Trial) RelativeCost {
	if !s.costsTell(t.Setup, Setup{}) {
		return RelativeCost{}
	}
	return s.leverCosts(s.heapLimited(t)).relative(t.Setup, Setup{})
}

// surelyDear says that a trial did its work for more processor time than the objective allows.
// It must be surer of that where nothing that was measured can have made the work so dear.
func (s *Search) surelyDear(t Trial) bool {
	if t.AskedShare <= 0 || !s.costsTell(t.Setup, Setup{}) {
		return false
	}
	confidence := costConfidence
	if s.causesBear(t) {
		confidence = causesConfidence
	}
	low, _, known := s.leverCosts(s.heapLimited(t)).bounds(t.Setup, Setup{}, confidence)
	return known && low > 1/t.AskedShare
}

// foreseenDear says that trials of other setups with a lever tell that it makes the work dearer,
// and that this costs more with it than the objective allows: at least so many times what it
// does as given. A trial of its own would tell nothing new. What collections took is left out, for
// the heap may be of another size in each.
func (s *Search) foreseenDear(l Lever) (times float64, dear bool) {
	if s.Spare <= 0 || s.burnsIdle() {
		return 0, false
	}
	with := s.best.setup.plus(Setup{Options: l.Options, Env: l.Env})
	points := s.leverPoints(!s.fixesHeap(with))
	for i, p := range points {
		points[i] = p.withoutCollections()
	}
	costs := regress(points)
	times = costs.relative(with.withoutHeap(), Setup{}).CostLow
	return times, costs.relative(with.withoutHeap(), s.best.setup.withoutHeap()).CostLow > 1 && times > 1/(1-s.Spare)
}

// noDearer says that a trial which was too slow did its work for no more processor time
// than the objective allows: what took the time was not the levers.
func (s *Search) noDearer(t Trial) bool { return !s.waits(t.Setup) && s.withinCost(t) }

// withinCost is the same, whether or not its levers make threads wait: it is so for sure
// or, where it was tried again, a baseline was made beside it or no trial is left for that, as
// far as is known.
func (s *Search) withinCost(t Trial) bool {
	if t.AskedShare <= 0 {
		return false
	}
	c := s.leverCost(t)
	bound := c.CostHigh
	if t.Repeat > 0 || s.hasBeside(t) || s.room() <= reserve {
		bound = c.CostRatio
	}
	return c.known() && bound <= 1/t.AskedShare
}

// spendsSpeed says that a lever is tried by what speed the others leave: where it takes more
// than that, nothing else makes up for it.
func spendsSpeed(l Lever) bool { return len(l.Scales) > 0 }

// passedByLuck says that a trial passed with a new lever that is to spend speed, and that its
// work costs less than the objective allows by less than trials differ: the lever is left
// out. A bound of costConfidence would leave it out of one fit of five of the demo service,
// for which it is right.
func (s *Search) passedByLuck(t Trial) bool {
	if !t.Passed || s.Spare <= 0 || !s.hasNew(t, spendsSpeed) || !s.costsTell(t.Setup, Setup{}) {
		return false
	}
	r := regress(s.costPoints())
	log, variance, known := r.difference(t.Setup, Setup{})
	deviation, _ := r.deviation()
	return known && math.Exp(log+deviation*math.Sqrt(variance)) > 1/(1-s.Spare)
}

// blameless says that a trial which was too slow was not so for its levers.
func (s *Search) blameless(t Trial) bool { return s.noDearer(t) || s.collectionsBear(t) }

// collectionsBear says that a trial keeps the objective by its causes. That its work cost more is
// then the machine's doing, unless it is sure that it did. Whether threads waited is told elsewhere
// (answersLate).
func (s *Search) collectionsBear(t Trial) bool { return s.causesBear(t) && !s.surelyDear(t) }

// causesBear says that a trial keeps the objective by what the same work costs at the best point
// and by what collections and reclaim took of the trial, where all in which it differs from that
// point costs nothing else: sizes of the heap, and levers that take no processor time.
func (s *Search) causesBear(t Trial) bool {
	if s.Spare <= 0 || t.AskedShare <= 0 || s.waits(t.Setup) && !s.tellsWaiting(t) || !s.differFreely(t.Setup, s.best.setup) {
		return false
	}
	ratio, known := s.costRatio(s.best.setup, Setup{})
	lost, told := s.memoryWork(t)
	return known && told && lost < 1 && ratio/(1-lost) <= 1/(1-s.Spare)
}

// differFreely says that all in which two setups differ are levers that take no processor time
// but that of collections.
func (s *Search) differFreely(one, other Setup) bool {
	free := func(words, others []string) bool {
		return !slices.ContainsFunc(words, func(w string) bool {
			return !slices.Contains(others, w) && !slices.ContainsFunc(s.Levers, func(l Lever) bool { return l.free() && l.adds(w) })
		})
	}
	is, was := wordsOf(one), wordsOf(other)
	return free(is, was) && free(was, is)
}

// costUntold says that a trial of levers was too slow, that memory was not the reason, and
// that it is not known whether they were: what the work cost may or may not be within the
// objective, or so little of it was done that this does not tell.
func (s *Search) costUntold(t Trial) bool {
	if !s.worthAgain(t) || !s.workTells(t) {
		return false
	}
	c := s.leverCost(t)
	return !c.known() || c.CostLow <= 1/t.AskedShare && c.CostHigh > 1/t.AskedShare
}

// worthAgain says that a trial of levers was too slow and nothing else, and may be made once
// more. One with a new lever that is to spend speed is made without it instead.
func (s *Search) worthAgain(t Trial) bool {
	slow := t.Phase == PhaseLever && t.SlowElsewhere && t.AskedShare > 0
	return slow && t.Repeat == 0 && s.room() > reserve && !s.hasNew(t, spendsSpeed)
}

// workTells says that processor time can tell what a trial's levers cost, and that what
// collections took does not tell it already.
func (s *Search) workTells(t Trial) bool {
	base := s.found.Baseline.Result
	if base == nil || s.waits(t.Setup) || s.burnsIdle() || s.collectionsBear(t) {
		return false
	}
	_, measured := base.AnswerCost()
	return measured
}

// hasBeside says that a baseline was made right after a trial.
func (s *Search) hasBeside(t Trial) bool {
	if t.Number < 1 || t.Number >= len(s.found.Trials) {
		return false
	}
	next := s.found.Trials[t.Number]
	return next.Phase == PhaseBaseline && next.Passed
}

// baselineTells says that a baseline made after a trial would tell more of what its levers cost
// than the trial made again: the machine may have drifted since the last one.
func (s *Search) baselineTells(t Trial) bool {
	at := t.Result.Time
	if !at.IsZero() {
		at = at.Add(t.Took)
	}
	variance := func(setup Setup) float64 {
		next := costPoint{setup: setup, node: t.Node, at: at, pace: math.Log(s.pace(t))}
		_, v, known := regress(append(s.costPoints(), next)).difference(t.Setup, Setup{})
		if !known {
			return math.Inf(1)
		}
		return v
	}
	return variance(Setup{}) < variance(t.Setup)
}

// waits says that a setup has a lever that makes threads wait, and that is not part of
// the best point: there it was judged. Where no more than one processor may be used, a
// thread that waits leaves it to another one: what that costs is processor time.
func (s *Search) waits(setup Setup) bool {
	if s.Facts.Processors == 1 {
		return false
	}
	return slices.ContainsFunc(s.Levers, func(l Lever) bool {
		return l.Waits && l.isIn(setup) && !l.isIn(s.best.setup)
	})
}

// isIn says that a setup has the options and variables of a lever, of those with sizes with
// any size.
func (l Lever) isIn(s Setup) bool {
	for _, o := range slices.Concat(l.Options, l.Env) {
		if !slices.ContainsFunc(slices.Concat(s.Options, s.Env), func(word string) bool { return isOf(word, o) }) {
			return false
		}
	}
	return true
}

// isOf says that a word of a setup is an option or variable of a lever, with any size.
func isOf(word, option string) bool {
	plain, _, sized := strings.Cut(option, "{")
	return word == option || sized && strings.HasPrefix(word, plain)
}
