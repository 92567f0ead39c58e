package fit

import (
	"fmt"
	"slices"
)

// Prefer is which point between little memory and high speed a search picks.
type Prefer string

// The preferences. Whichever is chosen, the objective must hold.
const (
	// PreferMemory keeps every lever that saves memory.
	PreferMemory Prefer = "memory"
	// PreferBalanced keeps levers that save a larger share of the memory
	// than they cost of the speed.
	PreferBalanced Prefer = "balanced"
	// PreferThroughput keeps levers that cost no speed.
	PreferThroughput Prefer = "throughput"
)

// ParsePrefer reads a preference.
func ParsePrefer(s string) (Prefer, error) {
	all := []Prefer{PreferMemory, PreferBalanced, PreferThroughput}
	if p := Prefer(s); slices.Contains(all, p) {
		return p, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", s, PreferMemory, PreferBalanced, PreferThroughput)
}

// noSpeed is the share of the speed that may be lost without being counted as
// lost: trials of one setup differ by as much.
const noSpeed = 0.03

// worth tells whether what levers save is worth what they cost: before and after
// are the limits that are needed. reason says why not.
func (s *Search) worth(before, after int64, p point) (ok bool, reason string) {
	if s.prefersMemory() {
		return true, ""
	}
	lost := 1 - s.faster(p, s.best)
	allowed := noSpeed
	if s.Prefer == PreferBalanced {
		allowed = max(noSpeed, 1-float64(after)/float64(before))
	}
	if lost <= allowed {
		return true, ""
	}
	return false, fmt.Sprintf("costs %.0f %% of the speed to save %d MiB, and %s is preferred", 100*lost, (before-after)/mib, s.Prefer)
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
