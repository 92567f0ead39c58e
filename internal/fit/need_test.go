package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// needing is a trial that passed with a heap, of which so much was resident.
func needing(phase Phase, xmx, limit, needed, heap, cache int64) Trial {
	s := Setup{Options: []string{"-XX:+UseSerialGC", mibOption("-Xmx", xmx)}}
	return Trial{Attempt{Phase: phase, Setup: s, LimitBytes: limit * mib}, Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: needed * mib, CacheBytes: cache * mib,
		PeakBytes: (needed + 40) * mib, Result: &trial.Result{Peak: &footprint.Footprint{Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: heap * mib}}}}}}
}

func mibOption(name string, n int64) string { return name + mibDigits(n) + "m" }

func mibDigits(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return mibDigits(n/10) + string(rune('0'+n%10))
}

// What is needed is what cannot be dropped with the heap full, and the page cache; from
// trials with other heaps, too.
func TestNeedOf(t *testing.T) {
	s := &Search{found: Found{Trials: []Trial{needing(PhaseLever, 64, 200, 110, 60, 20), needing(PhaseLever, 48, 200, 95, 48, 24)}}}
	setup := s.found.Trials[1].Setup
	n, known := s.needOf(setup)
	// 50 + 20 and 47 + 24 beside the heap of 48
	if want := math.Sqrt(118*119) * mib; !known || n.Samples != 2 || math.Abs(float64(n.MeanBytes)-want) > 1 {
		t.Errorf("%+v, %v: want a mean of %.1f MiB", n, known, want/mib)
	}
	// Nineteen degrees of freedom are assumed, so the deviation is nearly that.
	if n.Freedom != needFreedom || n.Assumed != needFreedom-1 || math.Abs(n.Deviation-needSpread) > 0.001 {
		t.Errorf("%+v", n)
	}
	if over := float64(n.BoundBytes) / float64(n.MeanBytes); over < 1.07 || over > 1.09 {
		t.Errorf("the bound is %.3f of the mean", over)
	}
	if more := n.BoundWith(20); more >= n.BoundBytes || more <= n.MeanBytes {
		t.Errorf("with more samples the bound is %d, now %d", more, n.BoundBytes)
	}
	if c := n.Content(n.BoundBytes); math.Abs(c-needContent) > 0.001 {
		t.Errorf("%.4f of runs need no more than the bound", c)
	}
	if c := n.Content(n.MeanBytes); c <= 0 || c >= 0.5 {
		t.Errorf("%.4f of runs surely need no more than the mean", c)
	}
	if c := n.Content(n.GrowthBytes); c != 0 {
		t.Errorf("%.4f of runs need no more than nothing", c)
	}
	if _, known := s.needOf(Setup{Options: []string{"-Xmx48m"}}); known {
		t.Error("what no trial tells is known")
	}
}

// What still grew is room beside the need, up to the JVM's own caps; the heap has its
// own bound.
func TestNeedHasRoomForGrowth(t *testing.T) {
	made := needing(PhaseLever, 48, 200, 95, 48, 24)
	made.Result.Peak.Flags = map[string]string{"ReservedCodeCacheSize": "16777216", "MaxMetaspaceSize": "18446744073709551615"}
	made.Result.Peak.Rows = append(made.Result.Peak.Rows, footprint.Row{Owner: footprint.CodeCache, ResidentBytes: 15 * mib})
	made.Result.Growth = []trial.Growth{{Of: string(footprint.CodeCache), Bytes: 4 * mib}, {Of: string(footprint.Metaspace), Bytes: 3 * mib},
		{Of: string(footprint.JavaHeap), Bytes: 30 * mib}, {Of: trial.LiveSet, Bytes: 20 * mib}}
	s := &Search{found: Found{Trials: []Trial{made}}}
	if n, _ := s.needOf(made.Setup); n.GrowthBytes != 4*mib {
		t.Errorf("room for %d MiB, want one of code and three of metaspace", n.GrowthBytes/mib)
	}
}

// Limits that were tried correct what was measured.
func TestNeedAgreesWithTrials(t *testing.T) {
	base := needing(PhaseLever, 48, 200, 95, 48, 24)
	killed := needing(PhaseRefine, 48, 126, 95, 48, 0)
	killed.Passed, killed.Verdict = false, trial.OOMKilled
	slow := killed
	slow.Verdict = trial.TooSlow
	less := needing(PhaseRefine, 48, 112, 95, 48, 24)
	long := needing(PhaseLong, 48, 130, 104, 48, 0)
	waited := func(share float64) Trial {
		t := needing(PhaseLong, 48, 130, 104, 48, 0)
		t.Result.WorstReclaimShare = &share
		return t
	}
	for name, c := range map[string]struct {
		also Trial
		want int64
	}{
		"killed above what was measured":          {killed, 126},
		"too slow there, and memory had no part":  {slow, 119},
		"enough below what was measured":          {less, 112},
		"a longer run needed more":                {long, 128},
		"it held more, and hardly waited":         {waited(0.001), 119},
		"it waited for nearly as long as it may":  {waited(0.09), 129},
		"it waited for longer":                    {waited(0.2), 137},
		"below the recommendation nothing counts": {func() Trial { b := less; b.Phase = PhaseBelow; return b }(), 119},
	} {
		s := &Search{Spare: 0.1, found: Found{Trials: []Trial{base, c.also}}}
		if n, _ := s.needOf(base.Setup); (n.MeanBytes+mib/2)/mib != c.want {
			t.Errorf("%s: %.1f MiB, want %d", name, float64(n.MeanBytes)/mib, c.want)
		}
	}
}

// Of runs with the limit that was found, no more fail than the bound says: one in a
// hundred, where runs differ by the 2 % that are assumed or less.
func TestFewRunsNeedMoreThanTheLimit(t *testing.T) {
	for _, noise := range []float64{0.005, 0.01, 0.02} {
		failed, made := 0, 0
		for seed := range uint64(150) {
			m := newModel(rand.New(rand.NewPCG(seed, 21)))
			m.noise, m.soft, m.squeezes = noise, false, true
			s := &Search{Trier: m, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: DefaultConfirmations, Margin: MarginByBound, Stress: true,
				Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if f.Need == nil {
				continue
			}
			for range 40 {
				o, err := m.Try(t.Context(), Attempt{Phase: PhaseConfirm, Setup: f.Setup, LimitBytes: f.LimitBytes})
				if err != nil {
					t.Fatal(err)
				}
				if made++; o.Verdict == trial.OOMKilled {
					failed++
				}
			}
		}
		t.Logf("noise %g: %d of %d runs failed", noise, failed, made)
		if made < 3000 || float64(failed) > 0.01*float64(made) {
			t.Errorf("noise %g: %d of %d runs failed", noise, failed, made)
		}
	}
}

// grown needs more in its long run, and lacks processors in that with half of them.
type grown struct {
	Trier
	more  int64
	phase Phase
}

func (g grown) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := g.Trier.Try(ctx, a)
	if err != nil || a.Phase != g.phase {
		return o, err
	}
	if o.NeededBytes += g.more; o.NeededBytes+o.CacheBytes > a.LimitBytes {
		o.NeededBytes, o.Passed, o.Verdict = a.LimitBytes, false, trial.OOMKilled
	} else if a.Phase == PhaseHalf {
		o.Passed, o.Verdict, o.AskedSpeed, o.AskedShare = false, trial.TooSlow, 100, 0.9
	}
	return o, nil
}

// The long run and the one with half the processors are part of the proof: memory that
// lacks there raises the limit, a lack of processors does not.
func TestStress(t *testing.T) {
	for name, c := range map[string]struct {
		more   int64
		phase  Phase
		raised bool
	}{
		"steady":                        {0, PhaseLong, false},
		"grows within the limit":        {40 * mib, PhaseLong, false},
		"grows beyond the limit":        {150 * mib, PhaseLong, true},
		"slow with half the processors": {0, PhaseHalf, false},
		"needs more with half of them":  {150 * mib, PhaseHalf, true},
	} {
		m := newModel(rand.New(rand.NewPCG(5, 1)))
		m.squeezes, m.soft = true, false
		search := func(t Trier) *Search {
			return &Search{Trier: t, Levers: Levers, AmpleBytes: 1024 * mib, Baselines: 2, Confirmations: 5, Margin: MarginByBound, Stress: true, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
		}
		f, err := search(grown{m, c.more, c.phase}).Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if (f.RaisedFrom > 0) != c.raised || f.Long == nil || f.Half == nil || f.Long.LimitBytes > f.LimitBytes || f.Half.LimitBytes > f.LimitBytes || len(f.Confirmations) != 5 {
			t.Errorf("%s: raised from %d to %d MiB; long %v, half %v", name, f.RaisedFrom/mib, f.LimitBytes/mib, f.Long, f.Half)
		}
		if c.more > 0 && c.phase == PhaseLong && f.LimitBytes <= f.Trials[slices.IndexFunc(f.Trials, func(t Trial) bool { return t.Phase == PhaseLong })].LimitBytes {
			t.Errorf("%s: the limit stays at %d MiB", name, f.LimitBytes/mib)
		}
		job := search(m)
		if job.Job = true; c.more == 0 {
			if f, err := job.Run(t.Context()); err != nil || f.Long != nil || f.Half == nil {
				t.Errorf("a job: %v, long %v", err, f.Long)
			}
		}
	}
}

// The phases of stress have their own load and processors.
func TestStressedTrials(t *testing.T) {
	spec := trial.Spec{Work: trial.Work{Warmup: 1000, Measured: 4000}, Duration: 10 * time.Second}
	long, half, usual := spec, spec, spec
	Attempt{Phase: PhaseLong}.stress(&long, 2)
	Attempt{Phase: PhaseHalf}.stress(&half, 1)
	Attempt{Phase: PhaseConfirm}.stress(&usual, 2)
	if long.Work.Measured != 40000 || long.Duration != 100*time.Second || long.Work.Warmup != 1000 || long.Limits.CPUs != 0 {
		t.Errorf("%+v", long.Work)
	}
	if half.Work.Measured != 2000 || half.Limits.CPUs != 0.5 {
		t.Errorf("%+v", half)
	}
	if usual.Work != spec.Work || usual.Limits.CPUs != 0 {
		t.Errorf("%+v", usual)
	}
}

// A lever of the user's that does nothing is not kept because one trial happened to need
// a little less than another.
func TestChanceIsNoSaving(t *testing.T) {
	idle := Lever{ID: "idle", Name: "idle", Own: true, Env: []string{"IDLE=1"}, Blind: true, Slows: true}
	const runs = 200
	kept := 0
	for seed := range uint64(runs) {
		m := newModel(rand.New(rand.NewPCG(seed, 5)))
		m.noise, m.squeezes = 0.02, true
		s := &Search{Trier: m, Levers: []Lever{idle}, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 1, Margin: MarginByBound, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
		f, err := s.Run(t.Context())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if f.Levers[0].Trial == 0 {
			t.Errorf("seed %d: not tried: %s", seed, f.Levers[0].Reason)
		}
		if f.Levers[0].Kept {
			kept++
		}
	}
	if kept > runs/10 {
		t.Errorf("a lever that does nothing was kept in %d of %d fits", kept, runs)
	}
}

// The limit at which waiting for memory takes all that it may is told by all trials near it,
// though each has up to three times the pressure of another one of the same, by chance; and
// by what the limits differ then is in the deviation.
func TestByPressure(t *testing.T) {
	const limit = 100 * mib
	setup := Setup{Options: []string{"-XX:+UseSerialGC"}}
	at := func(share, slope, chance float64) Trial {
		bytes := int64(limit * share)
		pressure := 0.1 * math.Pow(share, -1/slope) * chance
		return Trial{Attempt{Phase: PhaseRefine, Setup: setup, LimitBytes: bytes},
			Outcome{Passed: true, Verdict: trial.Passed, Result: &trial.Result{ReclaimShare: pressure, Load: &load.Result{OK: 1000}}}}
	}
	s := &Search{Spare: 0.1, found: Found{Trials: []Trial{at(1.05, 0.06, 1)}}}
	if line := s.byPressure(setup); line.samples != 0 {
		t.Errorf("one trial tells %+v", line)
	}
	s.found.Trials = []Trial{at(1.05, 0.06, 1), at(0.95, 0.06, 1), at(0.99, 0.06, 1)}
	if line := s.byPressure(setup); line.samples != 3 || math.Abs(line.limit/limit-1) > 0.002 || line.deviation > 1.03*needSpread || line.assumed != needFreedom-1 {
		t.Errorf("%+v", line)
	}
	// Limits that all were above it, of a program that is less steep than most: the trials' own
	// slope counts for more, the farther they are apart.
	s.found.Trials = []Trial{at(1.02, 0.12, 1), at(1.1, 0.12, 1), at(1.2, 0.12, 1), at(1.3, 0.12, 1)}
	if line := s.byPressure(setup); math.Abs(line.limit/limit-1) > 0.04 {
		t.Errorf("not steep: %+v", line)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	const runs = 1000
	sum, squares := 0.0, 0.0
	for range runs {
		s.found.Trials = nil
		for _, share := range []float64{0.98, 1.01, 1.04, 1.07} {
			s.found.Trials = append(s.found.Trials, at(share, usualSlope, math.Exp(0.35*rng.NormFloat64())))
		}
		line := s.byPressure(setup)
		if line.samples < 3 || math.Abs(line.limit/limit-1) > 0.1 {
			t.Errorf("by chance %.3f of the limit, %+v", line.limit/limit, line)
		}
		sum, squares = sum+math.Log(line.limit/limit), squares+line.deviation*line.deviation
	}
	// A third of an e-fold of pressure is 3 % of a limit; the prior has most of the degrees of freedom.
	if bias, deviation := sum/runs, math.Sqrt(squares/runs); math.Abs(bias) > 0.005 || deviation < needSpread || deviation > 0.03 {
		t.Errorf("over all, off by %.4f, deviation %.4f", bias, deviation)
	}
	s.found.Trials = []Trial{at(1.05, 0.06, 1), at(0.95, 0.06, 1), at(0.99, 0.06, 1)}
	s.Spare = trial.StalledShare
	most := s.byPressure(setup).limit
	if s.Spare = 0.4; s.byPressure(setup).limit != most || most >= limit {
		t.Errorf("what a loose objective leaves is waited for: %.3f and %.3f of the limit", s.byPressure(setup).limit/limit, most/limit)
	}
	s.Spare = 0
	if line := s.byPressure(setup); line.samples != 0 {
		t.Error("an objective without speed has no such limit")
	}
	s.Spare = 0.1
	// Where the pressure rises steeply, chance puts the larger limit's above the other one's.
	s.found.Trials = []Trial{at(0.97, 0.08, 0.3), at(1, 0.08, 3)}
	if line := s.byPressure(setup); line.slope < -usualSlope || line.deviation > 0.03 || math.Abs(line.limit/limit-1) > 0.05 {
		t.Errorf("two runs that differ by chance: %.3f of the limit, %+v", line.limit/limit, line)
	}
	other := at(1, 0.06, 1)
	other.Result.Ended = true
	far := at(1.5, 0.06, 1)
	if other.tellsPressure() || far.tellsPressure() {
		t.Error("one that ended, or was far from the limit, tells")
	}
}

// A long run that did not wait tells no more than what it held: its limit may have room for a heap
// that the user has sized, and that no run touches.
func TestLongLimit(t *testing.T) {
	for _, c := range []struct {
		name             string
		limit, held      int64
		waited           float64
		over, to, within float64
	}{
		{"it did not wait, and has room for a heap", 847, 428, 0, 428, 428, 0},
		{"it did not wait, near its limit", 100, 90, 0, 90, 90, 0},
		{"it waited as long as it may", 100, 90, 0.1, 100, 100, 0.001},
		{"longer than it may", 100, 90, 0.2, 105, 107, 0},
		{"it waited a little, and held most of its limit", 100, 99, 0.02, 99, 99, 0},
	} {
		tr := Trial{Attempt{Phase: PhaseLong, LimitBytes: c.limit * mib}, Outcome{Passed: true, NeededBytes: c.held * mib, Result: &trial.Result{WorstReclaimShare: &c.waited}}}
		limit, told := (&Search{Spare: 0.1}).longLimit(tr, pressureLine{})
		if got := limit / mib; !told || got < c.over-c.within || got > c.to+c.within {
			t.Errorf("%s: %.1f MiB, told %v", c.name, got, told)
		}
	}
	if _, told := (&Search{Spare: 0.1}).longLimit(Trial{Outcome: Outcome{Result: &trial.Result{}}}, pressureLine{}); told {
		t.Error("one of which the waiting is not known tells")
	}
}

// noted keeps what it is asked for, and answers with its outcomes in their order, the last for all
// that comes after.
type noted struct {
	attempts []Attempt
	outcomes []Outcome
}

func (a *noted) Try(_ context.Context, at Attempt) (Outcome, error) {
	a.attempts = append(a.attempts, at)
	return a.outcomes[min(len(a.attempts), len(a.outcomes))-1], nil
}

func (a *noted) Train(context.Context, Attempt, string) (string, error) { return "", ErrNoArchive }

// The run below has the recommended options as they are, for AlwaysPreTouch copies class
// archives: what is not touched of the heap is taken from its limit instead, and so is the
// room for growth.
func TestBelowLimit(t *testing.T) {
	heap := func(touched int64) *trial.Result {
		return &trial.Result{Peak: &footprint.Footprint{Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: touched}}}}
	}
	setup := Setup{Options: []string{"-Xmx20m"}}
	ran := func(p Phase, touched int64) Trial {
		return Trial{Attempt{Phase: p, Setup: setup, LimitBytes: 120 * mib}, Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: 90 * mib, Result: heap(touched)}}
	}
	trier := &noted{outcomes: []Outcome{{Verdict: trial.Stalled}}}
	s := &Search{Trier: trier, ShowFailure: true, bar: &Trial{}, found: Found{LimitBytes: 110 * mib, Setup: setup, Need: &Need{GrowthBytes: 10 * mib},
		Trials: []Trial{ran(PhaseLever, 14*mib), ran(PhaseConfirm, 18*mib), ran(PhaseLong, 20*mib)}}}
	if err := s.showFailure(t.Context()); err != nil || len(trier.attempts) != 1 {
		t.Fatalf("%v, %+v", err, trier.attempts)
	}
	if a := trier.attempts[0]; a.LimitBytes != (90-4)*mib || !a.Setup.Same(setup) || a.Phase != PhaseBelow {
		t.Errorf("%+v at %d MiB", a, a.LimitBytes/mib)
	}
	if s.found.FailBelow == nil {
		t.Error("its failure is not shown")
	}
}

// A run below that passes by its speed, and waits for memory as long as no limit may that is
// looked for, speaks against its limit.
func TestPressedBelowLimit(t *testing.T) {
	for waited, notes := range map[float64]int{0.14: 0, 0.01: 1} {
		trier := &noted{outcomes: []Outcome{{Passed: true, Verdict: trial.Passed, Result: &trial.Result{ReclaimShare: waited}}}}
		said := 0
		s := &Search{Trier: trier, ShowFailure: true, Spare: 0.09, bar: &Trial{}, found: Found{LimitBytes: 110 * mib, Setup: Setup{Options: []string{"-Xmx20m"}}}}
		s.Observe = func(e Event) {
			if e.Note != "" {
				said++
			}
		}
		if err := s.showFailure(t.Context()); err != nil || said != notes || (s.found.FailBelow == nil) != (notes == 1) {
			t.Errorf("waited %g: %d notes, failure %v, %v", waited, said, s.found.FailBelow, err)
		}
	}
}

// Of two setups with sized heaps and nothing else between them, the sizes tell what is saved:
// what else one trial had more than another is chance.
func TestSmallerHeapSaves(t *testing.T) {
	ran := func(options string, needed int64) Trial {
		return Trial{Attempt{Phase: PhaseLever, Setup: Setup{Options: strings.Fields(options)}, LimitBytes: 200 * mib}, Outcome{Passed: true, NeededBytes: needed, PeakBytes: needed, HeapBytes: 6 * mib}}
	}
	big, small := ran("-Xmx14m", 40*mib), ran("-Xmx11m", 41*mib)
	s := &Search{best: point{setup: big.Setup, at: big}}
	if before, after := s.needed(small, s.best); before-after != 3*mib {
		t.Errorf("%d MiB are saved", (before-after)/mib)
	}
	if before, after := s.needed(ran("-Xmx11m", 60*mib), s.best); before-after != -17*mib { // both heaps may fill
		t.Errorf("of a heap that surely needs more elsewhere %d MiB are saved", (before-after)/mib)
	}
	if before, after := s.needed(ran("-Xmx14m -Xss512k", 41*mib), s.best); before-after != -mib {
		t.Errorf("of another lever %d MiB are saved", (before-after)/mib)
	}
	touched := func(options string, needed, heap int64) Trial {
		t := ran(options, needed)
		t.HeapBytes = heap
		return t
	}
	full, hardly := touched("-Xmx500m", 560*mib, 480*mib), touched("-Xmx500m -Xss512k", 438*mib, 360*mib)
	full.LimitBytes, hardly.LimitBytes = 2048*mib, 2048*mib
	s = &Search{best: point{setup: full.Setup, at: full}}
	if before, after := s.needed(hardly, s.best); before-after != 2*mib {
		t.Errorf("of another lever whose trial touched less of the heap %d MiB are saved", (before-after)/mib)
	}
}

// A heap that follows the limit may become as large as the limit lets it, and one that a lever
// sizes no larger than that: it saves the difference, though both were as small.
func TestSizedHeapSaves(t *testing.T) {
	given := Trial{Attempt{Phase: PhaseAsGiven, LimitBytes: 135 * mib}, Outcome{Passed: true, NeededBytes: 80 * mib, PeakBytes: 80 * mib, Result: &trial.Result{
		Peak: &footprint.Footprint{Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: 8 * mib}}}}}}
	sized := given
	sized.Phase, sized.Setup = PhaseLever, Setup{Options: []string{"-Xmx10m"}}
	s := &Search{AmpleBytes: 2048 * mib, best: point{at: given}}
	if before, after := s.needed(sized, s.best); before < 143*mib || before > 144*mib || after != 82*mib { // 72 beside a heap of half the limit
		t.Errorf("%d MiB before, %d after", before/mib, after/mib)
	}
}

// The next limit goes by how long a trial waited for memory.
func TestNextByPressure(t *testing.T) {
	at := func(limit int64, pressure float64) Trial {
		tr := Trial{Attempt{Phase: PhaseRefine, LimitBytes: limit * mib}, Outcome{Passed: true, NeededBytes: 70 * mib, PeakBytes: 200 * mib, Result: &trial.Result{ReclaimShare: pressure, Load: &load.Result{OK: 1}}}}
		tr.Pressed = pressure >= 0.05
		return tr
	}
	roomy := Trial{Attempt{Phase: PhaseLever, LimitBytes: 200 * mib}, Outcome{Passed: true, NeededBytes: 70 * mib, PeakBytes: 200 * mib, CacheBytes: mib}}
	for _, c := range []struct {
		name        string
		last        Trial
		spare       float64
		least, most int64
	}{
		{"four times the pressure", at(100, 0.2), 0.1, 111, 113},
		{"a quarter of it", at(100, 0.0125), 0.1, 89, 91},
		{"just too much", at(100, 0.051), 0.1, 106, 106},
		{"waits for nothing", at(100, 0.001), 0.1, 0, 94},
		{"an objective without speed", at(100, 0.1), 0, 106, 200},
	} {
		g := narrowing{phase: PhaseRefine, share: 0.03, guess: 100 * mib, needs: true, mayWait: c.spare, made: []Trial{c.last}}
		p := point{at: roomy}
		if c.last.Pressed {
			p.fails = c.last.LimitBytes
		} else {
			p.at = c.last
		}
		if next, ok := g.next(p, 3); !ok || next < c.least*mib || next > c.most*mib {
			t.Errorf("%s: %d MiB, %v", c.name, next/mib, ok)
		}
	}
}
