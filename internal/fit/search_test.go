package fit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// simulated is an application that needs a certain limit, less by what each
// option saves.
type simulated struct {
	rng   *rand.Rand
	needs int64
	saves map[string]int64 // by option or environment
	slows map[string]float64
	// minHeap is the smallest -Xmx it runs in, live what collections leave.
	minHeap, live int64
	// noise is the chance of a narrow miss, luck that of a pass within the
	// last tenth below what it needs.
	noise, luck float64
	fixed       int64 // page cache that could be dropped
	noArchive   bool
	trials      int
}

func (a *simulated) need(s Setup) int64 {
	n := a.needs
	for _, o := range append(slices.Clone(s.Options), s.Env...) {
		n -= a.saves[o]
	}
	if h := s.heapBytes(); h > 0 {
		n -= max(0, a.needs/3-h)
	}
	return n
}

func (a *simulated) Try(ctx context.Context, at Attempt) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	a.trials++
	need := a.need(at.Setup)
	o := Outcome{Passed: true, Verdict: trial.Passed, Throughput: 100, PeakBytes: min(at.LimitBytes, need+a.fixed),
		NeededBytes: min(at.LimitBytes, need-a.fixed/2), LiveBytes: a.live, HeapBytes: min(2*a.live, a.needs/3), Took: 10 * time.Second}
	o.Measured = trial.Measured{Load: &load.Result{OK: 1000, Elapsed: 10 * time.Second}}
	fail := func(v trial.Verdict, narrow bool) { o.Passed, o.Verdict, o.Narrow = false, v, narrow }
	for _, option := range at.Setup.Options {
		if a.slows[option] > 0.1 {
			fail(trial.TooSlow, a.slows[option] < 0.2)
		}
	}
	if h := at.Setup.heapBytes(); h > 0 && h < a.minHeap {
		fail(trial.OutOfMemory, false)
	}
	if at.LimitBytes < need && !(at.LimitBytes > need*9/10 && a.rng.Float64() < a.luck) {
		fail(trial.OOMKilled, false)
	}
	if o.Passed && at.Phase != PhaseBaseline && a.rng.Float64() < a.noise {
		fail(trial.TooSlow, true)
	}
	return o, nil
}

func (a *simulated) Train(context.Context, Attempt, string) (string, error) {
	if a.noArchive {
		return "", fmt.Errorf("%w: simulated", ErrNoArchive)
	}
	return "/archive/app.jsa", nil
}

func (a *simulated) Extract(context.Context) (string, error) {
	return "/archive/extracted/app.jar", nil
}

func (a *simulated) search() *Search {
	return &Search{Trier: a, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 3,
		ShowFailure: true, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
}

// checkFound asserts what must hold for every result.
func checkFound(t *testing.T, s *Search, f *Found) {
	t.Helper()
	if len(f.Confirmations) != s.Confirmations {
		t.Errorf("%d confirmations", len(f.Confirmations))
	}
	for _, c := range f.Confirmations {
		if !c.enough() || c.LimitBytes != f.LimitBytes || c.Phase != PhaseConfirm || !slices.Equal(c.Setup.Options, f.Setup.Options) {
			t.Errorf("confirmation %+v does not confirm %d", c.Attempt, f.LimitBytes)
		}
	}
	if f.LimitBytes > f.AsGiven.LimitBytes || !f.AsGiven.enough() {
		t.Errorf("recommended %d MiB, as given %d MiB is %s", f.LimitBytes/mib, f.AsGiven.LimitBytes/mib, f.AsGiven.Verdict)
	}
	if f.LimitBytes%mib != 0 {
		t.Errorf("limit %d is not whole", f.LimitBytes)
	}
	confirming := false
	for i, tr := range f.Trials {
		confirming = confirming || tr.Phase == PhaseConfirm
		if tr.Number != i+1 || tr.LimitBytes%mib != 0 || tr.LimitBytes > s.AmpleBytes || tr.LimitBytes < floorBytes {
			t.Errorf("trial %d: %+v", i, tr.Attempt)
		}
		before := tr.Phase == PhaseBaseline && !confirming || tr.Phase == PhaseAsGiven || tr.Phase == PhaseLever || tr.Phase == PhaseRefine
		if before && tr.Number > DefaultTrials+max(0, len(s.nodes())-2) {
			t.Errorf("trial %d comes before the confirmations: %s", tr.Number, tr.Attempt)
		}
		if tr.Repeat > maxRepeats {
			t.Errorf("trial %d repeats %d times", i, tr.Repeat)
		}
	}
}

func TestSearchFindsTheMinimum(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		a := &simulated{rng: rng, needs: (40 + rng.Int64N(900)) * mib, live: (2 + rng.Int64N(30)) * mib, minHeap: 1, noArchive: seed%3 == 0}
		a.fixed = a.needs / (4 + rng.Int64N(10))
		a.saves = map[string]int64{"-XX:TieredStopAtLevel=1": a.needs / 10, "MALLOC_ARENA_MAX=1": rng.Int64N(a.needs / 12),
			"-XX:ArchiveRelocationMode=0": a.needs / 15, "-XX:SharedArchiveFile=/archive/app.jsa": rng.Int64N(a.needs / 8)}
		s := a.search()
		f, err := s.Run(t.Context())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkFound(t, s, f)
		slack := func(need int64) int64 { return need + 2*tolerance(need, DefaultTolerance) + mib }
		if got := f.AsGiven.LimitBytes; got < a.needs || f.AsGivenFails >= a.needs || float64(got) > 1.2*float64(a.needs)+2*mib {
			t.Errorf("seed %d: as given %d MiB, needs %d", seed, got/mib, a.needs/mib)
		}
		need := a.need(f.Setup)
		untouched := max(0, f.Setup.heapBytes()-min(2*a.live, a.needs/3))
		if f.LimitBytes < need || f.LimitBytes > slack(need+untouched) {
			t.Errorf("seed %d: recommended %d MiB, needs %d", seed, f.LimitBytes/mib, need/mib)
		}
		if f.FailBelow == nil || f.FailBelow.LimitBytes >= f.LimitBytes {
			t.Errorf("seed %d: no failure below", seed)
		}
	}
}

// A wider tolerance is kept to, and takes fewer trials.
func TestSearchTolerance(t *testing.T) {
	trials := map[float64]int{}
	for _, share := range []float64{0, 0.2} {
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 11))
			a := &simulated{rng: rng, needs: (100 + rng.Int64N(900)) * mib, live: 10 * mib, minHeap: 1}
			a.fixed = a.needs / 4
			s := a.search()
			s.Levers, s.Tolerance = nil, share
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got := f.LimitBytes; got < a.needs || got > a.needs+2*tolerance(a.needs, s.fine())+mib {
				t.Errorf("seed %d, tolerance %g: %d MiB, needs %d", seed, share, got/mib, a.needs/mib)
			}
			trials[share] += len(f.Trials)
		}
	}
	if trials[0.2] >= trials[0] {
		t.Errorf("%d trials with a tolerance of 20 %%, %d with 2 %%", trials[0.2], trials[0])
	}
}

// A search that is told where an earlier one ended, or what page cache an earlier
// one found to be needed, begins there, and takes fewer trials; one that was told
// wrong finds the same.
func TestSearchBeginsAtAGuess(t *testing.T) {
	trials := map[string]int{}
	for seed := range uint64(50) {
		for name, told := range map[string]struct{ limit, cache float64 }{"none": {}, "limit": {limit: 1}, "far": {limit: 2}, "cache": {cache: 0.125}, "wrong cache": {cache: 0.25}} {
			rng := rand.New(rand.NewPCG(seed, 11))
			a := &simulated{rng: rng, needs: (100 + rng.Int64N(900)) * mib, live: 10 * mib, minHeap: 1}
			a.fixed = a.needs / 4
			s := a.search()
			s.Levers, s.GuessBytes, s.CacheBytes = nil, int64(told.limit*float64(a.needs)), int64(told.cache*float64(a.needs))
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			first := f.Trials[DefaultBaselines].LimitBytes
			if got := f.LimitBytes; got < a.needs || got > a.needs+2*tolerance(a.needs, s.fine())+mib || (name == "limit" || name == "cache") && first != a.needs {
				t.Errorf("seed %d, %s: %d MiB, needs %d; tried %d first", seed, name, got/mib, a.needs/mib, first/mib)
			}
			trials[name] += len(f.Trials)
		}
	}
	t.Logf("trials: %v", trials)
	if trials["limit"] >= trials["none"] || trials["cache"] >= trials["none"] {
		t.Errorf("trials: %v", trials)
	}
}

func TestSearchUnderNoise(t *testing.T) {
	unconfirmed, over := 0, 0
	const runs = 300
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 11))
		a := &simulated{rng: rng, needs: (60 + rng.Int64N(400)) * mib, live: 8 * mib, minHeap: 1, noise: 0.15, luck: 0.3,
			saves: map[string]int64{"-XX:TieredStopAtLevel=1": 12 * mib}}
		s := a.search()
		f, err := s.Run(t.Context())
		var u *UnconfirmedError
		if errors.As(err, &u) {
			unconfirmed++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkFound(t, s, f)
		if need := a.need(f.Setup); float64(f.LimitBytes) > 1.15*float64(need)+4*mib {
			over++
		}
		if len(f.Trials) > 120 {
			t.Errorf("seed %d: %d trials", seed, len(f.Trials))
		}
	}
	if unconfirmed > runs/50 || over > runs/10 {
		t.Errorf("of %d runs %d found nothing, %d too much", runs, unconfirmed, over)
	}
}

func TestSearchTakesALargerHeapAndDropsWhatSlows(t *testing.T) {
	a := &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 300 * mib, live: 10 * mib, minHeap: 30 * mib,
		saves: map[string]int64{"-XX:TieredStopAtLevel=1": 40 * mib}, slows: map[string]float64{"-XX:TieredStopAtLevel=1": 0.3}}
	s := a.search()
	f, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, s, f)
	if f.Setup.heapBytes() != 40*mib {
		t.Errorf("heap %d MiB, want 4 live sets", f.Setup.heapBytes()/mib)
	}
	for _, l := range f.Levers {
		if l.Lever.Name == "C1 alone" && (l.Kept || !strings.HasPrefix(l.Reason, "too-slow")) {
			t.Errorf("%+v", l)
		}
		if l.Lever.Name == "compact object headers" && (l.Kept || l.Reason != "needs JDK 25") {
			t.Errorf("%+v", l)
		}
		if l.Lever.Name == "tighter heap" && (l.Kept || l.Reason != "no trial told of collections") {
			t.Errorf("%+v", l)
		}
	}
}

func TestSearchLeavesTheUsersOptionsAlone(t *testing.T) {
	a := &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 300 * mib, live: 10 * mib}
	s := a.search()
	var err error
	s.Facts.Given, err = jvmopts.Read(jvmopts.Input{
		Args: []string{"-Xmx100m", "-XX:+UseG1GC", "-jar", "app.jar"},
		Env:  []string{"JAVA_TOOL_OPTIONS=-XX:-TieredCompilation -Xshare:auto", "MALLOC_ARENA_MAX=4"}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, s, f)
	for _, tr := range f.Trials {
		for _, o := range append(slices.Clone(tr.Setup.Options), tr.Setup.Env...) {
			for _, taken := range []string{"-Xmx", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel", "-XX:SharedArchiveFile", "MALLOC_ARENA_MAX"} {
				if strings.HasPrefix(o, taken) {
					t.Fatalf("trial %d overrides the user with %s", tr.Number, o)
				}
			}
		}
	}
	reasons := make(map[string]string)
	for _, l := range f.Levers {
		reasons[l.Lever.Name] = l.Reason
	}
	if reasons["C1 alone"] != "yours: -XX:-TieredCompilation (JAVA_TOOL_OPTIONS)" || reasons["one malloc arena"] != "yours: MALLOC_ARENA_MAX=4" {
		t.Errorf("%q", reasons)
	}
}

func TestSearchEnds(t *testing.T) {
	a := &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 3000 * mib, live: 1}
	var b *BaselineError
	if _, err := a.search().Run(t.Context()); !errors.As(err, &b) || b.Trial.Verdict != trial.OOMKilled {
		t.Errorf("too little: %v", err)
	}
	if a.trials != 1 {
		t.Errorf("%d baselines after the first failed", a.trials)
	}
	// A baseline that does not meet the objective has a second chance.
	for chances := range 3 {
		a = &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 200 * mib, live: 1}
		s := a.search()
		s.Trier = &unlucky{Trier: s.Trier, left: chances}
		_, err := s.Run(t.Context())
		if failed := errors.As(err, &b); failed != (chances == 2) || failed && (a.trials != 2 || b.Trial.Verdict != trial.Errors) {
			t.Errorf("%d baselines with errors: %v after %d trials", chances, err, a.trials)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	a = &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 200 * mib, live: 1}
	s := a.search()
	s.Observe = func(e Event) {
		if e.Attempt.Number == 7 {
			cancel()
		}
	}
	f, err := s.Run(ctx)
	if !errors.Is(err, context.Canceled) || len(f.Trials) == 0 || f.LimitBytes != 0 {
		t.Errorf("cancelled: %v, %d trials", err, len(f.Trials))
	}
	// Never confirmed: every confirming run is killed.
	s = (&simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 200 * mib, live: 1}).search()
	s.Trier = unconfirming{s.Trier}
	f, err = s.Run(t.Context())
	var u *UnconfirmedError
	if !errors.As(err, &u) || f.LimitBytes != 0 {
		t.Errorf("unconfirmed: %v, limit %d", err, f.LimitBytes)
	}
}

// unlucky is a Trier whose first trials fail by errors.
type unlucky struct {
	Trier
	left int
}

func (u *unlucky) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := u.Trier.Try(ctx, a)
	if u.left > 0 {
		o.Passed, o.Verdict = false, trial.Errors
		u.left--
	}
	return o, err
}

type unconfirming struct{ Trier }

func (u unconfirming) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := u.Trier.Try(ctx, a)
	if a.Phase == PhaseConfirm {
		o.Passed, o.Verdict = false, trial.OOMKilled
	}
	return o, err
}

// Another JVM of the same JDK lends its pages for a while: what passes by that
// alone must not count.
func TestSearchRepeatsWhatOthersPaidFor(t *testing.T) {
	a := &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 200 * mib, live: 4 * mib}
	s := a.search()
	s.Trier = &lending{Trier: s.Trier, from: 4, to: 4}
	f, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, s, f)
	if f.AsGiven.LimitBytes < 200*mib {
		t.Errorf("as given %d MiB", f.AsGiven.LimitBytes/mib)
	}
}

// The limit as given is found by luck far too low, and nothing that is added
// can be confirmed below it: it is tried again, and never exceeded.
func TestSearchNeverRecommendsMoreThanAsGiven(t *testing.T) {
	kept, asGiven := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		a := &simulated{rng: rng, needs: 72 * mib, live: 4 * mib, minHeap: 1, saves: map[string]int64{"-XX:TieredStopAtLevel=1": rng.Int64N(12) * mib}}
		s := a.search()
		s.Levers = s.Levers[:0:0]
		for _, l := range Levers {
			if l.Name == "C1 alone" {
				s.Levers = append(s.Levers, l)
			}
		}
		s.Trier = borrowing{a}
		f, err := s.Run(t.Context())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkFound(t, s, f)
		if need := a.need(f.Setup); f.LimitBytes < need {
			t.Errorf("seed %d: recommended %d MiB, needs %d", seed, f.LimitBytes/mib, need/mib)
		}
		if f.Setup.empty() {
			asGiven++
			if f.LimitBytes != f.AsGiven.LimitBytes {
				t.Errorf("seed %d: recommended %d MiB as given, which needs %d", seed, f.LimitBytes/mib, f.AsGiven.LimitBytes/mib)
			}
		} else {
			kept++
		}
		for _, l := range f.Levers {
			if l.Kept == f.Setup.empty() {
				t.Errorf("seed %d: %s kept %v, recommended %q", seed, l.Lever.Name, l.Kept, f.Setup.Options)
			}
			if !l.Kept && l.Reason == "" {
				t.Errorf("seed %d: %s is dropped without a reason", seed, l.Lever.Name)
			}
		}
	}
	if kept < 10 || asGiven < 10 {
		t.Errorf("%d with levers, %d as given: both must happen", kept, asGiven)
	}
}

// borrowing lets every trial but baselines and confirmations pass on three
// quarters of what it needs.
type borrowing struct{ *simulated }

func (b borrowing) Try(ctx context.Context, a Attempt) (Outcome, error) {
	if a.Phase == PhaseBaseline || a.Phase == PhaseConfirm {
		return b.simulated.Try(ctx, a)
	}
	less := *b.simulated
	less.needs = b.needs * 3 / 4
	return less.Try(ctx, a)
}

// lending lets the trials from one number to another pass with lent pages.
type lending struct {
	Trier
	from, to int
}

func (l *lending) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := l.Trier.Try(ctx, a)
	o.UnpaidBytes = 3 * mib
	if a.Number >= l.from && a.Number <= l.to {
		o.Passed, o.Verdict, o.UnpaidBytes = true, trial.Passed, 20*mib
	}
	return o, err
}

func TestRemainingNeverNegative(t *testing.T) {
	a := &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 200 * mib, live: 4 * mib}
	s := a.search()
	events := 0
	s.Observe = func(e Event) {
		events++
		if e.Remaining < 1 || e.Left < 0 {
			t.Errorf("%+v", e)
		}
	}
	if _, err := s.Run(t.Context()); err != nil || events == 0 {
		t.Errorf("%v, %d events", err, events)
	}
}

func TestSetupPlus(t *testing.T) {
	s := Setup{}.plus(Setup{Options: []string{"-XX:+UseSerialGC", "-Xmx20m"}, Env: []string{"A=1"}})
	s = s.plus(Setup{Options: []string{"-Xmx12m", "-Xmn4m", "-XX:-UseSerialGC"}, Env: []string{"A=2"}})
	collected := []string{"-XX:CompileCommand=quiet", "-XX:CompileCommand=MemLimit,*.*,3m"}
	if both := (Setup{}).plus(Setup{Options: collected}); !slices.Equal(both.Options, collected) {
		t.Errorf("%+v", both)
	}
	if strings.Join(s.Options, " ") != "-Xmx12m -Xmn4m -XX:-UseSerialGC" || !slices.Equal(s.Env, []string{"A=2"}) || s.heapBytes() != 12*mib {
		t.Errorf("%+v", s)
	}
}
