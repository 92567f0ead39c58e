package fit

import (
	"cmp"
	"context"
	"math"
	"slices"

	"tare.dev/tare/internal/trial"
)

const (
	// coarse is the tolerance of limits that are only compared with.
	coarse = 0.05
	// floorBytes is a limit that no JVM starts in.
	floorBytes = 8 * mib
	// reserve is how many trials are kept for finding the limit at the end.
	reserve = 3
	// sureToFail is the share of what a trial needed without any page cache
	// below which a limit need not be tried: the rest is for what chance and
	// the trial's samples leave open.
	sureToFail = 0.96
)

// fine is the tolerance of limits that are recommended.
func (s *Search) fine() float64 { return cmp.Or(s.Tolerance, DefaultTolerance) }

// LimitStep is what limits that are tried are multiples of.
const LimitStep = mib

// tolerance is a share of a limit, in whole steps.
func tolerance(limit int64, share float64) int64 {
	return max(LimitStep, int64(share*float64(limit))/LimitStep*LimitStep)
}

// wholeMiB rounds up.
func wholeMiB(n int64) int64 { return (n + mib - 1) / mib * mib }

// need is what a trial needed at its worst moment, and the page cache that it
// could not do without as far as that is known.
func (t Trial) need() int64 { return t.NeededBytes + t.CacheBytes }

// pageCache is the page cache that a trial had.
func pageCache(t Trial) int64 { return max(0, t.PeakBytes-t.NeededBytes) }

// predict is the smallest limit that a trial's setup is expected to pass with:
// all that cannot be dropped, and the page cache that the application cannot do
// without.
func (s *Search) predict(t Trial) int64 {
	return min(t.LimitBytes, wholeMiB(t.NeededBytes+s.cacheNeed(t)))
}

// limitOf is predict, by which options are compared. Where the heap follows the limit, and one
// as given was too small, it is no less than the smallest limit as given: with less the heap is
// too small again.
func (s *Search) limitOf(t Trial) int64 {
	n := s.predict(t)
	if !s.fixesHeap(t.Setup) && s.lackedHeap() {
		n = min(t.LimitBytes, max(n, s.given.limit()))
	}
	return n
}

// lackedHeap says that below the smallest limit as given the heap was too small: for collections,
// or for the application to live. One that ends by itself with memory to spare has lacked nothing
// else that a limit decides: Kafka's log cleaner takes an array of 128 MiB when it starts.
func (s *Search) lackedHeap() bool {
	return slices.ContainsFunc(s.found.Trials, func(t Trial) bool {
		ended := t.Verdict == trial.Crashed && float64(t.PeakBytes) < memoryToSpare*float64(t.LimitBytes)
		return t.Phase == PhaseAsGiven && t.LimitBytes < s.given.limit() && (ended || s.heapTooSmall(t))
	})
}

// memoryToSpare is the share of its limit below which a trial's peak left memory to spare.
const memoryToSpare = 0.9

// cacheNeed is the page cache that an application cannot do without: what a
// squeeze left, and room for what is read at once when it starts anew. Without a
// squeeze it is what an earlier search found, or as large a share as that of the
// trials as given.
func (s *Search) cacheNeed(t Trial) int64 {
	switch {
	case t.CacheBytes > 0:
		return min(pageCache(t), t.CacheBytes+s.Facts.ReadAheadBytes)
	case s.CacheBytes > 0:
		return min(pageCache(t), s.CacheBytes)
	}
	return int64(s.cacheShare * float64(pageCache(t)))
}

// narrowing says how far to bring passing and failing limits together.
type narrowing struct {
	phase Phase
	share float64 // the tolerance
	// guess is the limit to try first; near says that an earlier search found it:
	// the first step away from it is a small one.
	guess int64
	near  bool
	// anew is the guess by the last trial as given, which may know better what lives, and how far
	// the heap grows, than the baseline; 0 is none.
	anew int64
	// needs says that what the setup needs does not go by the limit, so that
	// less than that need not be tried, and with all its page cache it passes.
	needs bool
	// mayWait is MayWait where waiting for memory tells how near a limit is, else 0.
	mayWait float64
	// made are the trials so far.
	made []Trial
}

// narrow brings the smallest limit that passes and the largest that fails
// together, until they are within tolerance or trials run out.
func (s *Search) narrow(ctx context.Context, p point, g narrowing, most int) (point, error) {
	defer s.forget(g.phase)
	for left := min(most, s.room()); left > 0; left = min(left-1, s.room()) {
		next, ok := g.next(p, left)
		if !ok {
			break
		}
		a := Attempt{Phase: g.phase, Setup: p.setup, LimitBytes: next}
		within := tolerance(next, g.share)
		if a = s.planned(a, max(p.fails+1, next-within), min(p.limit()-1, next+within)); !slices.ContainsFunc(s.plan, a.alike) {
			s.forget(g.phase)
			s.ahead(ctx, g.likely(p, a, left, len(s.nodes()))...)
		}
		t, err := s.try(ctx, a)
		if err != nil {
			return p, err
		}
		if g.made = append(g.made, t); t.hasRoom() {
			p.at = t
			if t.CacheBytes > 0 {
				g.guess = s.predict(t)
			}
			if g.phase == PhaseAsGiven && !g.needs && t.Verdict == trial.Passed { // a slow one may have been ended before it was at its largest
				g.anew = s.guessAsGiven(t)
			}
		} else {
			p.fails = next
			if g.phase == PhaseAsGiven && !g.needs && (t.Verdict == trial.Stalled || t.Verdict == trial.OOMKilled) {
				g.anew = s.guessAsGiven(t)
			}
		}
	}
	return p, nil
}

// likely are an attempt and those that would come after it if each went as is likely: that
// as given has room, and one at the mean of what runs need has not.
func (g narrowing) likely(p point, a Attempt, left, most int) []Attempt {
	attempts := []Attempt{a}
	for left--; left > 0 && len(attempts) < most; left-- {
		t := p.at
		t.LimitBytes, t.Phase = a.LimitBytes, a.Phase
		if g.phase == PhaseAsGiven {
			t.CacheBytes, p.at = 0, t
		} else {
			t.Pressed, p.fails = true, a.LimitBytes
		}
		g.made = append(slices.Clone(g.made), t)
		next, ok := g.next(p, left)
		if !ok {
			break
		}
		a.LimitBytes = next
		attempts = append(attempts, a)
	}
	return attempts
}

// next is the limit to try after the trials so far, with so many left: the guess,
// then away from it until one limit passed and one failed, then half way between
// them; where those that failed were just too slow, as far as their speed tells.
// The second result is false when there is nothing left to try.
func (g narrowing) next(p point, left int) (int64, bool) {
	high, low := g.high(p), g.low(p)
	within := tolerance(high, g.share)
	if high-low <= within { // perhaps foreseen to pass, and not tried yet
		return high, high < p.limit()
	}
	middle := max(low+mib, (low+high)/2/mib*mib)
	if len(g.made) == 0 {
		if g.guess > low && g.guess < high {
			return g.guess, true
		}
		return middle, true
	}
	last := g.made[len(g.made)-1]
	pressed, told := g.byPressure(last)
	step := 2 * tolerance(last.LimitBytes, g.share) // two that are nearer tell little of a line
	switch {
	case told && last.hasRoom() && p.fails == 0:
		return max(low+mib, min(pressed, last.LimitBytes-step)), true
	case told && !last.hasRoom() && p.at.Phase != g.phase:
		return min(max(pressed, last.LimitBytes+step), high-mib), true
	case last.hasRoom() && p.fails == 0:
		return max(low+mib, last.LimitBytes-g.stepDown(p, last, left)), true
	case !last.hasRoom() && p.at.Phase != g.phase:
		return min(last.LimitBytes+g.stepUp(p, last, left), high-mib), true
	case !last.hasRoom():
		if fast := g.fastEnough(p); fast > 0 {
			return min(max(fast, low+within), high-within), true
		}
	}
	return middle, true
}

// byPressure is the limit at which waiting for memory is foreseen to take as much as it may,
// by what it took in a trial near that; told is false where the trial does not tell.
func (g narrowing) byPressure(t Trial) (limit int64, told bool) {
	if g.mayWait <= 0 || !t.tellsPressure() {
		return 0, false
	}
	return wholeMiB(int64(float64(t.LimitBytes) * math.Pow(t.Result.ReclaimShare/(pressedPart*g.mayWait), usualSlope))), true
}

// step is how far to go away from the last trial: farther with each, and as fewer
// are left.
func (g narrowing) step(p point, last Trial, left int) int64 {
	if g.near && len(g.made) == 1 {
		return tolerance(last.LimitBytes, g.share)
	}
	away := max(g.guess-last.LimitBytes, last.LimitBytes-g.guess)
	return max(2*tolerance(last.LimitBytes, g.share), last.LimitBytes/20/mib*mib, (g.enough(p)-g.low(p))>>left/mib*mib, 2*away)
}

// enough is a limit at which memory is enough, but which may leave too small a
// heap: the highest usage.
func (g narrowing) enough(p point) int64 { return min(g.high(p), wholeMiB(p.at.PeakBytes)) }

// stepDown is how far to go below the last trial, which passed.
func (g narrowing) stepDown(p point, last Trial, left int) int64 {
	if last.CacheBytes > 0 { // the guess is by this trial
		return max(2*tolerance(last.LimitBytes, g.share), last.LimitBytes-g.guess)
	}
	step := g.step(p, last, left)
	if g.anew > 0 {
		step = max(step, last.LimitBytes-g.anew)
	}
	return step
}

// stepUp is how far to go above the last trial, which failed.
func (g narrowing) stepUp(p point, last Trial, left int) int64 {
	step := g.step(p, last, left)
	switch {
	case !g.needs && !ofMemory(last.Verdict): // the heap, which goes by the limit, was too small
		step = g.low(p)
	case g.needs && p.at.CacheBytes == 0: // no squeeze told of the page cache: the guess was a bad one
		step = max(step, (g.enough(p)-last.LimitBytes)/2/mib*mib)
	}
	if fast := g.fastEnough(p); fast > 0 {
		step = max(tolerance(g.high(p), g.share), min(fast-last.LimitBytes, max(step, wholeMiB(last.LimitBytes/farthest))))
	}
	return max(step, g.anew-last.LimitBytes)
}

// farthest is the part of a limit that is gone up at once where speed tells that
// it was far too small: what was nearly at a standstill tells little more.
const farthest = 12

// fastEnough is the limit at which an application is about as fast as it is asked
// to be, where it was too slow at the largest limit that failed; 0 where nothing
// tells. Where page cache lacks, the speed rises steeply from where there is
// none, and ever less up to that without a limit: the line to one that was fast
// enough meets the speed that is asked for above the limit that is looked for, and
// one through two that were too slow below it.
func (g narrowing) fastEnough(p point) int64 {
	var slow Trial
	below := Trial{Attempt: Attempt{LimitBytes: p.at.NeededBytes}} // at a standstill
	for _, t := range g.made {
		switch {
		case t.hasRoom():
		case t.LimitBytes == p.fails:
			slow = t
		case t.AskedSpeed > 0 && t.LimitBytes > below.LimitBytes:
			below = t
		}
	}
	if slow.AskedSpeed <= 0 {
		return 0
	}
	limit := float64(p.limit())
	for _, other := range []Trial{below, p.at} {
		rise := (other.Speed() - slow.Speed()) / float64(other.LimitBytes-slow.LimitBytes)
		if rise > 0 && other.LimitBytes != slow.LimitBytes {
			limit = min(limit, float64(slow.LimitBytes)+(slow.AskedSpeed-slow.Speed())/rise)
		}
	}
	return wholeMiB(int64(limit) + tolerance(int64(limit), g.share)/2)
}

// ofMemory says that a limit, and not the heap, failed a trial.
func ofMemory(v trial.Verdict) bool {
	return v == trial.OOMKilled || v == trial.Stalled || v == trial.NeverReady || v == trial.Crashed
}

// high is the smallest limit that passed or, where a trial had more than it
// could use, is foreseen to pass.
func (g narrowing) high(p point) int64 {
	high := p.limit()
	if all := wholeMiB(p.at.PeakBytes + p.at.PeakBytes/100); g.needs && all < high && all > p.fails+mib {
		return all
	}
	return high
}

// low is the largest limit that need not be tried.
func (g narrowing) low(p point) int64 {
	need := p.at.NeededBytes
	if !g.needs { // a smaller limit makes the heap smaller, but hardly by half
		need -= ledgerOf(p.at, 0).heap() / 2
	}
	sure := int64(sureToFail*float64(need)) / mib * mib
	return max(p.fails, floorBytes, min(p.limit()-mib, sure))
}

// findLimit finds what is needed with all levers that were kept: where a trial told of the
// page cache, from what they needed with room, else from what is foreseen.
func (s *Search) findLimit(ctx context.Context) error {
	s.expect(reserve)
	g := narrowing{phase: PhaseRefine, share: s.fine(), guess: s.predict(s.best.at), needs: s.fixesHeap(s.best.setup)}
	if n, known := s.needOf(s.best.setup); known && s.byNeed(s.best.setup) {
		g.share, g.guess, g.mayWait = max(g.share, needTolerance), s.bounded(n.MeanBytes-n.UntouchedBytes), MayWait(s.Spare)
		if s.wantsLong(s.best.setup, 0) {
			s.ahead(ctx, Attempt{Phase: PhaseLong, Setup: s.best.setup, LimitBytes: s.bounded(n.BoundBytes)})
		}
	}
	var err error
	s.best, err = s.narrow(ctx, s.best, g, s.room())
	return err
}

// byNeed says that the limit of a setup is the bound of what it needs: its heap does not follow
// the limit, and it is not that as given, for which a limit that passed is enough to compare with
// unless its heap may become larger than it was.
func (s *Search) byNeed(setup Setup) bool {
	return s.fixesHeap(setup) && (!setup.empty() || s.ownHeap() > 0)
}

// needTolerance is how near the limits that had enough and lacked memory are brought
// together where the limit is a bound of the need: what runs differ by comes on top.
const needTolerance = 0.03

// bounded is a limit in whole MiB that can be tried.
func (s *Search) bounded(limit int64) int64 {
	return min(s.AmpleBytes, max(floorBytes, wholeMiB(limit)))
}
