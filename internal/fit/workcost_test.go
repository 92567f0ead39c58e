package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// costing is a trial that did the same work as others for so many seconds.
func costing(s Setup, phase Phase, seconds float64) Trial {
	l := &load.Result{Sent: 4000, OK: 4000, Elapsed: 100 * time.Second}
	return Trial{Attempt{Phase: phase, Setup: s}, Outcome{Passed: true, Measured: trial.Measured{Load: l},
		Result: &trial.Result{Load: l, LoadCPUTime: time.Duration(seconds * float64(time.Second))}}}
}

// Where threads spin when there is nothing to do, processor time tells nothing of work.
func TestIdleBurn(t *testing.T) {
	c1 := Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}
	s := &Search{found: Found{Trials: []Trial{costing(Setup{}, PhaseBaseline, 68), costing(c1, PhaseLever, 42)}}}
	s.found.Baseline = s.found.Trials[0]
	for used, want := range map[float64]bool{0: true, 0.19: true, 0.21: false, 1: false} {
		s.found.Baseline.Result.IdleCPUs = &used
		if _, known := s.costRatio(c1, Setup{}); known != want {
			t.Errorf("%g processors used by idling: known %v, want %v", used, known, want)
		}
	}
}

// The figures are processor seconds for the same 4000 requests of a Spring Boot service.
func TestCostBound(t *testing.T) {
	c1, extracted := Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}, Setup{Jar: "app.jar"}
	s := &Search{found: Found{Trials: []Trial{
		costing(Setup{}, PhaseBaseline, 68), costing(Setup{}, PhaseBaseline, 65),
		costing(c1, PhaseLever, 42), costing(extracted, PhaseLever, 61),
	}}}
	s.found.Baseline = s.found.Trials[0]
	for _, c := range []struct {
		name      string
		setup     Setup
		low, high float64
	}{
		{"C1", c1, 0.65, 0.75}, // by half: sure
		{"extracted", extracted, 0.95, 1.1},
		{"as given", Setup{}, 1, 1}, // over itself
	} {
		if got, known := s.costBound(c.setup, Setup{}); !known || got < c.low || got > c.high {
			t.Errorf("%s: %.3f, %v; want %g to %g", c.name, got, known, c.low, c.high)
		}
	}
	deviation, freedom := s.costDeviation()
	if want := math.Sqrt((4*0.05*0.05 + 2*math.Pow(math.Log(68.0/65)/2, 2)) / 5); math.Abs(deviation-want) > 1e-9 || freedom != 5 {
		t.Errorf("%.4f with %g degrees of freedom, want %.4f with 5", deviation, freedom, want)
	}
	more := costing(extracted, PhaseLever, 30)
	more.Result.Load = &load.Result{Sent: 9000, OK: 9000}
	confirming := costing(extracted, PhaseConfirm, 30)
	s.found.Trials = append(s.found.Trials, more, confirming)
	if n := len(s.costs(extracted)); n != 1 {
		t.Errorf("%d costs: one did other work, one was at the limit", n)
	}
	if _, known := s.costBound(Setup{Env: []string{"A=1"}}, Setup{}); known {
		t.Error("what no trial tells is known")
	}
}

// A lever that makes the application quicker is kept though it saves no memory, and one
// that does nothing is not, whatever the machine does to the speed meanwhile.
func TestLeverThatWinsSpeedIsKept(t *testing.T) {
	quick := Lever{ID: "quick", Name: "quick", Env: []string{"QUICK=1"}, Blind: true, Slows: true}
	idle := Lever{ID: "idle", Name: "idle", Env: []string{"IDLE=1"}, Blind: true, Slows: true}
	const runs = 200
	kept := map[string]int{}
	for seed := range uint64(runs) {
		m := newModel(rand.New(rand.NewPCG(seed, 5)))
		m.jitter, m.drift, m.counts, m.gcCost, m.squeezes = 0.1, 0.3, true, 0, false
		s := &Search{Trier: m, Levers: []Lever{quick, idle}, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 1, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
		f, err := s.Run(t.Context())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, l := range f.Levers {
			// Where it saves no memory in the end, the recommendation leaves it out.
			if l.CostRatio > 0 {
				kept[l.Lever.ID]++
			}
			if l.CostRatio > 0.9 {
				t.Errorf("seed %d: %s was kept at %.2f of the cost", seed, l.Lever.ID, l.CostRatio)
			}
		}
	}
	t.Logf("of %d: quick kept %d times, idle %d", runs, kept["quick"], kept["idle"])
	if kept["quick"] < runs*99/100 || kept["idle"] > 0 {
		t.Errorf("of %d: quick was kept %d times, idle %d", runs, kept["quick"], kept["idle"])
	}
}

// A lever is refused for its speed where what it costs is known to be too much, tried once
// more where that is not known, and kept where it is known to be within the objective.
func TestCostUntold(t *testing.T) {
	c1 := Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}
	arenas := Lever{ID: "arenas", Env: []string{"MALLOC_ARENA_MAX=1"}, Waits: true}
	hot := Lever{ID: "hot", Options: []string{"-XX:CompileThresholdScaling={scale}"}, Scales: []Scale{{Times: 10, Keeps: 0.85}}}
	for _, c := range []struct {
		name             string
		seconds          float64
		answers          int64
		setup            Setup
		processors       int
		repeat           int
		untold, noDearer bool
	}{
		{"sure to cost less", 40, 4000, c1, 2, 0, false, true},
		{"about as much", 72, 4000, c1, 2, 0, true, false},
		{"about as much, twice", 72, 4000, c1, 2, 1, false, true},
		{"sure to cost more", 110, 4000, c1, 2, 0, false, false},
		{"less work was done", 40, 2000, c1, 2, 0, true, false},
		{"less work was done, for more than all may cost", 110, 2000, c1, 2, 0, false, false},
		{"its threads wait for each other", 40, 4000, Setup{Env: arenas.Env}, 2, 0, false, false},
		{"they share one processor", 40, 4000, Setup{Env: arenas.Env}, 1, 0, false, true},
		{"it is to spend speed", 72, 4000, Setup{Options: []string{"-XX:CompileThresholdScaling=10"}}, 2, 0, false, false},
	} {
		base, tr := costing(Setup{}, PhaseBaseline, 66), costing(c.setup, PhaseLever, c.seconds)
		l := *tr.Result.Load
		l.OK = c.answers
		tr.Result.Load = &l
		tr.Passed, tr.Verdict, tr.AskedShare, tr.SlowElsewhere, tr.Repeat = false, trial.TooSlow, 1/1.1, true, c.repeat
		s := &Search{Levers: []Lever{arenas, hot}, Spare: 1 - 1/1.1, Facts: Facts{Processors: c.processors}, found: Found{Baseline: base, Trials: []Trial{base, base, tr}}}
		if untold, noDearer := s.costUntold(tr), s.noDearer(tr); untold != c.untold || noDearer != c.noDearer {
			t.Errorf("%s: untold %v, no dearer %v (%+v)", c.name, untold, noDearer, s.relativeCost(c.setup, Setup{}))
		}
	}
}

// What tells more of levers that were slow is a baseline where the last one was made long before,
// else the same trial once more.
func TestBaselineTells(t *testing.T) {
	for _, c := range []struct {
		name  string
		made  []float64 // minutes; the last is that of the levers
		tells bool
	}{
		{"when trials were made is not known", nil, false},
		{"right after the baselines", []float64{0, 2, 4}, false},
		{"long after them", []float64{0, 2, 30}, true},
	} {
		tr := costing(adds("-a"), PhaseLever, 72)
		trials := []Trial{costing(Setup{}, PhaseBaseline, 66), costing(Setup{}, PhaseBaseline, 66), tr}
		for i := range trials {
			trials[i].Number = i + 1
			if c.made != nil {
				trials[i].Result.Time = minute(c.made[i])
			}
		}
		s := &Search{found: Found{Baseline: trials[0], Trials: trials}}
		slow := trials[2]
		if got := s.baselineTells(slow); got != c.tells {
			t.Errorf("%s: a baseline tells more: %v", c.name, got)
		}
		if s.hasBeside(slow) {
			t.Errorf("%s: it has a baseline beside it", c.name)
		}
		s.found.Trials = append(s.found.Trials, trials[0])
		if s.found.Trials[3].Passed = true; !s.hasBeside(slow) {
			t.Errorf("%s: it has no baseline beside it", c.name)
		}
		if s.found.Trials[3].Passed = false; s.hasBeside(slow) {
			t.Errorf("%s: a baseline that failed is beside it", c.name)
		}
	}
}

// A smaller heap, and levers that take no processor time, cost collections and nothing else: where
// a trial with them was slow, what the work costs at the best point and what collections took tell
// whether the objective holds.
func TestCollectionsBear(t *testing.T) {
	ran := func(phase Phase, options string, cost time.Duration, collecting float64) Trial {
		group := 1000 * cost
		r := &trial.Result{LoadCPUTime: group, Load: &load.Result{OK: 1000, Elapsed: group}, GCShare: &collecting,
			Times: &runner.Times{Age: group, Group: group, Collector: time.Duration(collecting * float64(group)), JVM: true}}
		return Trial{Attempt{Phase: phase, LimitBytes: 100 * mib, Setup: Setup{Options: strings.Fields(options)}}, Outcome{Passed: true, Result: r, AskedShare: 1 / 1.1}}
	}
	const ms = time.Millisecond
	base, best := ran(PhaseBaseline, "", 10*ms, 0.02), ran(PhaseLever, "-Xmx14m", 9*ms, 0.05)
	compacted := ran(PhaseLever, "-Xmx14m -XX:+UseCompactObjectHeaders", 9*ms, 0.05)
	for _, c := range []struct {
		name string
		best Trial
		t    Trial
		want bool
	}{
		{"slow for another reason", best, ran(PhaseLever, "-Xmx9m", 11500*time.Microsecond, 0.08), true},
		{"slow for its collections", best, ran(PhaseLever, "-Xmx9m", 11500*time.Microsecond, 0.3), false},
		{"little, but the best point has nothing to spare", ran(PhaseLever, "-Xmx14m", 10500*time.Microsecond, 0.05), ran(PhaseLever, "-Xmx9m", 11500*time.Microsecond, 0.1), false},
		{"surely dear", best, ran(PhaseLever, "-Xmx9m", 20*ms, 0.02), false},
		{"levers that take no processor time", base, ran(PhaseLever, "-XX:+UseSerialGC -Xmx14m -XX:+UseCompactObjectHeaders", 11500*time.Microsecond, 0.05), true},
		{"with one that does", base, ran(PhaseLever, "-Xmx14m -XX:TieredStopAtLevel=1", 11500*time.Microsecond, 0.05), false},
		{"without one that is free", compacted, ran(PhaseLever, "-Xmx9m", 11500*time.Microsecond, 0.02), true},
		{"without one that is not", ran(PhaseLever, "-Xmx14m -XX:TieredStopAtLevel=1", 9*ms, 0.05), ran(PhaseLever, "-Xmx9m", 11500*time.Microsecond, 0.02), false},
		{"one of the user's own", best, ran(PhaseLever, "-Xmx14m -Dshop.cache=10", 11500*time.Microsecond, 0.02), false},
	} {
		c.t.Passed, c.t.SlowElsewhere = false, true
		s := &Search{Spare: 1 - 1/1.1, Levers: Levers, best: point{setup: c.best.Setup, at: c.best}, found: Found{Baseline: base, Trials: []Trial{base, c.best, c.t}}}
		if got := s.collectionsBear(c.t); got != c.want {
			cost, _ := s.memoryCost(c.t)
			t.Errorf("%s: %v, memory took %.3f", c.name, got, cost)
		}
	}
	// A trial that cost more than chance may add, with nothing in it that can have cost so much,
	// speaks against levers only where it is surer than one of others.
	free := "-XX:+UseSerialGC -Xmx14m -XX:+UseCompactObjectHeaders"
	for _, c := range []struct {
		name string
		t    Trial
		dear bool
	}{
		{"nothing can have cost it", ran(PhaseLever, free, 12500*time.Microsecond, 0.05), false},
		{"nothing can, but it is twice as much", ran(PhaseLever, free, 20*ms, 0.05), true},
		{"collections did", ran(PhaseLever, "-XX:+UseSerialGC -Xmx9m", 12500*time.Microsecond, 0.4), true},
		{"C1 did", ran(PhaseLever, "-Xmx14m -XX:TieredStopAtLevel=1", 12500*time.Microsecond, 0.05), true},
	} {
		c.t.Passed, c.t.Verdict, c.t.SlowElsewhere = false, trial.TooSlow, true
		s := &Search{Spare: 1 - 1/1.1, Levers: Levers, best: point{at: base}, found: Found{Baseline: base, Trials: []Trial{base, base, c.t}}}
		if got := s.surelyDear(c.t); got != c.dear || s.costUntold(c.t) {
			t.Errorf("%s: %v, cost %+v", c.name, got, s.leverCost(c.t))
		}
	}
}

// Whether threads wait for each other is told by a load without a rate alone.
func TestCollectionsBearWhereThreadsMayWait(t *testing.T) {
	ran := func(phase Phase, cost time.Duration, setup Setup) Trial {
		none := 0.0
		r := &trial.Result{LoadCPUTime: 1000 * cost, Load: &load.Result{OK: 1000, Elapsed: 1000 * cost}, GCShare: &none}
		return Trial{Attempt{Phase: phase, LimitBytes: 100 * mib, Setup: setup}, Outcome{Passed: true, Result: r, AskedShare: 1 / 1.1}}
	}
	base, slow := ran(PhaseBaseline, 10*time.Millisecond, Setup{}), ran(PhaseLever, 11500*time.Microsecond, Setup{Env: []string{"MALLOC_ARENA_MAX=1"}})
	for _, c := range []struct {
		processors   int
		openLoop, ok bool
	}{{1, false, true}, {1, true, true}, {2, false, true}, {2, true, false}} {
		s := &Search{Spare: 1 - 1/1.1, Levers: Levers, OpenLoop: c.openLoop, bar: &base, found: Found{Baseline: base, Trials: []Trial{base, slow}}}
		s.Facts.Processors = c.processors
		if got := s.collectionsBear(slow); got != c.ok {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// What a trial with a heap of another size has told of a lever counts, but for its collections.
func TestForeseenDear(t *testing.T) {
	c1 := Lever{Options: []string{"-XX:TieredStopAtLevel=1"}}
	at := func(phase Phase, seconds, collecting float64, options ...string) Trial {
		tr := costing(Setup{Options: options}, phase, seconds)
		tr.Result.GCShare = &collecting
		return tr
	}
	base, best := at(PhaseBaseline, 66, 0.04), at(PhaseLever, 66, 0.04, "-Xmx21m")
	for _, c := range []struct {
		name string
		with Trial
		dear bool
	}{
		{"dear in a larger heap", at(PhaseLever, 100, 0.04, "-Xmx64m", c1.Options[0]), true},
		{"dear for its collections", at(PhaseLever, 100, 0.35, "-Xmx14m", c1.Options[0]), false},
		{"as cheap", at(PhaseLever, 66, 0.04, "-Xmx64m", c1.Options[0]), false},
		{"never tried", at(PhaseLever, 100, 0.04, "-Xmx64m"), false},
	} {
		s := &Search{Spare: 1 - 1/1.1, best: point{setup: best.Setup, at: best}, found: Found{Baseline: base, Trials: []Trial{base, base, best, c.with}}}
		if times, dear := s.foreseenDear(c1); dear != c.dear {
			t.Errorf("%s: %v, %.2f times", c.name, dear, times)
		}
	}
}

// A gentler scale is tried where it is not sure to lack the speed, a stronger one where it is
// sure to have it.
func TestScale(t *testing.T) {
	c1 := Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}
	hot := Lever{Scales: []Scale{{30, 0.65}, {10, 0.85}}}
	for seconds, want := range map[float64]int{
		36: 30, // 0.54 of the cost
		46: 10, // 0.69: not sure to have 1/0.65 of the speed
		56: 10, // 0.84
		60: 10, // 0.9: not sure to lack 1/0.85
		70: 0,  // 1.05
	} {
		base, tr := costing(Setup{}, PhaseBaseline, 66.5), costing(c1, PhaseLever, seconds)
		s := &Search{best: point{setup: c1, at: tr}, found: Found{Baseline: base, Trials: []Trial{base, base, tr}}}
		if got := s.scale(hot); got != want {
			t.Errorf("%g s: %d, want %d (%+v)", seconds, got, want, s.relativeCost(c1, Setup{}))
		}
	}
}

// A lever with sizes is in a setup with any of them.
func TestLeverIsIn(t *testing.T) {
	hot := Lever{Options: []string{"-XX:CompileThresholdScaling={scale}"}}
	threads := Lever{Env: []string{"SERVER_TOMCAT_THREADS_MAX={threads}"}, Options: []string{"-Xss512k"}}
	for _, c := range []struct {
		lever Lever
		setup Setup
		want  bool
	}{
		{hot, Setup{}, false},
		{hot, Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}, false},
		{hot, Setup{Options: []string{"-XX:CompileThresholdScaling=30"}}, true},
		{threads, Setup{Options: []string{"-Xss512k"}}, false},
		{threads, Setup{Options: []string{"-Xss512k"}, Env: []string{"SERVER_TOMCAT_THREADS_MAX=4"}}, true},
	} {
		if got := c.lever.isIn(c.setup); got != c.want {
			t.Errorf("%v %v in %v %v: %v", c.lever.Options, c.lever.Env, c.setup.Options, c.setup.Env, got)
		}
	}
}

// What a heap costs that follows the limit is not the levers': the trials as given at their
// limits tell it.
func TestHeapThatFollowsTheLimitIsNoLeversCost(t *testing.T) {
	at := func(phase Phase, s Setup, seconds float64) Trial {
		tr := costing(s, phase, seconds)
		tr.LimitBytes, tr.AskedShare, tr.Repeat = 120*mib, 1/1.1, 1
		return tr
	}
	archive, heap := Setup{Options: []string{"-XX:SharedArchiveFile=a"}}, Setup{Options: []string{"-Xmx11m"}}
	base, given := costing(Setup{}, PhaseBaseline, 10), []Trial{at(PhaseAsGiven, Setup{}, 11.6), at(PhaseAsGiven, Setup{}, 11.5)}
	base.LimitBytes = 2048 * mib
	for _, c := range []struct {
		name        string
		given       []Trial
		t           Trial
		within, not bool
	}{
		{"as dear as given", given, at(PhaseLever, archive, 11.5), true, false},
		{"dearer", given, at(PhaseLever, archive, 18), false, true},
		{"no trial as given", nil, at(PhaseLever, archive, 11.5), false, false},
		{"its own heap", given, at(PhaseLever, heap, 11.5), false, false},
	} {
		s := &Search{AmpleBytes: 2048 * mib, MaxTrials: 100, found: Found{Baseline: base, Trials: slices.Concat([]Trial{base, base}, c.given, []Trial{c.t})}}
		if within, not := s.withinCost(c.t), s.surelyDear(c.t); within != c.within || not != c.not {
			t.Errorf("%s: within %v, surely not %v", c.name, within, not)
		}
	}
}

// A lever that sizes the heap to what it is as given at a limit makes the work no dearer than the
// limit does; one with a larger heap that is as dear does.
func TestHeapAsSmallAsGiven(t *testing.T) {
	serial := Setup{Options: []string{"-XX:+UseSerialGC", "-Xmx10m"}}
	collected := func(setup Setup, phase Phase, limit int64, seconds float64, collections int64) Trial {
		tr := costing(setup, phase, seconds)
		share := 0.07
		tr.LimitBytes, tr.Result.Collections, tr.Result.GCShare = limit*mib, collections, &share
		return tr
	}
	base := collected(Setup{}, PhaseBaseline, 2048, 6.2, 5)
	given := collected(Setup{}, PhaseAsGiven, 183, 8.5, 117)
	c1 := Setup{Options: append([]string{"-XX:TieredStopAtLevel=1"}, serial.Options...)} // has the work allocate more
	for _, c := range []struct {
		setup Setup
		often int64
		dear  bool
	}{{serial, 116, false}, {serial, 140, false}, {serial, 60, true}, {c1, 116, true}} {
		sized := collected(c.setup, PhaseLever, 149, 8.4, c.often)
		sized.AskedShare = 1 / 1.1
		s := &Search{Spare: 1 - 1/1.1, AmpleBytes: 2048 * mib, Levers: Levers, found: Found{Baseline: base, Trials: []Trial{base, base, given, sized}}}
		if got := s.surelyDear(sized); got != c.dear {
			t.Errorf("%v, %d collections: surely dear %v, %+v", c.setup.Options, c.often, got, s.leverCost(sized))
		}
	}
}

// A bundle that two trials told to be too dear is not tried a third time by what is left of it.
func TestToldDear(t *testing.T) {
	bundle, best := adds("-Xmx52m", "-XX:TieredStopAtLevel=1"), adds("-Xmx52m")
	slow := func(setup Setup, repeat int) Trial {
		tr := costing(setup, PhaseLever, 80)
		tr.Passed, tr.Verdict, tr.AskedShare, tr.SlowElsewhere, tr.Repeat = false, trial.TooSlow, 1/1.1, true, repeat
		return tr
	}
	base, kept := costing(Setup{}, PhaseBaseline, 66), costing(best, PhaseLever, 60)
	for _, c := range []struct {
		name   string
		trials []Trial
		told   int
	}{
		{"two trials", []Trial{base, slow(bundle, 0), slow(bundle, 1), kept}, 3},
		{"a baseline beside it", []Trial{base, slow(bundle, 0), base, kept}, 2},
		{"one trial", []Trial{base, slow(bundle, 0), kept}, 0},
		{"other options", []Trial{base, slow(best, 0), slow(best, 1), kept}, 0},
		{"memory lacked", []Trial{base, slow(bundle, 0), func() Trial { tr := slow(bundle, 1); tr.SlowElsewhere = false; return tr }(), kept}, 0},
	} {
		for i := range c.trials {
			c.trials[i].Number = i + 1
		}
		s := &Search{found: Found{Baseline: base, Trials: c.trials}}
		if got, told := s.toldDear(bundle); got.Number != c.told || told != (c.told > 0) {
			t.Errorf("%s: trial %d", c.name, got.Number)
		}
	}
}
