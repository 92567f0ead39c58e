package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// A search carries every set of options that was tried with room and held the objective,
// for it does not know yet which of them is wanted: less memory at a higher cost, or the
// other way round. What another one beats for sure in both is dropped. It goes on from the
// one that is preferred by what is known at the moment, and picks among all of them when
// everything is known.

// FrontierPoint is a set of options that no other one of a fit beats for sure in both, the
// memory that it needs and what its work costs.
type FrontierPoint struct {
	Setup Setup
	// Levers are the names of those that make it; none is as given.
	Levers []string `json:",omitempty"`
	// Trial is the number of its last trial.
	Trial int
	// NeededBytes is what it needs on the average, and BoundBytes what 99 % of runs need no
	// more than, both as they were known when the search picked (Need); where the heap
	// follows the limit they are by that trial, and as given the second is the smallest limit
	// that passed.
	NeededBytes, BoundBytes int64
	// RelativeCost is with it over as given.
	RelativeCost
	// SpeedRatio is the speed over that as given, and decides where costs are unknown; 0 where
	// that is unknown, too.
	SpeedRatio float64 `json:",omitempty"`
	// PickedBy are the preferences that pick it.
	PickedBy []Prefer `json:",omitempty"`
}

// carry adds a point that held the objective to those that are carried, and goes on from the
// one that is preferred of them. It returns why that is not the new one, or "".
func (s *Search) carry(p point) (reason string) {
	was := s.best
	for _, r := range p.levers {
		if !slices.ContainsFunc(was.levers, func(o LeverResult) bool { return o.Lever.same(r.Lever) && o.Trial == r.Trial }) {
			s.pulled = append(s.pulled, r)
		}
	}
	s.carried = slices.DeleteFunc(s.carried, func(o point) bool { return o.setup.Same(p.setup) })
	s.carried = append(s.carried, p)
	s.settle()
	if s.best.setup.Same(p.setup) {
		return ""
	}
	return s.whyNot(p, was)
}

// settle drops what is dominated for sure, and makes the best point the preferred one.
func (s *Search) settle() {
	s.carried = s.undominated(s.carried)
	s.adopt(s.pick(s.carried, s.preference()))
}

// choose picks among all that is carried by all that is known, before the limit is looked
// for, and says what other preferences would pick.
func (s *Search) choose(context.Context) error {
	was := s.best
	s.settle()
	if !s.best.setup.Same(was.setup) {
		s.note("by all trials the options of trial %d are preferred to those of trial %d", s.best.at.Number, was.at.Number)
	}
	s.found.Frontier = s.frontier()
	return nil
}

// placeAsGiven has the frontier tell the smallest limit as given that the rest of the search
// came to.
func (s *Search) placeAsGiven(context.Context) error {
	for i := range s.found.Frontier {
		if f := &s.found.Frontier[i]; f.Setup.empty() {
			f.BoundBytes = s.found.AsGiven.LimitBytes
			f.NeededBytes = min(f.NeededBytes, f.BoundBytes)
		}
	}
	return nil
}

// adopt makes a point the best one: its levers are those that are kept.
func (s *Search) adopt(p point) {
	s.best = p
	has := func(l []LeverResult, r LeverResult) bool {
		return slices.ContainsFunc(l, func(o LeverResult) bool { return o.Lever.same(r.Lever) })
	}
	all := slices.Clone(p.levers)
	for _, r := range s.dropped {
		if !has(p.levers, r) {
			all = append(all, r)
		}
	}
	for _, r := range s.pulled {
		if !has(all, r) {
			r.Kept, r.Setup, r.CostRatio, r.SavedBytes = false, Setup{}, 0, 0
			r.Reason = fmt.Sprintf("options without it are preferred by all trials (%s)", s.preference())
			all = append(all, r)
		}
	}
	s.found.Levers = all
}

// undominated leaves the points that none of the others dominates.
func (s *Search) undominated(points []point) []point {
	var out []point
	for _, p := range points {
		if !slices.ContainsFunc(points, func(o point) bool { return s.dominates(o, p) }) {
			out = append(out, p)
		}
	}
	return out
}

// dominates says that a point is sure to need no more than another one, and that the same
// work is sure to cost less with it.
func (s *Search) dominates(a, b point) bool {
	return !a.setup.Same(b.setup) && s.surelyCheaper(a, b, 0) && s.surelyNoLarger(a, b)
}

// surelyCheaper says that the same work costs less with a point than with another, by more
// than a share of it, with the confidence of cost bounds.
func (s *Search) surelyCheaper(a, b point, by float64) bool {
	upper, known := s.costBound(a.setup, b.setup)
	return known && upper < 1-by
}

// surelyNoLarger says that a point needs no more than another. Two that differ in the bounds
// of what collections free alone differ by those; of others the difference of the means has an
// upper bound, with the confidence of cost bounds.
func (s *Search) surelyNoLarger(a, b point) bool {
	if x, y := s.boundOn(a.setup), s.boundOn(b.setup); x > 0 && y > 0 && a.setup.withoutHeap().Same(b.setup.withoutHeap()) {
		return x <= y
	}
	deviation, freedom, _ := s.needDeviation()
	x, n := s.meanNeed(a)
	y, m := s.meanNeed(b)
	off := stats.InvCDF(stats.TDist{V: freedom})(costConfidence) * deviation * math.Sqrt(1/n+1/m)
	return x*math.Exp(off) <= y
}

// meanNeed is what a point needs on the average, in bytes, by so many trials.
func (s *Search) meanNeed(p point) (mean, trials float64) {
	samples := s.samples(p.setup)
	if !s.byNeed(p.setup) || len(samples) == 0 {
		return float64(s.limitOf(p.at)), 1
	}
	return meanOf(samples, s.boundOn(p.setup)) + float64(s.growthOf(p.setup)), float64(len(samples))
}

// boundedNeed is what a point needs on the average, and the bound of that: as given the
// smallest limit that passed.
func (s *Search) boundedNeed(p point) (mean, bound int64) {
	if n, known := s.needOf(p.setup); known && s.byNeed(p.setup) {
		return n.MeanBytes, n.BoundBytes
	}
	if p.setup.empty() {
		return s.limitOf(p.at), p.limit()
	}
	deviation, freedom, _ := s.needDeviation()
	mean = s.limitOf(p.at)
	return mean, boundOf(float64(mean), 1, freedom, deviation)
}

// frontier is what is carried, as reports show it: the least memory last.
func (s *Search) frontier() []FrontierPoint {
	var out []FrontierPoint
	given := s.speed(s.given)
	picks := map[Prefer]point{}
	for _, prefer := range Preferences {
		picks[prefer] = s.pick(s.carried, prefer)
	}
	for _, p := range s.carried {
		f := FrontierPoint{Setup: p.setup, Trial: p.at.Number}
		f.NeededBytes, f.BoundBytes = s.boundedNeed(p)
		for _, r := range p.levers {
			f.Levers = append(f.Levers, r.Lever.Name)
		}
		f.RelativeCost = s.relativeCost(p.setup, Setup{})
		if given > 0 {
			f.SpeedRatio = s.speed(p) / given
		}
		for _, prefer := range Preferences {
			if picks[prefer].setup.Same(p.setup) {
				f.PickedBy = append(f.PickedBy, prefer)
			}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b FrontierPoint) int { return cmp.Compare(b.NeededBytes, a.NeededBytes) })
	return out
}
