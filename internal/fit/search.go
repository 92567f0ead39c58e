package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tare.dev/tare/internal/trial"
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
	// PhaseLong is a run of many times the load, PhaseHalf one with half the
	// processors and half the load.
	PhaseLong Phase = "long"
	PhaseHalf Phase = "half the processors"
	// PhaseBelow is the run that shows what failure looks like.
	PhaseBelow    Phase = "below"
	PhaseAblation Phase = "ablation"
	PhaseHeap     Phase = "heap"
	// PhaseControl is a run of options that were tried at a limit, beside that and with room.
	PhaseControl Phase = "with room"
)

// Attempt is a trial to be made.
type Attempt struct {
	// Number counts all trials from 1.
	Number int
	Phase  Phase
	// Lever names the levers under test, where there are any.
	Lever      string
	Setup      Setup
	LimitBytes int64
	// Repeat is 1 or more when the same was tried before and narrowly
	// missed.
	Repeat int
	// Baseline is nil in the baseline's own trials.
	Baseline *trial.Measured
	// Work is what the load of the first baseline did, which all later trials do as
	// well; zero in that one, and where the load does not count it.
	Work trial.Work `json:",omitzero"`
	// Squeeze asks for Outcome.CacheBytes.
	Squeeze bool
	// ByVariable says that the options of the setup go by JAVA_TOOL_OPTIONS.
	ByVariable bool `json:",omitempty"`
	// ByTime asks for trial.SLO.ByTime.
	ByTime bool `json:",omitempty"`
	// On is the node that it has to be made on, as long as that is there; empty is any.
	// ByNode are the baselines that stand in for Baseline on a node. Ahead is above 0 where
	// the trial may be made before its Number is known, and stands for it.
	On     string                     `json:",omitempty"`
	ByNode map[string]*trial.Measured `json:"-"`
	Ahead  int                        `json:"-"`
}

// Outcome is what the search has to know of a trial.
type Outcome struct {
	Passed  bool
	Verdict trial.Verdict
	// Narrow says that noise may have failed it.
	Narrow     bool
	Throughput float64
	Judged
	// Missed are the clauses that a trial which was too slow does not meet.
	Missed []trial.Clause `json:",omitempty"`
	// AskedSpeed is the speed that the objective asks for, where a trial missed
	// that (by throughput, cost or time) and nothing else; else 0. AskedShare is the same as a share of the
	// baseline's; 0 also where the objective is absolute.
	AskedSpeed, AskedShare float64
	Measured               trial.Measured
	// PeakBytes is the highest usage, NeededBytes the highest less page
	// cache, LiveBytes and HeapBytes as in trial.Result.
	PeakBytes, NeededBytes, LiveBytes, HeapBytes int64
	Took                                         time.Duration
	// UnpaidBytes and CacheBytes are as in trial.Result.
	UnpaidBytes, CacheBytes int64
	// ArchiveUnused says that the JVM was seen not to have mapped the class archive that its
	// options name.
	ArchiveUnused bool `json:",omitempty"`
	// Node is where it was made, where there were several (Planner).
	Node string `json:",omitempty"`
	// Result is the whole trial; nil in some simulations.
	Result *trial.Result
}

// Judged is what the search concludes of a trial from those beside it.
type Judged struct {
	// SlowElsewhere says that the trial was too slow, and that memory was not the
	// reason: it tells nothing against the limit (slowElsewhere).
	SlowElsewhere bool `json:",omitempty"`
	// Pressed says that waiting for memory took so much of a trial that looks for a limit
	// or proves it that a smaller limit is of no use, even where it passed.
	Pressed bool `json:",omitempty"`
	// LimitCost is the share of its processor time that a trial which looks for a limit or
	// proves it is sure to owe to that, beside trials of the same options with room.
	LimitCost float64 `json:",omitempty"`
}

// Trier makes trials.
type Trier interface {
	// Try makes one trial. An error ends the search.
	Try(ctx context.Context, a Attempt) (Outcome, error)
	// Train runs the application with an attempt's setup and memory and option added, which
	// holds "{archive}", and returns the file that it made. An error of
	// ErrNoArchive drops the lever, any other ends the search.
	Train(ctx context.Context, a Attempt, option string) (file string, err error)
}

// Extractor is a Trier that can take the application's jar apart.
type Extractor interface {
	// Extract unpacks the jars inside the application's jar and returns the
	// jar that starts the same application from them. An error of
	// ErrNotExtracted drops the lever, any other ends the search.
	Extract(ctx context.Context) (jar string, err error)
}

// Errors that drop a lever.
var (
	// ErrNoArchive says that a training run made no archive.
	ErrNoArchive = errors.New("no class archive was made")
	// ErrNotExtracted says that the application's jar cannot be taken apart.
	ErrNotExtracted = errors.New("the jars inside were not extracted")
)

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
	// BoundBytes is the most that it could save by the footprint's rows when
	// it was looked at; nil where nothing told.
	BoundBytes *int64
	// SavedBytes is how much less was needed with all levers that were tried
	// in the same trial, which is Trial; Before is the trial without them. 0
	// where it was not tried.
	SavedBytes    int64
	Before, Trial int
	// RelativeCost is with them over without.
	RelativeCost
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

// Defaults of a Search.
const (
	// DefaultTrials is how many trials a search makes before it confirms,
	// and DefaultBaselines how many of them are baselines.
	DefaultTrials        = 12
	DefaultBaselines     = 2
	DefaultConfirmations = 5
	// DefaultWarmBlocks bounds a warm-up that goes on until the application has warmed up: a
	// Spring Boot service with one slow processor still compiled for 17 % of its time after 8.
	DefaultWarmBlocks = 16
	// DefaultTolerance is a share of the limit.
	DefaultTolerance = 0.02
	// MarginByBound takes the limit from the bound of what is needed (Need).
	MarginByBound = -1
)

// Search looks for the smallest limit. It knows nothing of processes: the
// Trier does.
type Search struct {
	Trier  Trier
	Levers []Lever
	Facts  Facts
	// AmpleBytes is the limit of the baseline, MostAmpleBytes what it may become where a script
	// has sized a heap that needs more; 0 has it stay.
	AmpleBytes, MostAmpleBytes int64
	// GuessBytes is where a search without levers begins, such as what an
	// earlier one found; 0 is where the baseline points.
	GuessBytes int64
	// CacheBytes is the page cache that the application could not do without,
	// where an earlier search with other options told; 0 is unknown.
	CacheBytes int64
	// Baselines is how many baselines are run, Confirmations how many fresh
	// runs must pass at the end.
	Baselines, Confirmations int
	// MaxTrials bounds the trials before confirmations, baselines included;
	// 0 is DefaultTrials. Budget bounds the time of all trials; the search leaves
	// what the confirmations need. 0 is no bound.
	MaxTrials int
	Budget    time.Duration
	// Tolerance is how near the smallest passing and the largest failing limit
	// are brought together, as a share; 0 is DefaultTolerance.
	Tolerance float64
	// Margin is added to what is needed on the average, as a share of it; below 0
	// the limit is the bound of what is needed.
	Margin float64
	// FullHeap says that a heap which the user has sized counts as full. Without it the
	// smallest limit is that of the load that is put, however little of the heap it touches.
	FullHeap bool
	// Stress asks for a long run and one with half the processors in the proof. Job
	// says that there is no load to be longer, OpenLoop that it goes by a rate.
	Stress, Job, OpenLoop bool
	// Spare is the share of its speed that the objective leaves the application to lose,
	// with ample memory as the measure; 0 where it does not look at that.
	Spare float64
	// ByWork says that the objective looks at what the work costs, and at no rate.
	ByWork bool
	// Prefer picks between memory and speed; empty is PreferMemory.
	Prefer Prefer
	// ShowFailure asks for a run below the recommendation; Ablation for runs
	// without each of the levers that were kept, in an order drawn by Seed;
	// HeapCurve for trials with other heaps. All after the confirmations.
	ShowFailure, Ablation, HeapCurve bool
	Seed                             uint64
	// Observe is told of each step; nil is nobody.
	Observe func(Event)

	found Found
	// bar is the baseline that trials are measured against; nil until there is one. Bars
	// are those of each node, where there are several.
	bar  *Trial
	bars map[string]*trial.Measured
	// plan are the trials that were said ahead and not asked for.
	plan []Attempt
	// work is what the first baseline's load did.
	work trial.Work
	// unsteady says that the baselines differed.
	unsteady bool
	// given is the application as given, best the one that is preferred of those that are
	// carried.
	given, best point
	carried     []point
	// pulled are the levers of all points that ever were carried, dropped those that are of
	// none or were left out of the best point when they were tried.
	pulled, dropped []LeverResult
	// coming are the levers to be tried together after those that are being
	// pulled.
	coming [][]Lever
	// cacheShare is the share of its page cache that the application could
	// not do without, as given.
	cacheShare float64
	// unpaid is the least UnpaidBytes of a trial: the C library's part.
	unpaid int64
	// lent says that trials go on passing with pages that others paid for:
	// trying again is of no use.
	lent      bool
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
	// AsGivenFails is the largest limit that failed as given, 0 without one.
	AsGivenFails int64
	// OwnHeap says what a heap that the user has sized costs; "" is nothing to say.
	OwnHeap string
	// OtherJVM says that the JVM is not the command's own, or takes no options; "" is nothing to
	// say.
	OtherJVM string
	// ByVariable says that a java command has its options by JAVA_TOOL_OPTIONS, for the JVM that
	// it starts.
	ByVariable bool
	// LimitBytes and Setup are the recommendation.
	LimitBytes int64
	Setup      Setup
	// MarginBytes is the part of LimitBytes that was added to what is needed on the
	// average, or to the smallest limit that passed where that is not known.
	MarginBytes int64
	// CostDeviation is the standard deviation of the logarithm of what the same work cost
	// with the same options, by CostFreedom degrees of freedom, those assumed included; 0
	// where costs were not compared.
	CostDeviation, CostFreedom float64
	// AtLimit is the cost of the runs that prove LimitBytes over that of trials with the same
	// options and room, and ProofCost that over the baseline.
	AtLimit, ProofCost RelativeCost
	// Need is what the recommendation needs; nil where its heap follows the limit.
	Need *Need
	// Long is the run of many times the load at LimitBytes or less, Half that with half
	// the processors; nil where none was made.
	Long, Half *Trial
	Levers     []LeverResult
	// Frontier is the options that the search picked from, the least memory last.
	Frontier []FrontierPoint
	// Trials are all trials in order, confirmations included.
	Trials []Trial
	// Confirmations are the fresh runs at LimitBytes.
	Confirmations []Trial
	// RaisedFrom is the first limit at which a confirming run failed, so that
	// it was raised; 0 when none did.
	RaisedFrom int64
	// FailBelow is the largest limit that failed with Setup, or was Pressed, and is smaller
	// than LimitBytes; nil when none was tried.
	FailBelow *Trial
}

// UnconfirmedError says that no limit up to the ample one passed often enough.
type UnconfirmedError struct{ Last Trial }

// Error says what happened.
func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("no limit could be confirmed: at %d MiB a run was %s", e.Last.LimitBytes/mib, e.Last.Verdict)
}

// BudgetError says that the time was used up before enough fresh runs had passed.
type BudgetError struct {
	Budget     time.Duration
	LimitBytes int64 // the limit under proof
	Passed, Of int
}

// Error says how far the proof came, and the next step.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget of %s is used up: at %d MiB %d of %d fresh runs had passed: give more time with --budget, or fewer --trials",
		e.Budget, e.LimitBytes/mib, e.Passed, e.Of)
}

const (
	maxRepeats = 1
	// strayUnpaid is how many bytes more than in other trials may be charged to
	// others before chance is suspected: another JVM of the same JDK, which may be
	// gone when the next trial runs.
	strayUnpaid = 6 * mib
)

// Run searches. What it found until an error is in Found as well.
func (s *Search) Run(ctx context.Context) (*Found, error) {
	for _, step := range []func(context.Context) error{
		s.runBaselines,
		s.findAsGiven,
		s.pullLevers,
		s.tightenDirect,
		s.tightenHeap,
		s.choose,
		s.findLimit,
		s.narrowAsGiven,
		s.confirm,
		s.showFailure,
		s.ablate,
		s.sweepHeap,
		s.priceLevers,
		s.priceLimit,
		s.placeAsGiven,
	} {
		if err := step(ctx); err != nil {
			return &s.found, err
		}
	}
	return &s.found, nil
}

// point is the smallest limit known to pass with a setup, and what is known
// below it.
type point struct {
	setup Setup
	at    Trial // passed
	// fails is the largest limit known to fail, 0 when none is.
	fails int64
	// levers are those that make the setup. unforeseen says that nothing foresaw that those
	// which were tried with it save memory.
	levers     []LeverResult
	unforeseen bool
}

func (p point) limit() int64 { return p.at.LimitBytes }

// room is how many trials may still be made before the confirmations.
func (s *Search) room() int {
	most := s.MaxTrials
	if most == 0 {
		most = DefaultTrials
	}
	most += max(0, len(s.nodes())-2) // each has a baseline
	made := len(s.found.Trials)
	left := most - made
	if s.Budget > 0 && made > 0 {
		each := max(1, s.took/time.Duration(made))
		left = min(left, int((s.Budget-s.took)/each)-s.Confirmations)
	}
	return max(0, left)
}

// spent says that no other trial fits into the budget.
func (s *Search) spent() bool {
	made := time.Duration(len(s.found.Trials))
	return s.Budget > 0 && made > 0 && s.took+s.took/made > s.Budget
}

// try makes one trial; where it was too slow once more, if it does not tell what its
// levers cost, or with a baseline beside it, if the machine may have slowed.
func (s *Search) try(ctx context.Context, a Attempt) (Trial, error) {
	t, err := s.withoutChance(ctx, a)
	if err != nil {
		return t, err
	}
	return s.sure(ctx, t)
}

// sure is a trial or, where that was too slow and does not tell why, another one beside it.
func (s *Search) sure(ctx context.Context, t Trial) (Trial, error) {
	switch untold := s.costUntold(t); {
	case untold && s.baselineTells(t):
		s.note("whether the levers or the machine made it slow is not known yet: a baseline beside it tells")
		_, err := s.baselineAfter(ctx, t)
		return t, err
	case untold:
		s.note("whether the levers made it slow is not known yet: it is tried once more")
		again := t.Attempt
		again.Repeat = 1
		return s.once(ctx, again)
	case s.doubts(t):
		return s.besideBaseline(ctx, t)
	}
	return t, nil
}

// withoutChance makes one trial, and again when chance had a hand in it: when it
// missed narrowly, or passed with pages that another process paid for. One that was
// just slower than a share of the baseline is not made again: trials are few, and a
// limit that is a little too large passes there.
func (s *Search) withoutChance(ctx context.Context, a Attempt) (Trial, error) {
	for repeat := 0; ; repeat++ {
		a.Repeat = repeat
		t, err := s.once(ctx, a)
		// At the limit as given, where levers are tried, memory is not the bottleneck.
		stray := a.Phase != PhaseLever && s.stray(t)
		again := t.Narrow && t.AskedShare == 0 && !(findsLimit(a.Phase) && t.enough()) || stray && !s.lent
		s.lent = s.lent || stray && repeat > 0
		if err != nil || !again || repeat >= maxRepeats || s.room() == 0 {
			return t, err
		}
	}
}

// stray says that a trial passed with pages that another process may have paid for
// by chance.
func (s *Search) stray(t Trial) bool {
	return t.Passed && t.UnpaidBytes > s.unpaid+strayUnpaid
}

// once makes one trial, measured against the attempt's baseline or else the bar.
func (s *Search) once(ctx context.Context, a Attempt) (Trial, error) {
	a = s.filled(a)
	a.Number = len(s.found.Trials) + 1
	s.asked(a)
	s.observe(Event{Attempt: a})
	o, err := s.Trier.Try(ctx, a)
	if err != nil {
		return Trial{}, err
	}
	if b := a.ByNode[o.Node]; b != nil {
		a.Baseline = b
	}
	t := s.unreached(Trial{a, o})
	t.LimitCost = s.limitCost(t)
	t.SlowElsewhere = s.slowElsewhere(t)
	t.Pressed = s.pressed(t)
	s.found.Trials = append(s.found.Trials, t)
	s.took += o.Took
	if o.UnpaidBytes > 0 && (s.unpaid == 0 || o.UnpaidBytes < s.unpaid) {
		s.unpaid = o.UnpaidBytes
	}
	s.remaining = max(s.remaining-1, 1)
	s.observe(Event{Attempt: a, Outcome: &t.Outcome})
	if s.blamesLimitAlone(t) {
		return s.besideControl(ctx, t)
	}
	return t, nil
}

// filled is an attempt with what the trials so far say of it.
func (s *Search) filled(a Attempt) Attempt {
	a.Squeeze, a.Work, a.ByTime = s.squeezes(a.Phase), s.work, s.burnsIdle()
	a.ByVariable = s.Facts.ByVariable && len(a.Setup.Options) > 0
	if a.Phase != PhaseBaseline && a.Baseline == nil {
		a.Baseline, a.ByNode = &s.bar.Measured, s.bars
	}
	return a
}

// squeezes says that a trial of a phase is to tell how much less it would have
// got by on: not where no baseline could, for the others would take as long for
// nothing.
func (s *Search) squeezes(p Phase) bool {
	switch p {
	case PhaseBaseline:
		return s.bar == nil
	case PhaseLever, PhaseRefine, PhaseAblation:
		return slices.ContainsFunc(s.found.Trials, func(t Trial) bool { return t.CacheBytes > 0 })
	}
	return false
}

func (s *Search) observe(e Event) {
	if s.Observe == nil {
		return
	}
	e.Remaining = s.remaining
	if n := len(s.found.Trials); n > 0 {
		e.Left = s.took / time.Duration(n) * time.Duration(s.remaining) / time.Duration(max(1, len(s.nodes())))
	}
	s.Observe(e)
}

func (s *Search) note(format string, a ...any) {
	s.observe(Event{Note: fmt.Sprintf(format, a...)})
}

// expect says how many trials are about to come before the confirmations.
func (s *Search) expect(trials int) {
	s.remaining = max(1, min(trials, s.room())+s.Confirmations+1)
}
