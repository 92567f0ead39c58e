package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Prefer is which point between little memory and high speed a search picks.
type Prefer string

// The preferences. Whichever is chosen, the objective must hold.
const (
	// PreferMemory picks what needs least.
	PreferMemory Prefer = "memory"
	// PreferBalanced picks the least product of what is needed and what the same work
	// costs: what saves a larger share of the memory than it costs of the speed.
	PreferBalanced Prefer = "balanced"
	// PreferThroughput picks what needs least of all that cost no speed beside the
	// cheapest; noSpeed counts as none.
	PreferThroughput Prefer = "throughput"
)

// Preferences are all of them.
var Preferences = []Prefer{PreferMemory, PreferBalanced, PreferThroughput}

// ParsePrefer reads a preference.
func ParsePrefer(s string) (Prefer, error) {
	if p := Prefer(s); slices.Contains(Preferences, p) {
		return p, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", s, PreferMemory, PreferBalanced, PreferThroughput)
}

func (s *Search) preference() Prefer { return cmp.Or(s.Prefer, PreferMemory) }

// noSpeed is the share of the speed that may be lost without being counted as
// lost: trials of one setup differ by as much.
const noSpeed = 0.03

// rated is a point with what preferences look at.
type rated struct {
	point
	// cost is what the same work costs, in a unit that all points have in common.
	cost float64
}

// rate rates points: by the processor time of the same work where that tells of all of them,
// else by their speeds.
func (s *Search) rate(points []point) []rated {
	var out []rated
	byWork := true
	for _, p := range points {
		ratio, known := s.costRatio(p.setup, Setup{})
		byWork = byWork && known
		out = append(out, rated{p, ratio})
	}
	for i := range out {
		if !byWork {
			out[i].cost = 1 / max(s.speed(out[i].point), math.SmallestNonzeroFloat32)
		}
	}
	return out
}

// pick is the point that is preferred: in the order of their trials each takes the place of
// the one before it that it is better than.
func (s *Search) pick(points []point, prefer Prefer) point {
	all := s.rate(points)
	least := math.Inf(1)
	for _, p := range all {
		least = min(least, p.cost)
	}
	best := all[0]
	for _, p := range all[1:] {
		if s.better(p, best, least, prefer) {
			best = p
		}
	}
	return best.point
}

// better says that a point takes the place of one that was tried before it; least is the
// cost of the cheapest. Saving processor time for sure and no memory lost is better whatever
// is preferred. A cost that is lower by chance is no reason to add options: one that saves
// no memory must be sure to be cheaper.
func (s *Search) better(p, best rated, least float64, prefer Prefer) bool {
	if s.gains(p.point, best.point) {
		return true
	}
	before, saved := s.saves(p.point, best.point)
	if saved <= 0 && (prefer == PreferMemory || !s.surelyCheaper(p.point, best.point, noSpeed)) {
		return false
	}
	switch prefer {
	case PreferBalanced:
		return float64(before-saved)*p.cost < float64(before)*best.cost
	case PreferThroughput:
		return p.cost*(1-noSpeed) <= least
	}
	return true
}

// saves is how much less a point needs than another one, which needs before; 0 where it is
// too little to count, or may be chance.
func (s *Search) saves(p, best point) (before, saved int64) {
	before, after := s.needed(p.at, best)
	saved = before - after
	if saved >= 0 && (saved < leastBytes/2 || p.unforeseen && saved < s.chance(before, costConfidence)) {
		return before, 0
	}
	return before, saved
}

// whyNot says why a point is not preferred to another one.
func (s *Search) whyNot(p, best point) string {
	before, saved := s.saves(p, best)
	if lost := s.loses(p, best); saved > 0 && lost > 0 {
		return fmt.Sprintf("costs %.0f %% of the speed to save %d MiB, and %s is preferred", 100*lost, saved/mib, s.preference())
	}
	_, after := s.needed(p.at, best)
	if less := before - after; saved == 0 && less >= leastBytes/2 {
		return fmt.Sprintf("%s less were needed with it, and trials of the same differ by %s", mibText(less), mibText(s.chance(before, costConfidence)))
	}
	return "no less was needed with it"
}

// loses is the share of its speed that a point costs beside another.
func (s *Search) loses(p, best point) float64 {
	all := s.rate([]point{p, best})
	return 1 - all[1].cost/all[0].cost
}

// tooDear says that a trial which held the objective lost speed that is preferred to what it
// saved.
func (s *Search) tooDear(t Trial) bool {
	return s.preference() != PreferMemory && t.enough() && s.loses(point{setup: t.Setup, at: t}, s.best) > noSpeed
}

// speed is the median speed of the passed trials with a point's setup.
func (s *Search) speed(p point) float64 {
	var alike []Trial
	for _, t := range s.found.Trials {
		if t.Passed && t.Phase != PhaseBaseline && t.Setup.Same(p.setup) {
			alike = append(alike, t)
		}
	}
	if len(alike) == 0 {
		return p.at.Speed()
	}
	return Median(alike).Speed()
}

// mostLimit is the limit below which what is picked must be proven: that as given, but for
// options that are sure to cost less and were picked for that.
func (s *Search) mostLimit() int64 {
	if s.preference() != PreferMemory && s.surelyCheaper(s.best, s.given, noSpeed) {
		return s.AmpleBytes + 1
	}
	return s.given.limit()
}
