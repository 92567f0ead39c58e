package fit

import (
	"fmt"
	"slices"
	"time"
)

// Processor time is blind to waiting. Levers that have threads wait for each other, or that
// make pauses longer, are judged by two more signals where more than one processor may be
// used: how much of the processors the application got to use, and answered with them, and how late answers were
// for its pauses. Both leave out what other processes took.

// laterAnswers is how many times as late as in the baseline one answer in a hundred may be.
const laterAnswers = 1.1

// answersLate says that a trial with such levers had threads wait, or answers be late for
// its pauses, by more than the objective leaves; or "".
func (s *Search) answersLate(t Trial) string {
	if s.Facts.Processors == 1 || s.Spare <= 0 || s.bar == nil {
		return ""
	}
	if used, served, known := s.compared(t, *s.bar); known && max(used, served) < 1-s.Spare && s.hasNew(t, func(l Lever) bool { return l.Waits || harmsLatency(l) }) {
		return fmt.Sprintf("threads waited: of what others left, the application used %.0f %% of the processor time that it did in the baseline, and answered %.0f %% of the requests", 100*used, 100*served)
	}
	if later, was, is, known := pausedLater(t, *s.bar); known && later && s.hasNew(t, harmsLatency) {
		return fmt.Sprintf("pauses made answers late: one in a hundred took %s, and %s in the baseline", is.Round(time.Millisecond), was.Round(time.Millisecond))
	}
	return ""
}

// tellsWaiting says that a trial tells whether threads waited.
func (s *Search) tellsWaiting(t Trial) bool {
	if s.bar == nil {
		return false
	}
	_, _, known := s.compared(t, *s.bar)
	return known
}

func harmsLatency(l Lever) bool { return slices.Contains(l.Harms, HarmLatency) }

// hasNew says that a trial has a lever of a kind that the best point has not.
func (s *Search) hasNew(t Trial, kind func(Lever) bool) bool {
	return slices.ContainsFunc(s.Levers, func(l Lever) bool { return kind(l) && l.isIn(t.Setup) && !l.isIn(s.best.setup) })
}

// compared is how much of the processors that others left an application used in one trial
// beside another, and how many requests it answered. Less of both is waiting: with less of
// the first alone its answers are cheaper, which leaves processors idle where a load waits
// for something else. A load at a rate asks for as much work as before, and tells nothing.
func (s *Search) compared(t, other Trial) (used, served float64, known bool) {
	busy, rate, known := s.ofWhatIsLeft(t)
	busyBefore, rateBefore, also := s.ofWhatIsLeft(other)
	if !known || !also {
		return 0, 0, false
	}
	return busy / busyBefore, rate / rateBefore, true
}

// ofWhatIsLeft is the share of the processors that others left which a closed loop had the
// application use, and its answers per second of that.
func (s *Search) ofWhatIsLeft(t Trial) (busy, rate float64, known bool) {
	r := t.Result
	if r == nil || r.Load == nil || r.Load.Elapsed <= 0 || r.Load.OK <= 0 || r.LoadCPUTime <= 0 || s.OpenLoop {
		return 0, 0, false
	}
	left := max(leastLeft, 1-r.Others) * float64(max(1, s.Facts.Processors))
	if s.Facts.CPUs > 0 {
		left = min(left, s.Facts.CPUs)
	}
	seconds := r.Load.Elapsed.Seconds() * left
	return min(1, r.LoadCPUTime.Seconds()/seconds), float64(r.Load.OK) / seconds, true
}

// leastLeft is the least share of the processors that is taken to be left by others.
const leastLeft = 0.05

// pausedLater says that one answer in a hundred took longer than in another trial, and that
// longer pauses made at least half of the difference: the rest is for other causes.
func pausedLater(t, than Trial) (later bool, was, is time.Duration, known bool) {
	long, _, known := pausesOf(t)
	short, _, also := pausesOf(than)
	if !known || !also {
		return false, 0, 0, false
	}
	is, measured := t.Result.Load.Latency.P99.Value()
	was, before := than.Result.Load.Latency.P99.Value()
	if !measured || !before {
		return false, 0, 0, false
	}
	later = is.Seconds() > laterAnswers*was.Seconds() && long-short >= (is-was).Seconds()/2
	return later, was, is, true
}
