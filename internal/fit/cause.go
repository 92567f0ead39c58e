package fit

import (
	"fmt"

	"tare.dev/tare/internal/trial"
)

// A trial is too slow for one of two reasons: memory lacks, or something else took the
// time, such as the machine's other work or a compiler that has not caught up. Only the
// first says something about a limit. Collections and reclaim are measured, so what
// memory took of the speed is computed and not inferred from the speed.

// unasked is the share of its speed that memory may take from an application whose
// objective is no share of the baseline's: what the clock of a machine changes unseen.
const unasked = 0.05

// enough says that the limit was enough: the trial passed, or was slow for another
// reason than memory.
func (o Outcome) enough() bool { return o.Passed || o.SlowElsewhere }

// OnlyPressed says that the limit was enough, and that waiting for memory took so much of the
// trial that a smaller one is of no use.
func (o Outcome) OnlyPressed() bool { return o.enough() && o.Pressed }

// pressedPart is the part of what waiting for memory may take from which on no smaller limit
// is tried: the rest is for collections, and for what runs differ by.
const pressedPart = 0.5

// MayWait is the share of the time that waiting for memory may take at the limit of an
// objective that leaves so much of the speed (trial.SLO.Spare), 0 where it does not look at
// that: below what is called stalled. What waits for a disk gains nothing by a processor
// that is faster than the one the limit was found with, and the work that it makes for the
// processor comes on top: WireMock at 67 MiB waited for a tenth of the time, and answered a
// quarter less than at 70.
func MayWait(spare float64) float64 { return min(spare, trial.StalledShare) }

// pressed says that waiting for memory took that part of a trial. It rises steeply as the
// limit falls, and long before a run fails for sure: so it tells of a limit what luck has
// little part in. For the demo service it was 14 % at 45 MiB, 6 % at 48 and 1 % at 51.
func (s *Search) pressed(t Trial) bool {
	finds := t.Phase == PhaseRefine || t.Phase == PhaseConfirm || t.Phase == PhaseBelow
	return finds && s.Spare > 0 && t.Result != nil && t.Result.ReclaimShare >= pressedPart*MayWait(s.Spare)
}

// hasRoom says that the limit was enough, and reclaim was not about to take the time.
func (t Trial) hasRoom() bool { return t.enough() && !t.Pressed }

// findsLimit says that trials of a phase find or prove a limit: there memory decides.
// Levers are chosen by speed as well.
func findsLimit(p Phase) bool {
	return p == PhaseAsGiven || p == PhaseRefine || p == PhaseConfirm || p == PhaseBelow
}

// Aside says that trials of a phase do not look for the smallest limit or the best options:
// their limits mean nothing.
func Aside(p Phase) bool {
	return p == PhaseBaseline || p == PhaseHeap || p == PhaseAblation || p == PhaseControl
}

// slowElsewhere says that a trial was too slow, and that memory was not the reason: of
// each clause that it missed, by its own cause.
func (s *Search) slowElsewhere(t Trial) bool {
	if t.Verdict != trial.TooSlow || s.bar == nil || t.Result == nil {
		return false
	}
	if len(t.Missed) == 0 { // one that a tare stored which did not keep them
		return t.AskedSpeed > 0 && s.keeps(t, s.memoryCost, t.AskedShare)
	}
	for _, c := range t.Missed {
		if !s.excused(t, c) {
			return false
		}
	}
	return true
}

// excused says that memory was not the reason why a trial missed a clause.
func (s *Search) excused(t Trial, c trial.Clause) bool {
	relative := func(share float64) float64 {
		if c.Unit != trial.Ratio {
			return 0
		}
		return share
	}
	switch c.Metric {
	case trial.Throughput:
		return s.keeps(t, s.memoryCost, relative(c.Value))
	case trial.JobTime:
		return s.keeps(t, s.memoryCost, relative(1/c.Value))
	case trial.Cost:
		return s.keeps(t, s.memoryWork, relative(1/c.Value))
	case trial.StartTime:
		return t.Result.StartReclaimShare < unasked && s.keeps(t, s.memoryCost, 0)
	case trial.P50, trial.P90, trial.P99, trial.P999, trial.MeanTime, trial.MaxTime:
		return s.pausesAsWithRoom(t)
	}
	return false
}

// keeps says that what memory took of a trial, of its speed or of its processor time, is less than
// the objective leaves it, which asks for a share of the baseline's; 0 is an absolute one.
func (s *Search) keeps(t Trial, took func(Trial) (share float64, known bool), share float64) bool {
	cost, known := took(t)
	allowed := unasked
	if share > 0 {
		allowed = max(unasked, 1-share)
	}
	return known && cost < allowed && t.LimitCost < s.leaves(t, allowed)
}

const (
	// longerPause is how many times as long a pause may be on the average, and frequenter
	// how many more of them there may be for an answer, as with the same options and room:
	// what runs differ by.
	longerPause, frequenter = 1.25, 1.1
	// hardlyWaits is the share of the time in which nothing that matters to a latency
	// waited for memory.
	hardlyWaits = 0.01
)

// pausesAsWithRoom says that memory did not make answers late: pauses were as long and as
// frequent as in trials with the same options and room, and nothing waited for memory. A
// pause that is short for the speed may be long for a latency, so shares do not tell.
func (s *Search) pausesAsWithRoom(t Trial) bool {
	if t.Result.ReclaimShare >= hardlyWaits || t.Result.AwaitShare != nil && *t.Result.AwaitShare >= hardlyWaits {
		return false
	}
	long, often, known := pausesOf(t)
	if !known {
		return false
	}
	for _, o := range s.found.Trials {
		if o.Number == t.Number || o.LimitBytes < t.LimitBytes || !o.Setup.Same(t.Setup) || !o.Passed {
			continue
		}
		if l, f, known := pausesOf(o); known && long <= l*longerPause && often <= f*frequenter {
			return true
		}
	}
	return false
}

// pausesOf is how long a pause was on the average, in shares of a second, and how many
// there were for an answer.
func pausesOf(t Trial) (long, often float64, known bool) {
	r := t.Result
	if r == nil || r.Load == nil || r.Load.OK <= 0 || r.GCShare == nil {
		return 0, 0, false
	}
	n := float64(r.Collections)
	return *r.GCShare * r.Load.Elapsed.Seconds() / max(1, n), n / float64(r.Load.OK), true
}

// memoryCost is the share of its speed that memory took from a trial, and whether that
// is known: reclaim, collections beyond those that there are with room, and what the limit
// costs in processor time (limitCost). Collections take it by stopping the application,
// which their pauses tell; by having it wait for heap; and by the processor time of the
// collector's threads, which is all that tells of one that runs beside the application, or
// of a JVM without performance data. A pause is processor time too, and so is what the limit
// costs: of these the largest counts, and not their sum. Pauses and
// reclaim are of the time in which the application stood still, or some thread of it did:
// with several threads it is no less than what was lost.
func (s *Search) memoryCost(t Trial) (cost float64, known bool) {
	return s.memoryTook(t, (*trial.Result).CollectorLoss)
}

// memoryWork is the same of what its work costs. An application that waits for something else
// loses no speed to a collector which has the processor meanwhile: that of Kafka took a fifth of
// the processor time at a limit where it answered as many requests as with ample memory.
func (s *Search) memoryWork(t Trial) (cost float64, known bool) {
	return s.memoryTook(t, (*trial.Result).CollectorWork)
}

// memoryTook is the share that memory took of what the collector's share is of.
func (s *Search) memoryTook(t Trial, collector func(r *trial.Result, room float64) (share float64, known bool)) (cost float64, known bool) {
	r := t.Result
	if r == nil {
		return 0, false
	}
	worked, measured := collector(r, s.roomyCollector(t))
	if !measured && r.GCShare == nil {
		return 0, false
	}
	paused, awaited := 0.0, 0.0
	if r.GCShare != nil {
		paused = 1 - (1-*r.GCShare)/(1-min(mostCollecting, s.roomyGC(t)))
	}
	if r.AwaitShare != nil {
		awaited = *r.AwaitShare
	}
	return max(0, worked, paused, awaited, t.LimitCost) + r.ReclaimShare, true
}

// roomyGC is the share of the time in collections where memory abounds.
func (s *Search) roomyGC(t Trial) float64 {
	return s.leastWithRoom(t, func(r *trial.Result) (float64, bool) {
		if r.GCShare == nil {
			return 0, false
		}
		return *r.GCShare, true
	})
}

// roomyCollector is the collector's processor time over all other where memory abounds.
func (s *Search) roomyCollector(t Trial) float64 {
	return s.leastWithRoom(t, (*trial.Result).CollectorOdds)
}

// leastWithRoom is the least of a number in the trials with the same setup at this limit
// or a larger one, and in the trial itself. Where there is no other of them, or their heap
// follows the limit, that is of the baselines as well: what a heap costs that was chosen
// to be small, no limit mends, but it is counted once, when it is chosen.
func (s *Search) leastWithRoom(t Trial, number func(*trial.Result) (float64, bool)) float64 {
	least, _ := number(t.Result)
	others, alike := least, false
	for _, o := range s.found.Trials {
		if !o.Passed || o.Result == nil {
			continue
		}
		n, known := number(o.Result)
		switch {
		case !known:
		case o.Phase == PhaseBaseline:
			others = min(others, n)
		case o.LimitBytes >= t.LimitBytes && o.Setup.Same(t.Setup):
			least, alike = min(least, n), alike || o.LimitBytes > t.LimitBytes && !o.Pressed
		}
	}
	if alike && s.fixesHeap(t.Setup) {
		return least
	}
	return min(least, others)
}

// SlowRuns is the number of confirming runs that were slower than asked for another
// reason than memory.
func (f *Found) SlowRuns() int {
	slow := 0
	for _, t := range f.Confirmations {
		if t.SlowElsewhere {
			slow++
		}
	}
	return slow
}

// CostVerdict is what all runs that prove a limit tell of its cost, where single ones were dearer
// than asked: one run differs from the next by more than an objective leaves.
type CostVerdict string

const (
	CostKept    CostVerdict = "as asked"         // its upper bound is
	CostMissed  CostVerdict = "more than asked"  // its lower bound is
	CostUnknown CostVerdict = "as asked or more" // neither
	CostUntold  CostVerdict = ""                 // no run was dearer, or they missed something else too
)

// CostVerdict judges the runs that were slower than asked together with the others.
func (f *Found) CostVerdict() CostVerdict {
	asked := f.askedCost()
	switch {
	case asked == 0 || !f.ProofCost.known():
		return CostUntold
	case f.ProofCost.CostHigh <= asked:
		return CostKept
	case f.ProofCost.CostLow > asked:
		return CostMissed
	}
	return CostUnknown
}

// askedCost is how many times the baseline's processor time the work may take, where the
// confirming runs that were slower than asked missed that and nothing else; else 0.
func (f *Found) askedCost() float64 {
	asked := 0.0
	for _, t := range f.Confirmations {
		if !t.SlowElsewhere {
			continue
		}
		if len(t.Missed) != 1 || t.Missed[0].Metric != trial.Cost || t.Missed[0].Unit != trial.Ratio {
			return 0
		}
		asked = t.Missed[0].Value
	}
	return asked
}

// slowWarning tells of confirming runs that missed the objective on speed, and of what
// was measured to have taken it.
func (f *Found) slowWarning() string {
	slow, collecting, waiting := f.SlowRuns(), 0.0, 0.0
	others, compiling, limit := 0.0, 0.0, 0.0
	for _, t := range f.Confirmations {
		if !t.SlowElsewhere {
			continue
		}
		share, _ := collectingOf(t)
		collecting, waiting = max(collecting, share), max(waiting, t.Result.ReclaimShare)
		others, limit = max(others, t.Result.Others), max(limit, t.LimitCost)
		if r := t.Result.Times; r != nil && r.Group > 0 {
			compiling = max(compiling, r.Compiler.Seconds()/r.Group.Seconds())
		}
	}
	if slow == 0 || f.CostVerdict() == CostKept {
		return ""
	}
	text := fmt.Sprintf("%d of %d confirming runs were slower than the objective asks, and not for want of memory: collections took at most %.1f %% of their processor time, "+
		"and %.1f %% of the time went by waiting for memory", slow, len(f.Confirmations), 100*collecting, 100*waiting)
	switch {
	case limit >= toldLimitCost:
		return text + fmt.Sprintf(". The limit itself took %.0f %% of their processor time at least: with room they are that much faster, and the options leave the objective little else", 100*limit)
	case others >= disturbingShare:
		return text + fmt.Sprintf(". Other processes took up to %.0f %% of the machine meanwhile: a larger limit does not help, a quieter machine does", 100*others)
	case compiling >= compilingMuch:
		return text + fmt.Sprintf(". The JVM's compilers took up to %.0f %% of their processor time: a larger limit does not help, a longer --warmup does", 100*compiling)
	}
	if given, told := f.slowAsGiven(); told {
		return text + fmt.Sprintf(". So was the application as given at %d MiB, where its heap is smaller than with ample memory: it is collected more often, which may cost more than the collections take", given.LimitBytes/mib)
	}
	text += ". Neither other processes nor compilers took much: "
	if has, ample := mostHeap(f.Confirmations[0]), mostHeap(f.Baseline); f.Setup.heapBytes() == 0 && has > 0 && has < ample {
		// WildFly's answers took 159 to 234 µs with 120 to 140 MiB of heap, and 125 with 512,
		// where collections took no more than 6 % of the time.
		return text + fmt.Sprintf("the processors were slower than for the baseline, or a smaller heap costs more than its collections: it may become %d MiB here, and %d with ample memory. "+
			"Then a larger limit helps", has/mib, ample/mib)
	}
	return text + "the processors were slower than for the baseline, or the application waited for something else. A larger limit does not help"
}

// slowAsGiven is the smallest limit at which the application as given had memory enough, was too
// slow, and collected a smaller heap more often for an answer than with ample memory.
func (f *Found) slowAsGiven() (given Trial, told bool) {
	_, ample, known := pausesOf(f.Baseline)
	for _, t := range f.Trials {
		_, often, also := pausesOf(t)
		if t.Phase == PhaseAsGiven && t.SlowElsewhere && mostHeap(t) < mostHeap(f.Baseline) && known && also && often > ample*asOften && (!told || t.LimitBytes < given.LimitBytes) {
			given, told = t, true
		}
	}
	return given, told
}

// toldLimitCost is the share of the processor time that a limit takes which is worth a word.
const toldLimitCost = 0.02

// compilingMuch is the share of the processor time that compilers take from an application
// which has not warmed up.
const compilingMuch = 0.15
