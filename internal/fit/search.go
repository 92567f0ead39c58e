package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/internal/trial"
)

// Phase is a part of the search.
type Phase string

// The phases, in their order.
const (
	PhaseBaseline Phase = "baseline"
	PhaseAsGiven  Phase = "as given"
	PhaseTrain    Phase = "training"
	PhaseLever    Phase = "lever"
	PhaseRefine   Phase = "refine"
	PhaseConfirm  Phase = "confirm"
	PhaseHeap     Phase = "heap"
)

// Attempt is a trial to be made.
type Attempt struct {
	// Number counts all trials from 1.
	Number int
	Phase  Phase
	// Lever names the lever under test, where there is one.
	Lever      string
	Setup      Setup
	LimitBytes int64
	// Repeat is 1 or more when the same was tried before and narrowly
	// missed.
	Repeat int
	// Baseline is nil in the baseline's own trials.
	Baseline *trial.Measured
}

// Outcome is what the search has to know of a trial.
type Outcome struct {
	Passed  bool
	Verdict trial.Verdict
	// Narrow says that noise may have failed it.
	Narrow     bool
	Throughput float64
	Measured   trial.Measured
	// PeakBytes is the highest usage, NeededBytes the highest less page
	// cache, LiveBytes and HeapBytes as in trial.Result.
	PeakBytes, NeededBytes, LiveBytes, HeapBytes int64
	Took                                         time.Duration
	// UnpaidBytes is as in trial.Result.
	UnpaidBytes int64
	// Result is the whole trial; nil in simulations.
	Result *trial.Result
}

// Trier makes trials.
type Trier interface {
	// Try makes one trial. An error ends the search.
	Try(ctx context.Context, a Attempt) (Outcome, error)
	// Train runs the application with ample memory and option added, which
	// holds "{archive}", and returns the file that it made. An error of
	// ErrNoArchive drops the lever, any other ends the search.
	Train(ctx context.Context, s Setup, option string) (file string, err error)
}

// ErrNoArchive says that a training run made no archive.
var ErrNoArchive = errors.New("no class archive was made")

// Trial is an attempt and its outcome.
type Trial struct {
	Attempt
	Outcome
}

// LeverResult is what became of a lever.
type LeverResult struct {
	Lever Lever
	// Setup is what it added, Kept says whether it is in the
	// recommendation.
	Setup Setup
	Kept  bool
	// SavedBytes is how much smaller the smallest passing limit became.
	SavedBytes int64
	// Reason says why it is not kept.
	Reason string
}

// Event tells an observer what the search does.
type Event struct {
	Attempt Attempt
	// Outcome is nil before the trial, and set after it.
	Outcome *Outcome
	// Remaining is about how many trials are left, this one included; Left
	// is how long they take.
	Remaining int
	Left      time.Duration
	// Note is a message beside trials, such as that a lever was dropped.
	Note string
}

// Search looks for the smallest limit. It knows nothing of processes: the
// Trier does.
type Search struct {
	Trier  Trier
	Levers []Lever
	Facts  Facts
	// AmpleBytes is the limit of the baseline.
	AmpleBytes int64
	// Baselines is how many baselines are run, Confirmations how many fresh
	// runs must pass at the end.
	Baselines, Confirmations int
	// Prefer decides between memory and speed; empty is PreferMemory.
	Prefer Prefer
	// HeapCurve asks for trials with other heaps after the confirmations.
	HeapCurve bool
	// Observe is told of each step; nil is nobody.
	Observe func(Event)

	found    Found
	baseline *trial.Measured
	// pageCache is how much page cache the application had at the smallest
	// limit as given: it will want about as much with other options.
	pageCache int64
	// unpaid is the least UnpaidBytes of a trial: the C library's part.
	unpaid    int64
	remaining int
	took      time.Duration
}

// Found is what a search found.
type Found struct {
	// Baseline is the baseline trial of median throughput.
	Baseline Trial
	// AsGiven is the trial at the smallest passing limit with the options
	// as given.
	AsGiven Trial
	// LimitBytes and Setup are the recommendation.
	LimitBytes int64
	Setup      Setup
	Levers     []LeverResult
	// Trials are all trials in order, confirmations included.
	Trials []Trial
	// Confirmations are the fresh runs at LimitBytes.
	Confirmations []Trial
	// RaisedFrom is the limit that the search found, when confirming raised
	// it; else 0.
	RaisedFrom int64
	// FailBelow is the largest limit that failed with Setup and is smaller
	// than LimitBytes; nil when none was tried.
	FailBelow *Trial
}

// BaselineError says that the application fails with ample memory: there is
// nothing to search for.
type BaselineError struct{ Trial Trial }

// Error says what happened.
func (e *BaselineError) Error() string {
	return fmt.Sprintf("with ample memory (%d MiB) the application is %s", e.Trial.LimitBytes/mib, e.Trial.Verdict)
}

// UnconfirmedError says that no limit up to the ample one passed often enough.
type UnconfirmedError struct{ Last Trial }

// Error says what happened.
func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("no limit could be confirmed: at %d MiB a run was %s", e.Last.LimitBytes/mib, e.Last.Verdict)
}

const (
	// fine is the tolerance of limits that are reported, coarse that of
	// steps on the way.
	fine   = 0.02
	coarse = 0.04
	// minTolerance is the tolerance of small limits.
	minTolerance = 2 * mib
	// floorBytes is a limit that no JVM starts in.
	floorBytes = 8 * mib
	maxRepeats = 2
	maxSpread  = 0.15
	maxRaises  = 8
	raise      = 0.03
	// strayUnpaid is how many bytes more than the least of all trials may
	// be charged to others before chance is suspected: another JVM of the
	// same JDK, which may be gone when the next trial runs.
	strayUnpaid = 6 * mib
)

func tolerance(limit int64, share float64) int64 {
	return max(minTolerance, wholeMiB(int64(share*float64(limit))))
}

// wholeMiB rounds up.
func wholeMiB(n int64) int64 { return (n + mib - 1) / mib * mib }

// Run searches: baselines, the smallest limit as given, one lever after the
// other, and confirmations. What it found until an error is in Found as well.
func (s *Search) Run(ctx context.Context) (*Found, error) {
	s.remaining = s.Baselines + 7 + 4*len(s.Levers) + s.Confirmations
	if err := s.runBaselines(ctx); err != nil {
		return &s.found, err
	}
	given, err := s.asGiven(ctx)
	if err != nil {
		return &s.found, err
	}
	best := given
	s.found.AsGiven = best.at
	s.pageCache = max(0, best.limit()-best.at.NeededBytes)
	for i, l := range s.Levers {
		s.remaining = 4*(len(s.Levers)-i) + s.Confirmations
		if best, err = s.pull(ctx, l, best); err != nil {
			return &s.found, err
		}
	}
	s.remaining = 1 + s.Confirmations
	if best, err = s.descend(ctx, best, PhaseRefine, "", fine); err != nil {
		return &s.found, err
	}
	if err = s.confirm(ctx, best, given); err == nil && s.HeapCurve {
		err = s.sweepHeap(ctx)
	}
	return &s.found, err
}

// point is the smallest limit known to pass with a setup, and what is known
// below it.
type point struct {
	setup Setup
	at    Trial // passed
	// fails is the largest limit known to fail, 0 when none is.
	fails int64
}

func (p point) limit() int64 { return p.at.LimitBytes }

// try makes one trial, and again when chance had a hand in it: when it missed
// narrowly, or passed with pages that another process paid for.
func (s *Search) try(ctx context.Context, a Attempt) (Trial, error) {
	for repeat := a.Repeat; ; repeat++ {
		a.Repeat = repeat
		t, err := s.once(ctx, a)
		again := t.Narrow || t.Passed && t.UnpaidBytes > s.unpaid+strayUnpaid
		if err != nil || !again || repeat >= maxRepeats {
			return t, err
		}
	}
}

// tryLever is try; a lever that needs less memory than the best point and
// fails all the same, as happens by chance where reclaim is at work, gets one
// more try.
func (s *Search) tryLever(ctx context.Context, a Attempt, best point) (Trial, error) {
	t, err := s.try(ctx, a)
	saves := (t.Measured.Start > 0 || t.Measured.Time > 0) && t.NeededBytes+tolerance(best.limit(), fine) <= best.at.NeededBytes
	if err != nil || t.Passed || t.Repeat > 0 || !saves || t.Verdict != trial.Stalled && t.Verdict != trial.TooSlow {
		return t, err
	}
	a.Repeat = 1
	return s.try(ctx, a)
}

func (s *Search) once(ctx context.Context, a Attempt) (Trial, error) {
	a.Number = len(s.found.Trials) + 1
	a.Baseline = s.baseline
	s.observe(Event{Attempt: a})
	o, err := s.Trier.Try(ctx, a)
	if err != nil {
		return Trial{}, err
	}
	t := Trial{a, o}
	s.found.Trials = append(s.found.Trials, t)
	s.took += o.Took
	if o.UnpaidBytes > 0 && (s.unpaid == 0 || o.UnpaidBytes < s.unpaid) {
		s.unpaid = o.UnpaidBytes
	}
	s.remaining = max(s.remaining-1, 1)
	s.observe(Event{Attempt: a, Outcome: &o})
	return t, nil
}

func (s *Search) observe(e Event) {
	if s.Observe == nil {
		return
	}
	e.Remaining = s.remaining
	if n := len(s.found.Trials); n > 0 {
		e.Left = s.took / time.Duration(n) * time.Duration(s.remaining)
	}
	s.Observe(e)
}

func (s *Search) note(format string, a ...any) {
	s.observe(Event{Note: fmt.Sprintf(format, a...)})
}

// runBaselines runs the baselines and keeps the one of median throughput: the
// bar of a relative objective must not hang on one run's luck. Where they differ
// much, up to twice as many are run.
func (s *Search) runBaselines(ctx context.Context) error {
	var runs []Trial
	for len(runs) < s.Baselines || len(runs) < 2*s.Baselines && spread(runs) > maxSpread {
		t, err := s.once(ctx, Attempt{Phase: PhaseBaseline, LimitBytes: s.AmpleBytes})
		if err != nil {
			return err
		}
		if !t.Passed {
			return &BaselineError{t}
		}
		runs = append(runs, t)
	}
	s.found.Baseline = Median(runs)
	m := s.found.Baseline.Measured
	s.baseline = &m
	return nil
}

// Median is the trial of median speed, of an even number the upper one.
func Median(trials []Trial) Trial {
	if len(trials) == 0 {
		return Trial{}
	}
	sorted := slices.Clone(trials)
	slices.SortStableFunc(sorted, func(a, b Trial) int { return cmp.Compare(a.Speed(), b.Speed()) })
	return sorted[len(sorted)/2]
}

// spread is how much faster the fastest trial was than the slowest.
func spread(trials []Trial) float64 {
	if len(trials) < 2 {
		return 0
	}
	low, high := trials[0].Speed(), trials[0].Speed()
	for _, t := range trials {
		low, high = min(low, t.Speed()), max(high, t.Speed())
	}
	if low <= 0 {
		return 0
	}
	return high/low - 1
}

// asGiven finds the smallest limit with nothing added, starting from the peak
// of the baselines.
func (s *Search) asGiven(ctx context.Context) (point, error) {
	var peak int64
	for _, t := range s.found.Trials {
		peak = max(peak, t.PeakBytes)
	}
	p := point{at: s.found.Baseline}
	for limit := wholeMiB(peak); limit < s.AmpleBytes; limit = wholeMiB(limit + limit/4) {
		t, err := s.try(ctx, Attempt{Phase: PhaseAsGiven, LimitBytes: limit})
		if err != nil {
			return p, err
		}
		if t.Passed {
			p.at = t
			break
		}
		p.fails = limit
	}
	return s.descend(ctx, p, PhaseAsGiven, "", fine)
}

// descend lowers the limit of a point until the smallest passing and the
// largest failing limit are within tolerance: galloping down while nothing is
// known to fail, led by what the application was seen to need, then by
// halving.
func (s *Search) descend(ctx context.Context, p point, phase Phase, lever string, share float64) (point, error) {
	for step := tolerance(p.limit(), share); ; step *= 2 {
		hi, lo := p.limit(), max(p.fails, floorBytes)
		if hi-lo <= tolerance(hi, share) {
			return p, nil
		}
		next := (lo + hi) / 2 / mib * mib
		if p.fails == 0 {
			needed := wholeMiB(p.at.NeededBytes + max(p.at.NeededBytes/50, s.pageCache*3/4))
			next = min(hi-step, max(needed, hi*6/10/mib*mib))
			next = max(next, lo+mib)
		}
		t, err := s.try(ctx, Attempt{Phase: phase, Lever: lever, Setup: p.setup, LimitBytes: next})
		if err != nil {
			return p, err
		}
		if t.Passed {
			p.at = t
		} else {
			p.fails = next
		}
	}
}

// pull tries a lever on top of the best point: first just below its limit, for
// where that fails the lever does not help; then further down.
func (s *Search) pull(ctx context.Context, l Lever, best point) (point, error) {
	result := LeverResult{Lever: l}
	defer func() { s.found.Levers = append(s.found.Levers, result) }()
	open, ok, reason := l.open(s.Facts)
	if !ok {
		result.Reason = reason
		return best, nil
	}
	archive := ""
	if open.TrainOption != "" {
		var err error
		s.observe(Event{Attempt: Attempt{Number: len(s.found.Trials), Phase: PhaseTrain, Lever: l.Name, Setup: best.setup, LimitBytes: s.AmpleBytes}})
		archive, err = s.Trier.Train(ctx, best.setup, open.TrainOption)
		if errors.Is(err, ErrNoArchive) {
			result.Reason = err.Error()
			s.note("%s: %v", l.Name, err)
			return best, nil
		}
		if err != nil {
			return best, err
		}
	}
	below := best.limit() - tolerance(best.limit(), fine)
	if below <= floorBytes {
		result.Reason = "nothing is left to save"
		return best, nil
	}
	for _, v := range open.variants(s.live(best), archive) {
		if h := v.heapBytes(); h > 0 && best.setup.heapBytes() > 0 && h >= best.setup.heapBytes() {
			result.Reason = "the heap is as small already"
			continue
		}
		if c, taken := s.Facts.Given.Conflict(v.Options...); taken {
			result.Reason = "yours: " + c.By.String()
			continue
		}
		t, err := s.tryLever(ctx, Attempt{Phase: PhaseLever, Lever: l.Name, Setup: best.setup.with(v.Options, v.Env), LimitBytes: below}, best)
		if err != nil {
			return best, err
		}
		if !t.Passed {
			result.Reason = fmt.Sprintf("%s at %d MiB", t.Verdict, below/mib)
			if t.Verdict == trial.OOMKilled || t.Verdict == trial.Stalled {
				break // a larger heap would not help
			}
			continue
		}
		got, err := s.descend(ctx, point{setup: t.Setup, at: t}, PhaseLever, l.Name, coarse)
		if err != nil {
			return best, err
		}
		if ok, reason := s.worth(best, got); !ok {
			result.Reason = reason
			continue
		}
		result.Kept, result.Setup, result.Reason = true, v, ""
		result.SavedBytes = best.limit() - got.limit()
		return got, nil
	}
	s.note("%s: dropped, %s", l.Name, result.Reason)
	return best, nil
}

// live is the live set as it was seen last in a trial that tells: in the
// smallest heap, which was collected most.
func (s *Search) live(p point) int64 {
	for _, t := range []Trial{p.at, s.found.AsGiven, s.found.Baseline} {
		if t.LiveBytes > 0 {
			return t.LiveBytes
		}
	}
	return p.at.HeapBytes
}

// confirm makes fresh runs at the limit found, and raises it until all of them
// pass. Where that takes it to the limit as given, chance had a hand in one of
// the two: the options as given are then put to the same test, and are the
// recommendation unless less is confirmed with more.
func (s *Search) confirm(ctx context.Context, best, given point) error {
	if best.setup.empty() {
		c, err := s.settle(ctx, best.setup, best.limit(), s.AmpleBytes+1)
		return s.recommend(best.setup, best.limit(), c, err)
	}
	c, err := s.settle(ctx, best.setup, best.limit(), given.limit())
	if err != nil || c.passed() {
		return s.recommend(best.setup, best.limit(), c, err)
	}
	s.note("from %d MiB on nothing is saved: the options as given are put to the same test", given.limit()/mib)
	g, err := s.settle(ctx, given.setup, given.limit(), s.AmpleBytes+1)
	if err != nil || !g.passed() {
		return s.recommend(given.setup, given.limit(), g, err)
	}
	s.found.AsGiven = g.last()
	if c, err = s.settle(ctx, best.setup, c.limit, g.limit); err != nil || c.passed() {
		return s.recommend(best.setup, best.limit(), c, err)
	}
	s.dropLevers("with all that is kept, fresh runs needed no less than as given")
	return s.recommend(given.setup, given.limit(), g, nil)
}

// recommend makes what was confirmed the result of a search that ended at a
// limit.
func (s *Search) recommend(setup Setup, searched int64, c confirmation, err error) error {
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
	if c.limit > searched {
		s.found.RaisedFrom = searched
	}
	s.found.FailBelow = s.failBelow(setup, c.limit)
	return nil
}

// confirmation is the fresh runs that were made last, and the limit that they
// confirm; where the last of them failed, the limit to try next.
type confirmation struct {
	limit int64
	runs  []Trial
}

func (c confirmation) passed() bool { return len(c.runs) > 0 && c.last().Passed }

func (c confirmation) last() Trial {
	if len(c.runs) == 0 {
		return Trial{}
	}
	return c.runs[len(c.runs)-1]
}

// settle raises a limit until fresh runs confirm it, but not to the limit
// below or more, nor too often.
func (s *Search) settle(ctx context.Context, setup Setup, limit, below int64) (confirmation, error) {
	c := confirmation{limit: limit}
	for raises := 0; raises <= maxRaises && c.limit < below; raises++ {
		s.remaining = s.Confirmations
		var err error
		if c.runs, err = s.confirmAt(ctx, setup, c.limit); err != nil || c.passed() || c.limit >= s.AmpleBytes {
			return c, err
		}
		s.note("a confirming run at %d MiB was %s: the limit is raised", c.limit/mib, c.last().Verdict)
		step := max(minTolerance, wholeMiB(int64(raise*float64(c.limit))))
		c.limit = min(s.AmpleBytes, c.limit+step<<max(0, raises-1)) // the third and later raises are larger
	}
	return c, nil
}

// dropLevers says of every lever that was kept why it is not.
func (s *Search) dropLevers(reason string) {
	for i := range s.found.Levers {
		if l := &s.found.Levers[i]; l.Kept {
			l.Kept, l.Reason = false, reason
		}
	}
}

// confirmAt runs until one fails or enough passed; the last one tells which.
func (s *Search) confirmAt(ctx context.Context, setup Setup, limit int64) ([]Trial, error) {
	var runs []Trial
	for range s.Confirmations {
		t, err := s.try(ctx, Attempt{Phase: PhaseConfirm, Setup: setup, LimitBytes: limit})
		if err != nil {
			return nil, err
		}
		runs = append(runs, t)
		if !t.Passed {
			break
		}
	}
	return runs, nil
}

// failBelow is the nearest failure below the limit with the same setup.
func (s *Search) failBelow(setup Setup, limit int64) *Trial {
	var nearest *Trial
	for i := range s.found.Trials {
		t := &s.found.Trials[i]
		if t.Passed || t.LimitBytes >= limit || !t.Setup.same(setup) {
			continue
		}
		if nearest == nil || t.LimitBytes > nearest.LimitBytes {
			nearest = t
		}
	}
	return nearest
}
