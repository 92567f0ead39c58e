package fit

import (
	"fmt"
	"slices"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

// Unless MaxDirectMemorySize is set, direct buffers may take as much as the largest heap
// (VM.maxDirectMemory, jdk.internal.misc). Those that nobody holds are freed by collections
// alone, and where they are at their bound each new one has the whole heap collected
// (Bits.reserveMemory, java.nio): they are a second heap, of which no curve of the first tells.

const directOption = "-XX:MaxDirectMemorySize="

// directFull is the share of their bound from which direct buffers are at it: what they take
// rises until a collection.
const directFull = 0.8

// directLevers bound direct buffers by what speed the other levers leave.
var directLevers = []Lever{{
	ID: "direct", Name: "fewer direct buffers",
	Options: []string{directOption + "{direct}m"},
	Why:     "direct buffers that nobody holds stay until a collection, which comes when they are at their bound",
	Cost:    "more collections of the whole heap",
	Breaks:  "OutOfMemoryError where more of them are in use at a time than the load made",
	Slows:   true, Since: jvmopts.Release{Feature: 8}, Rows: []footprint.Owner{footprint.Malloc}, bound: boundDirect,
	Harms: []Harm{HarmHeap},
}}

// sizesDirect says that the lever bounds direct buffers.
func (l Lever) sizesDirect() bool { return slices.Contains(l.Options, directOption+"{direct}m") }

// boundDirect is for direct buffers that are at their bound; others are in use, as far as is
// known.
func boundDirect(l Ledger) int64 {
	has := l.Footprint.DirectBytes()
	if !l.directFull() {
		return 0
	}
	return share(has, 80)
}

// directBound is how much direct buffers may take; 0 is not known.
func (l Ledger) directBound() int64 {
	if bound := l.flag("MaxDirectMemorySize"); bound > 0 {
		return bound
	}
	if l.Footprint.Heap == nil {
		return 0
	}
	return l.Footprint.Heap.MaxBytes
}

// directFull says that direct buffers are at their bound.
func (l Ledger) directFull() bool {
	bound := l.directBound()
	return bound > 0 && float64(l.Footprint.DirectBytes()) >= directFull*float64(bound)
}

// setupOf is what a lever adds. A heap that it sizes leaves direct buffers the bound that they
// had.
func (s *Search) setupOf(l Lever, v sizes) Setup {
	setup := l.setup(v)
	if sizeIn(s.best.setup.Options, directOption) > 0 || !l.sizesHeap() {
		return setup
	}
	if bound := s.directAsGiven(); bound > heapFor(s.found.Baseline.LiveBytes, tightest) {
		setup.Options = append(setup.Options, fmt.Sprintf("%s%dm", directOption, bound/mib))
	}
	return setup
}

// directAsGiven is twice what direct buffers took as given, but no more than they could; 0 where
// the bound is the user's, or nothing is known of them.
func (s *Search) directAsGiven() int64 {
	l := ledgerOf(s.found.Baseline, 0)
	if _, taken := s.Facts.Given.Conflict(directOption + "1m"); taken || l.Footprint == nil {
		return 0
	}
	var most int64
	for _, t := range s.found.Trials {
		if t.Result != nil && t.Setup.empty() {
			most = max(most, t.Result.Peak.DirectBytes(), t.Result.End.DirectBytes())
		}
	}
	return wholeMiB(min(2*most, l.directBound()))
}

// leastDirect is the least part of their bound that is tried: the objective was not measured
// that far off.
const leastDirect = 0.2

// fewerDirect is the bound of direct buffers with which the best point is as fast as it nearly
// has to be, where collections go by them: their number is as 1 over that bound. It is 0 where
// that saves little.
func (s *Search) fewerDirect() int64 {
	ratio, known := s.costRatio(s.best.setup, Setup{})
	collecting, told := collectingOf(s.best.at)
	l := ledgerOf(s.best.at, 0)
	if !known || !told || s.Spare <= 0 || l.Footprint == nil || !l.directFull() {
		return 0
	}
	allowed := nearly/(1-s.Spare)/ratio - (1 - collecting)
	if part := max(leastDirect, collecting/max(1e-9, allowed)); allowed > 0 && part < directFull {
		return wholeMiB(int64(part * float64(l.directBound())))
	}
	return 0
}

// directWarning says that collections went by direct buffers and not by the heap, or is "".
func (f *Found) directWarning() string {
	for _, t := range f.Confirmations {
		l := ledgerOf(t, 0)
		if l.Footprint == nil || !l.directFull() {
			continue
		}
		return fmt.Sprintf("direct buffers took %s of the %s that they may (-XX:MaxDirectMemorySize, by default as much as the largest heap): "+
			"each time they are full the whole heap is collected, and more room for them makes it faster", mibText(l.Footprint.DirectBytes()), mibText(l.directBound()))
	}
	return ""
}
