package main

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/bench/applications"
	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/trial"
)

// Whatever an application needs, and wherever its usage with ample memory hints,
// the smallest limit is found to the tolerance, in few trials.
func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		need := floorBytes + rng.Int64N(ampleBytes-floorBytes) + 1
		usage := rng.Int64N(ampleBytes + 1)
		trials := 0
		got, err := smallest(ampleBytes, usage, func(limit int64) (bool, error) {
			if limit%mib != 0 || limit <= floorBytes || limit >= ampleBytes {
				t.Fatalf("need %d, usage %d: tried %d", need, usage, limit)
			}
			trials++
			return limit >= need, nil
		})
		if err != nil || got < need || float64(got-need) > max(minTolerance, tolerance*float64(got)) || trials > 35 {
			t.Fatalf("need %d, usage %d: %d after %d trials, %v", need, usage, got, trials, err)
		}
	}
	broken := errors.New("broken")
	if _, err := smallest(ampleBytes, 0, func(int64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestConfirmed(t *testing.T) {
	for _, tt := range []struct {
		name        string
		limit, need int64
		want        int64
	}{
		{"at once", 100 * mib, 100 * mib, 100 * mib},
		{"raised by 3 % twice", 100 * mib, 104 * mib, 107 * mib},
		{"small limits by 2 MiB", 30 * mib, 31 * mib, 32 * mib},
		{"never", 100 * mib, ampleBytes + 1, 0},
	} {
		runs := map[int64]int{}
		got, err := confirmed(tt.limit, ampleBytes, 3, func(limit int64) (bool, error) { runs[limit]++; return limit >= tt.need, nil })
		if err != nil || got != tt.want || got > 0 && runs[got] != 3 {
			t.Errorf("%s: %d, %v, runs %v", tt.name, got, err, runs)
		}
	}
}

func TestGrid(t *testing.T) {
	limits := gridLimits(300*mib, 60*mib)
	for i, l := range limits[1:] {
		if step := limits[i] - l; step < mib || float64(step) > tolerance*float64(limits[i])+mib {
			t.Errorf("%d after %d", l, limits[i])
		}
	}
	if limits[0] != 300*mib || limits[len(limits)-1] > 62*mib {
		t.Errorf("from %d to %d", limits[0], limits[len(limits)-1])
	}
	var trials []record
	for _, x := range []struct {
		limit   int64
		verdict trial.Verdict
	}{{100, trial.Passed}, {98, trial.TooSlow}, {96, trial.TooSlow}, {96, trial.Passed}, {94, trial.Passed}, {92, trial.TooSlow}, {92, trial.TooSlow},
		{90, trial.OOMKilled}, {88, trial.Passed}} {
		trials = append(trials, record{LimitBytes: x.limit, Verdict: x.verdict, Took: 2})
	}
	if limit, took := gridSmallest(trials); limit != 94 || took != 18 {
		t.Errorf("%d, %g", limit, took)
	}
}

// open has what the bench keeps written to its file.
func open(t *testing.T, b *bench) {
	t.Helper()
	if err := b.openState(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.kept.Close() })
}

// testBench has one application on one JDK.
func testBench(t *testing.T) *bench {
	dir := t.TempDir()
	b := &bench{load: 10 * time.Second, confirmations: 3, warm: 1, plan: "p", state: filepath.Join(dir, "s.jsonl"), packed: filepath.Join(dir, "p.jsonl"+records.Packed),
		ways: ways.All(""), apps: measured[:1], shapes: allShapes[:1]}
	open(t, b)
	return b
}

func (b *bench) answer(t *testing.T, way string, limit int64, rate float64, failure string) {
	t.Helper()
	r := record{key: key{cell: cell{"sysinfo", "25x1"}, Way: way, Stage: answering}, JDK: "25.0.3", LimitBytes: limit * mib, Took: 60,
		Rows: map[string]int64{"java-heap": 30 * mib, "metaspace": 20 * mib}, Answer: &answer{Failure: failure, Throughput: rate, Trials: 9, Confirmations: 3}}
	if err := b.keep(r); err != nil {
		t.Fatal(err)
	}
}

// made keeps trials of tare: limits in MiB and verdicts in turn.
func (b *bench) made(t *testing.T, s stage, trials ...any) {
	t.Helper()
	for i := 0; i < len(trials); i += 2 {
		r := record{key: key{cell: cell{"sysinfo", "25x1"}, Way: wayTare, Stage: s, Number: i/2 + 1}, JDK: "25.0.3", Took: 30,
			LimitBytes: int64(trials[i].(int)) * mib, Verdict: trials[i+1].(trial.Verdict)}
		if err := b.keep(r); err != nil {
			t.Fatal(err)
		}
	}
}

// pair keeps trials made in turn: what tare's served, then the other's.
func (b *bench) pair(t *testing.T, other string, limit int64, rates ...[2]float64) {
	t.Helper()
	for i, rate := range rates {
		for j, way := range []string{wayTare, other} {
			r := record{key: key{cell: cell{"sysinfo", "25x1"}, Way: way, Stage: pairing, Number: i + 1}, JDK: "25.0.3", LimitBytes: limit * mib, Verdict: trial.Passed, Throughput: rate[j]}
			if err := b.keep(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Trials of an answer do not count for the next one, nor what was made beside them.
func TestAnswerAnew(t *testing.T) {
	b := testBench(t)
	pace := record{key: key{cell: cell{"sysinfo", "25x1"}, Way: ways.Defaults, Stage: proving + beside, Number: 1}, Verdict: trial.Passed}
	b.answer(t, ways.Defaults, 100, 1000, "")
	b.answer(t, wayTare, 60, 990, "")
	b.made(t, proving, 60, trial.Passed, 60, trial.Passed)
	b.pair(t, ways.Defaults, 100, [2]float64{990, 1000})
	if err := b.keep(pace); err != nil {
		t.Fatal(err)
	}
	b.answer(t, wayTare, 58, 990, "")
	b.made(t, proving, 58, trial.Passed)
	for range 2 { // as remembered, and as read
		if got := len(b.of(pace.cell, wayTare, proving)) + len(b.of(pace.cell, ways.Defaults, pace.Stage)) + len(b.of(pace.cell, ways.Defaults, pairing)); got != 1 || b.found(pace.cell, ways.Defaults) == nil {
			t.Errorf("%d trials, want 1", got)
		}
		if err := b.readState(); err != nil {
			t.Fatal(err)
		}
	}
}

// The goals are judged by the best of the others, and what a goal is missed for
// is named.
func TestText(t *testing.T) {
	b := testBench(t)
	b.ways, _ = ways.Named(b.ways, []string{ways.Defaults, ways.Percent, ways.Paketo})
	b.answer(t, ways.Defaults, 100, 1000, "")
	b.answer(t, ways.Percent, 96, 900, "")
	b.answer(t, ways.Paketo, 0, 0, "with 2048 MiB it is crashed")
	b.answer(t, wayTare, 60, 990, "")
	b.pair(t, ways.Percent, 96, [2]float64{800, 1000}, [2]float64{1200, 1000}, [2]float64{660, 600}, [2]float64{900, 100})
	failed := b.of(cell{"sysinfo", "25x1"}, ways.Percent, pairing)[3]
	failed.Verdict = trial.OOMKilled
	if err := b.keep(failed); err != nil {
		t.Fatal(err)
	}
	b.made(t, gridding, 100, trial.Passed, 61, trial.Passed, 58, trial.Passed, 57, trial.OOMKilled, 56, trial.OOMKilled, 55, trial.Passed)
	b.made(t, proving, 60, trial.Passed, 60, trial.Passed)
	b.made(t, warming, 60, trial.OOMKilled, 60, trial.OOMKilled)
	b.made(t, halved, 60, trial.Passed, 60, trial.TooSlow)
	b.made(t, below, 54, trial.Passed, 54, trial.TooSlow, 54, trial.OOMKilled, 54, trial.Stalled)
	waited := b.of(cell{"sysinfo", "25x1"}, wayTare, below)[0]
	waited.Waited = trial.StalledShare
	if err := b.keep(waited); err != nil {
		t.Fatal(err)
	}
	again := testBench(t)
	again.state, again.packed = b.state, b.packed
	if err := again.readState(); err != nil {
		t.Fatal(err)
	}
	if text := again.text(); !strings.Contains(text, "Not measured yet: sysinfo run-java.sh, sysinfo Red Hat.") || strings.Contains(text, "goal at most 0.50") {
		t.Errorf("goals are judged without some ways:\n%s", text)
	}
	again.ways = b.ways
	again.apps = measured[:2]
	if text := again.text(); !strings.Contains(text, "Over 1 of 2 applications") || !strings.Contains(text, "in pairs: 1.10; goal at least 1.00: so far") || !strings.Contains(text, "goal at most 0.50: not reached") {
		t.Errorf("a goal is reached without an application:\n%s", text)
	}
	again.apps = b.apps
	text := again.text()
	for _, want := range []string{
		"| sysinfo | defaults | 100 | 1.04 | 1000 |", "| sysinfo | 75% | 96 | 1.00 | 900 |", "none: with 2048 MiB it is crashed",
		"| sysinfo | tare | 60 | 0.62 | 990 | none: 2 oom-killed |", "| 1000 | not measured |",
		"of the best other's: 0.62; goal at most 0.50: not reached", "throughput of that other's, in pairs: 1.10; goal at least 1.00: reached", "| 1 | 1.10 (0.80 … 1.20); the other's: 1 oom-killed |",
		"sysinfo, at 0.62: java-heap 30.0, metaspace 20.0", "trials before confirming: 9 (9 … 9); goal at most 12 in each: reached",
		"| sysinfo | 25x1 | 60 | 58 | +3.4 % | 1 | 6, 3 |", "within 3 % of the grid's: not reached", "within a quarter of the grid's time: not reached",
		"| sysinfo | 25x1 | 0 of 2 | 0 of 2: 1 too-slow | 2 of 4: 1 oom-killed, 1 stalled, 1 too-slow; 1 waited |", "memory lacks in 0 of 4; goal at most 1 in 400, and 1 in each cell: reached", "it lacks in at least half at 0.9 of it: reached",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// A way that fails at the best other's limit is not searched further; one that
// passes there is searched below it.
func TestOver(t *testing.T) {
	b := testBench(t)
	b.all, b.plan = b.ways, ""
	b.answer(t, ways.Defaults, 100, 1000, "")
	b.answer(t, wayTare, 60, 990, "")
	way, err := ways.Named(b.ways, []string{ways.Percent})
	if err != nil {
		t.Fatal(err)
	}
	options, err := way[0].Options(ways.Container{JDK: "25"})
	if err != nil {
		t.Fatal(err)
	}
	m := &measurer{bench: b, cell: cell{"sysinfo", "25x1"}, shape: allShapes[0]}
	search := func(trials ...any) *record {
		t.Helper()
		for i := 0; i < len(trials); i += 3 {
			r := record{key: key{cell: m.cell, Way: ways.Percent, Stage: trials[i].(stage), Number: i/3 + 1}, Options: options,
				LimitBytes: int64(trials[i+1].(int)) * mib, PeakBytes: 99 * mib, Verdict: trials[i+2].(trial.Verdict), Throughput: 1}
			if err := b.keep(r); err != nil {
				t.Fatal(err)
			}
		}
		delete(b.done, key{m.cell, ways.Percent, answering, 0, b.plan})
		p := &peer{measurer: m, way: way[0]}
		found, err := p.search(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	r := search(searching, 2048, trial.Passed, searching, 100, trial.OOMKilled)
	if r.Answer.Over != trial.OOMKilled || r.LimitBytes != 100*mib || r.Answer.found() || r.Answer.Trials != 2 {
		t.Errorf("%+v %+v", r, r.Answer)
	}
	if best := b.best(m.cell); best == nil || best.Way != ways.Defaults {
		t.Errorf("the best other is %+v", best)
	}
	if text := b.text(); !strings.Contains(text, "| sysinfo | 75% | over 100: oom-killed | | | | | 2 + 0 |") {
		t.Errorf("in the report:\n%s", text)
	}

	r = search(searching, 2048, trial.Passed, searching, 100, trial.Passed, searching, 99, trial.Passed, searching, 57, trial.OOMKilled, searching, 78, trial.OOMKilled,
		searching, 88, trial.OOMKilled, searching, 93, trial.OOMKilled, searching, 96, trial.OOMKilled, searching, 97, trial.Passed,
		confirming, 97, trial.Passed, confirming, 97, trial.Passed, confirming, 97, trial.Passed)
	if !r.Answer.found() || r.LimitBytes != 97*mib || r.Answer.Trials != 9 || r.Answer.Confirmations != 3 {
		t.Errorf("%+v %+v", r, r.Answer)
	}

	r = search(searching, 2048, trial.Passed, searching, 100, trial.Passed, searching, 99, trial.Passed, searching, 57, trial.OOMKilled, searching, 78, trial.OOMKilled,
		searching, 88, trial.OOMKilled, searching, 93, trial.OOMKilled, searching, 96, trial.OOMKilled, searching, 97, trial.Passed,
		confirming, 97, trial.OOMKilled, confirming, 100, trial.Passed, confirming, 100, trial.Stalled)
	if r.Answer.Over != trial.Stalled || r.LimitBytes != 100*mib || r.Answer.Confirmations != 3 {
		t.Errorf("%+v %+v", r, r.Answer)
	}
}

// A limit is raised until all fresh runs pass; what is slow without memory's part is made
// anew, up to a quarter of them. A way that starts above the best is not tried.
func TestEqual(t *testing.T) {
	b := testBench(t)
	b.all, b.plan, b.fresh = b.ways, "", 4
	c := cell{"sysinfo", "25x1"}
	keep := func(way string, s stage, limit int64, verdict trial.Verdict, number int, seconds float64) {
		t.Helper()
		options, err := []string(nil), error(nil)
		if way == ways.Percent {
			options = []string{"-XX:MaxRAMPercentage=75.0"}
		}
		if err = b.keep(record{key: key{cell: c, Way: way, Stage: s, Number: number}, LimitBytes: limit * mib, Options: options, Verdict: verdict, Throughput: 100, Requests: 5000, Processor: seconds}); err != nil {
			t.Fatal(err)
		}
	}
	b.answer(t, ways.Percent, 96, 900, "")
	b.answer(t, ways.Defaults, 98, 1000, "")
	b.answer(t, ways.Paketo, 500, 1000, "")
	b.answer(t, wayTare, 50, 990, "")
	for n := range baselines {
		keep(ways.Defaults, freshly+beside, ampleBytes/mib, trial.Passed, n+1, 0.001)
	}
	runs := func(way string, limit int64, seconds float64, verdicts ...trial.Verdict) {
		before := len(b.of(c, way, freshly))
		for i, v := range verdicts {
			keep(way, freshly, limit, v, before+i+1, seconds)
		}
	}
	ok := trial.Passed
	runs(ways.Percent, 96, 0.002, ok, trial.OOMKilled)
	runs(ways.Percent, 99, 0.002, ok, trial.TooSlow, ok, ok, ok)
	runs(ways.Defaults, 98, 0.002, ok, ok, ok, trial.Stalled)
	runs(ways.Defaults, 99, 0.002, trial.TooSlow, trial.TooSlow)
	runs(wayTare, 50, 0.001, ok, ok, ok, ok)
	b.answer(t, wayHand, 48, 990, "")
	runs(wayHand, 48, 0.001, ok, ok, ok, ok)
	m := &measurer{bench: b, cell: c, shape: allShapes[0], app: b.apps[0]}
	if err := m.measureFresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := b.text()
	for _, want := range []string{
		"| sysinfo | 25x1 | defaults | over 99: too-slow | | 6 | 1 | |", "| sysinfo | 25x1 | 75% | 99 | 1.00 | 7 | 1 | 2.00 (2.00 … 2.00) |",
		"| sysinfo | 25x1 | Paketo | not tried: 500 or more |", "| sysinfo | 25x1 | tare | 50 | 0.51 | 4 | 0 | 1.00 (1.00 … 1.00) |", "Over 1 of 1 applications",
		"limit of the best other's: 0.51; goal at most 0.55: reached", "for a request of that other's: 0.50; goal at most 1.00: reached", "fewest requests of a run were 5000",
		"| sysinfo | 25x1 | 50 | 48 | 1.04 | 0.48 | 9 | `", "at most 1.05 of it in each: so far",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if err := m.measureFresh(t.Context()); err != nil || b.equalled(c, ways.Percent).LimitBytes != 99*mib {
		t.Errorf("measured again: %v", err)
	}
}

// The beam finds the set that needs least, though one of its levers costs by itself, and
// its smallest limit. A set has one lever of a name, and what an archive is trained with
// comes before it.
func TestHand(t *testing.T) {
	saves := map[string]int64{"-XX:+UseSerialGC": 8, "-XX:+UseCompactObjectHeaders": 1, "-XX:TieredStopAtLevel=1": 9, "MALLOC_ARENA_MAX=1": 2, "-Xss512k": -1,
		"-XX:CompileThresholdScaling=10": 1, "archive hand-0": 5, "archive hand-0-1": 7, "archive hand": -2, "-Xmx10m": 10, "-Xmx13m": 7, "-Xmn1m": 2, "-Xmn3m": 1}
	need := func(r record) int64 {
		need, xmx, trained := int64(90), 0, true
		for _, o := range append(slices.Clone(r.Env), r.Options...) {
			need -= saves[o]
			if strings.HasPrefix(o, "-Xmx") {
				xmx++
			}
			if strings.HasPrefix(o, "archive") {
				trained = false
			} else if !trained && strings.HasPrefix(o, "-XX:+Use") {
				t.Fatalf("after the archive: %q", r.Options)
			}
			if o == "-XX:ArchiveRelocationMode=0" && !trained {
				need -= 3
			}
		}
		if xmx > 1 {
			t.Fatalf("several heaps: %q", r.Options)
		}
		return need * mib
	}
	h := &hand{limit: 100 * mib, archive: func(name string) string { return "archive " + name }}
	h.try = func(limit int64, chosen record) (record, error) {
		r := record{NeededBytes: need(chosen), Verdict: trial.OOMKilled}
		r.Rows = map[string]int64{"java-heap": r.NeededBytes, "mapped-files": 20 * mib}
		if slices.Contains(chosen.Options, "-Xmx6m") || slices.Contains(chosen.Options, "-Xmx8m") {
			return r, nil // too small
		}
		if limit >= r.NeededBytes+3*mib {
			r.Verdict = trial.Passed
		}
		return r, nil
	}
	heap, err := h.smallestHeap()
	if err != nil || heapLadder[heap] != 10 {
		t.Fatalf("%d, %v", heap, err)
	}
	h.levers = handLevers(heap)
	sets, err := h.beam()
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.finish(sets)
	want := []string{"-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders", "archive hand-0-1", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=10",
		"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0", "-Xmx10m", "-Xmn1m"}
	// 90 - 8 - 1 - 7 - 9 - 1 - 3 - 10 - 2 - 2 = 47, 3 more to pass, and the tolerance.
	if err != nil || !slices.Equal(got.Options, want) || !slices.Equal(got.Env, []string{"MALLOC_ARENA_MAX=1"}) || got.LimitBytes < 50*mib || got.LimitBytes > 52*mib {
		t.Errorf("%q %q, %d MiB, %v", got.Env, got.Options, got.LimitBytes/mib, err)
	}
}

// A rule's limit is confirmed, and none is searched.
func TestRule(t *testing.T) {
	b := testBench(t)
	b.all, b.plan = b.ways, ""
	m := &measurer{bench: b, cell: cell{"sysinfo", "25x1"}, shape: allShapes[0]}
	for _, tt := range []struct {
		verdict trial.Verdict
		found   bool
	}{{trial.Passed, true}, {trial.OOMKilled, false}} {
		b.done = map[key]record{}
		for i, v := range []trial.Verdict{trial.Passed, trial.Passed, trial.Passed, tt.verdict} {
			r := record{key: key{cell: m.cell, Way: ways.KRR, Stage: confirming, Number: i + 1}, LimitBytes: 230 * mib, Verdict: v, Throughput: 1}
			if i == 0 {
				r.Stage, r.LimitBytes, r.WorkingSet = searching, ampleBytes, 200*mib
			}
			if err := b.keep(r); err != nil {
				t.Fatal(err)
			}
		}
		p := &peer{measurer: m, way: ways.More()[1]}
		r, err := p.rule(t.Context())
		if err != nil || r.Answer.found() != tt.found || tt.found != (r.LimitBytes == 230*mib) || r.Answer.Confirmations != 3 {
			t.Errorf("%s: %+v %+v, %v", tt.verdict, r, r.Answer, err)
		}
	}
}

// What was measured with another load does not count.
func TestOtherPlan(t *testing.T) {
	b := testBench(t)
	b.answer(t, ways.Defaults, 100, 1000, "")
	b.plan = "other"
	if b.found(cell{"sysinfo", "25x1"}, ways.Defaults) != nil {
		t.Error("found")
	}
}

// What tare fit writes is read: the field names are those of its report.
func TestFitted(t *testing.T) {
	at := func(p fit.Phase) fit.Trial {
		return fit.Trial{Attempt: fit.Attempt{Phase: p, LimitBytes: 64 * mib}, Outcome: fit.Outcome{Passed: true, Verdict: trial.Passed,
			Throughput: 500, PeakBytes: 60 * mib, Measured: trial.Measured{Start: 2 * time.Second}}}
	}
	res := &fit.Result{}
	res.LimitBytes, res.Setup.Options, res.Took = 64*mib, []string{"-Xmx30m"}, 3*time.Minute
	res.Baseline, res.AsGiven = at(fit.PhaseBaseline), at(fit.PhaseLever)
	res.Confirmations = []fit.Trial{at(fit.PhaseConfirm), at(fit.PhaseConfirm)}
	res.Trials = append([]fit.Trial{res.Baseline, res.AsGiven, at(fit.PhaseLong)}, res.Confirmations...)
	text, err := json.Marshal(report.NewFitJSON(res, nil))
	if err != nil {
		t.Fatal(err)
	}
	var f fitted
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	r := f.record("errors=0")
	if r.LimitBytes != 64*mib || !slices.Equal(r.Options, []string{"-Xmx30m"}) || r.Took != 180 || r.PeakBytes != 60*mib || r.Answer.Trials != 2 ||
		r.Answer.Confirmations != 2 || r.Answer.Ready != 2 || r.Answer.Failure != "" {
		t.Errorf("%+v %+v", r, r.Answer)
	}
	failed, err := json.Marshal(report.NewFitJSON(res, errors.New("no limit")))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(failed, &f); err != nil || f.record("").Answer.Failure != "no limit" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestGeometric(t *testing.T) {
	if got := geometric([]float64{0.5, 2}); math.Abs(got-1) > 1e-12 {
		t.Error(got)
	}
}

// A report names the flags that make it, unless they are those that make has.
func TestReport(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil || !strings.Contains(string(makefile), "\nPEERS ?= "+usualFlags+"\n") {
		t.Errorf("make has other flags than %s: %v", usualFlags, err)
	}
	for _, c := range []struct {
		b             bench
		name, command string
	}{
		{bench{load: usualLoad, confirmations: usualConfirmations, proof: 20, grid: true}, "peers", "make bench-peers"},
		{bench{load: 30 * time.Second, confirmations: usualConfirmations}, "peers-30s", "make bench-peers PEERS='-load 30s'"},
		{bench{load: usualLoad, confirmations: 1, fresh: 20, proof: 20, hand: true}, "peers-fresh", "make bench-peers PEERS='-fresh 20 -confirmations 1 -proof 20 -hand'"},
	} {
		if name, _, command := c.b.report(); name != c.name || command != c.command {
			t.Errorf("%s: %s, want %s: %s", name, command, c.name, c.command)
		}
	}
}

// The trials that the report was made of can be read.
func TestRawTrials(t *testing.T) {
	n := 0
	if err := records.ReadFile(filepath.Join("..", "..", rawFile), records.Into(func(r record) {
		n++
		if r.App == "" || r.Shape == "" || r.Way == "" || r.Stage == "" || r.Plan == "" || r.Stage == answering && r.Answer == nil {
			t.Errorf("record %d: %+v", n, r)
		}
	})); err != nil {
		t.Fatal(err)
	}
}

// The file names what lies in the cache without the cache's folder.
func TestCacheOfRecords(t *testing.T) {
	cache := t.TempDir()
	archive := filepath.Join(cache, "archives", "app.aot")
	b := bench{cache: cache, state: filepath.Join(t.TempDir(), "state.jsonl")}
	open(t, &b)
	r := record{key: key{Way: wayTare, Stage: answering}, Options: []string{"-Xmx20m", "-XX:AOTCache=" + archive}, Jar: filepath.Join(cache, "app.jar")}
	if err := b.keep(r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(b.state)
	if err != nil || strings.Contains(string(text), cache) || !strings.Contains(string(text), `"-XX:AOTCache={cache}/archives/app.aot"`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := b.readState(); err != nil {
		t.Fatal(err)
	}
	got := b.done[r.key]
	if !slices.Equal(got.Options, r.Options) || got.Jar != r.Jar {
		t.Errorf("got %+v, want %+v", got, r)
	}
}

// A report moves what was measured to the packed file, with which the bench goes on.
func TestPack(t *testing.T) {
	b := testBench(t)
	b.made(t, proving, 60, trial.Passed)
	if err := b.pack(); err != nil {
		t.Fatal(err)
	}
	b.made(t, below, 54, trial.Stalled)
	again := *b
	if err := again.readState(); err != nil {
		t.Fatal(err)
	}
	c := cell{"sysinfo", "25x1"}
	if at, under := again.of(c, wayTare, proving), again.of(c, wayTare, below); len(at) != 1 || len(under) != 1 {
		t.Errorf("%d and %d trials, want 1 and 1", len(at), len(under))
	}
	text, err := os.ReadFile(b.state)
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("not yet packed: %s, %v", text, err)
	}
}

// An archive that another machine had is made anew, and the JVM takes it.
func TestRemake(t *testing.T) {
	sysinfo := jvmtest.Jar(t, "sysinfo.jar")
	for _, c := range []struct {
		shape, archive, use string
	}{
		{"17x1", "app.jsa", "-XX:SharedArchiveFile="},
		{"25x1", "app.aot", "-XX:AOTCache="},
	} {
		b := &bench{apps: measured, shapes: allShapes, cache: t.TempDir(), load: time.Second, log: t.Output()}
		if err := b.openRunner(); err != nil {
			t.Fatal(err)
		}
		m := &measurer{bench: b, cell: cell{"sysinfo", c.shape}}
		m.app, m.shape = b.app(m.cell), b.shape(m.cell)
		m.app.Command = func(p applications.Place) []string {
			return []string{"-jar", sysinfo, "--port", strconv.Itoa(p.Port), "--log-level", "error"}
		}
		major, err := strconv.Atoi(m.shape.jdk)
		if err != nil {
			t.Fatal(err)
		}
		if m.java, err = runner.FindJava(t.Context(), jvmtest.Java(t, major)); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(b.cache, "archives", c.archive)
		found := record{Options: []string{"-XX:+UseSerialGC", c.use + archive, "-Xmx1m"}}
		if err := m.remake(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		made, err := os.Stat(archive)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(m.java.Path, "-XX:+UseSerialGC", c.use+archive, "-Xlog:class+load=info", "-jar", sysinfo, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "dev.tare.sysinfo.Main source: shared objects file") {
			t.Errorf("%s: %v: %s", c.shape, err, out)
		}
		if err := m.remake(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		if again, err := os.Stat(archive); err != nil || !again.ModTime().Equal(made.ModTime()) {
			t.Errorf("%s: an archive that is there is made again: %v", c.shape, err)
		}
		chosen, err := m.chosen(ways.More()[0], 100*mib)
		if err = errors.Join(err, m.remake(t.Context(), chosen)); err != nil || chosen.Jar != "" || len(chosen.Options) != 2 {
			t.Fatalf("%s: %+v, %v", c.shape, chosen, err)
		}
		if file, ok := strings.CutPrefix(chosen.Options[1], c.use); !ok || gone(file) {
			t.Errorf("%s: no archive of a way that has one: %q", c.shape, chosen.Options)
		}
	}
}

// What was measured on another build of the JDK is measured anew; records of before
// builds were noted count.
func TestBuildsAreNotMixed(t *testing.T) {
	c := cell{"sysinfo", "25x1"}
	b := &bench{done: map[key]record{}}
	for i, build := range []string{"", "25.0.3+1 A", "25.0.4+1 A"} {
		r := record{key: key{cell: c, Way: ways.Defaults, Stage: proving, Number: i}, Build: build}
		b.done[r.key] = r
	}
	b.forget(c, "25.0.4+1 A")
	for i, want := range []bool{true, false, true} {
		if _, ok := b.done[key{cell: c, Way: ways.Defaults, Stage: proving, Number: i}]; ok != want {
			t.Errorf("record %d is kept: %t", i, ok)
		}
	}
}
