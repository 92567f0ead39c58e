package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew), got:\n%s", name, got)
	}
}

// fitResult is a fit as it might have gone.
func fitResult(t *testing.T) *fit.Result {
	t.Helper()
	slo, err := trial.ParseSLO("errors=0 throughput>=0.9x")
	if err != nil {
		t.Fatal(err)
	}
	ready, err := trial.ParseReady("http://127.0.0.1:8080/health")
	if err != nil {
		t.Fatal(err)
	}
	target, err := load.ParseTarget("http://127.0.0.1:8080/owners")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	number := 0
	run := func(phase fit.Phase, lever string, setup fit.Setup, limit int64, v trial.Verdict, rate int64, p99 time.Duration, evidence ...string) fit.Trial {
		number++
		share := 0.043
		l := &load.Result{Due: rate * 10, Sent: rate * 10, OK: rate * 10, Elapsed: 10 * time.Second, Latency: load.Latency{P50: load.TimeOf(p99 / 8), P90: load.TimeOf(p99 / 2), P99: load.TimeOf(p99), P999: load.TimeOf(p99 * 2), Max: load.TimeOf(p99 * 3)}}
		speed, _ := l.Throughput()
		m := trial.Measured{Load: l, Start: 2700 * time.Millisecond}
		r := &trial.Result{Verdict: v, Evidence: evidence, Time: begin.Add(time.Duration(number) * time.Minute), Load: l, ReadyAfter: m.Start, GCShare: &share, Took: 14 * time.Second}
		return fit.Trial{
			Attempt: fit.Attempt{Number: number, Phase: phase, Lever: lever, Setup: setup, LimitBytes: limit * MiB},
			Outcome: fit.Outcome{Passed: v == trial.Passed, Verdict: v, Throughput: speed, Measured: m, PeakBytes: min(limit, 304) * MiB,
				NeededBytes: min(limit, 304) * MiB * 9 / 10, LiveBytes: 21 * MiB, Took: r.Took, Result: r}}
	}
	serial := fit.Setup{Options: []string{"-XX:+UseSerialGC", "-Xmx52m", "-XX:+ExitOnOutOfMemoryError"}}
	full := fit.Setup{Options: append(append([]string{}, serial.Options...), "-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=/home/me/fit out/app.jsa"), Env: []string{"MALLOC_ARENA_MAX=1"}}
	r := &fit.Result{Time: begin, Took: 7*time.Minute + 3*time.Second,
		Machine: fit.Machine{Kernel: "6.12.0", Arch: "amd64", CPUs: 2, MemoryBytes: 24 << 30},
		Archive: "/home/me/fit out/app.jsa", TrainOption: "-XX:ArchiveClassesAtExit=/home/me/fit out/app.jsa", UnpaidBytes: 3 * MiB, Warnings: []string{"the fastest baseline was 17 % faster than the slowest"},
		Config: fit.Record{
			Command: jvmopts.Command{Java: "java", Options: []string{"-Dgreeting=it's here"}, Main: []string{"-jar", "app.jar"}, Args: []string{"--port", "8080"}},
			Java:    fit.Java{Path: "/usr/bin/java", Home: "/usr/lib/jvm/17", Version: "17.0.15"}, CPUs: 1, Ready: ready, SLO: slo,
			Env:  []string{"JAVA_TOOL_OPTIONS=-Duser.timezone=UTC"},
			Load: load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Concurrency: 32}}.Describe(), Warmup: 5 * time.Second, Duration: 10 * time.Second}}
	r.Trials = []fit.Trial{
		run(fit.PhaseBaseline, "", fit.Setup{}, 2048, trial.Passed, 117, 1050*time.Millisecond),
		run(fit.PhaseAsGiven, "", fit.Setup{}, 304, trial.Passed, 115, 1060*time.Millisecond),
		run(fit.PhaseAsGiven, "", fit.Setup{}, 296, trial.OOMKilled, 80, 2*time.Second, "the kernel killed in the group (oom_kill 1): its limit of 296 MiB was reached"),
		run(fit.PhaseLever, "serial collector, heap by live set", serial, 240, trial.Passed, 121, 900*time.Millisecond),
		run(fit.PhaseLever, "C1 alone", full, 170, trial.Passed, 178, 800*time.Millisecond),
		run(fit.PhaseRefine, "", full, 164, trial.TooSlow, 98, 1900*time.Millisecond, "throughput is 98.0/s, wanted >= 105.3/s (throughput>=0.9x)"),
	}
	r.Trials[5].Narrow = true
	for range 3 {
		r.Confirmations = append(r.Confirmations, run(fit.PhaseConfirm, "", full, 170, trial.Passed, int64(170+number), 810*time.Millisecond))
	}
	r.Trials = append(r.Trials, r.Confirmations...)
	r.Baseline, r.AsGiven, r.LimitBytes, r.Setup, r.RaisedFrom, r.FailBelow = r.Trials[0], r.Trials[1], 170*MiB, full, 166*MiB, &r.Trials[5]
	r.MarginBytes, r.AsGivenFails = 4*MiB, 296*MiB
	r.Need = &fit.Need{MeanBytes: 159 * MiB, BoundBytes: 170 * MiB, HeldBytes: 131 * MiB, CacheBytes: 27 * MiB, TriedBytes: -1 * MiB, GrowthBytes: 2 * MiB, Samples: 6, Pressed: true, Deviation: 0.019, Freedom: 20, Assumed: 13}
	r.AtLimit = fit.RelativeCost{CostRatio: 1.06, CostLow: 0.97, CostHigh: 1.15}
	r.ProofCost = fit.RelativeCost{CostRatio: 1.01, CostLow: 0.95, CostHigh: 1.07}
	long, half := run(fit.PhaseLong, "", full, 170, trial.Passed, 181, 820*time.Millisecond), run(fit.PhaseHalf, "", full, 170, trial.TooSlow, 77, 2*time.Second)
	r.Trials, r.Long, r.Half = append(r.Trials, long, half), &long, &half
	lever := func(id string) fit.Lever {
		return fit.Levers[slices.IndexFunc(fit.Levers, func(l fit.Lever) bool { return l.ID == id })]
	}
	little := int64(300 << 10)
	r.Levers = []fit.LeverResult{
		{Lever: lever("stacks"), BoundBytes: &little, Reason: "could save at most 0.3 MiB"},
		{Lever: lever("collector"), Setup: serial, Kept: true, SavedBytes: 64 * MiB, Before: 2, Trial: 4},
		{Lever: lever("c1"), Setup: fit.Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}, Kept: true, SavedBytes: 58 * MiB, Before: 4, Trial: 5},
		{Lever: lever("arenas"), Reason: "yours: MALLOC_ARENA_MAX=4"},
		{Lever: lever("archive"), Setup: fit.Setup{Options: []string{"-XX:SharedArchiveFile=/home/me/fit out/app.jsa"}}, Kept: true, SavedBytes: 58 * MiB, Before: 4, Trial: 5},
	}
	r.Frontier = []fit.FrontierPoint{
		{Trial: 2, NeededBytes: 300 * MiB, BoundBytes: 304 * MiB, RelativeCost: fit.RelativeCost{CostRatio: 1, CostLow: 1, CostHigh: 1}, SpeedRatio: 1},
		{Setup: serial, Levers: []string{"serial collector, heap by live set"}, Trial: 4, NeededBytes: 228 * MiB, BoundBytes: 240 * MiB, RelativeCost: fit.RelativeCost{CostRatio: 0.84, CostLow: 0.72, CostHigh: 0.98}, SpeedRatio: 1.05,
			PickedBy: []fit.Prefer{fit.PreferThroughput}},
		{Setup: full, Levers: []string{"serial collector, heap by live set", "C1 alone", "application class archive"}, Trial: 5, NeededBytes: 160 * MiB, BoundBytes: 172 * MiB,
			RelativeCost: fit.RelativeCost{CostRatio: 0.91, CostLow: 0.8, CostHigh: 1.04}, SpeedRatio: 1.55, PickedBy: []fit.Prefer{fit.PreferMemory, fit.PreferBalanced}},
	}
	r.Peak = &footprint.Footprint{RSSBytes: 150 * MiB, Rows: []footprint.Row{
		{Owner: footprint.JavaHeap, ResidentBytes: 52 * MiB, How: footprint.Exact}, {Owner: footprint.Malloc, ResidentBytes: 37 * MiB, How: footprint.Layout},
		{Owner: footprint.MappedFiles, ResidentBytes: 60 * MiB, How: footprint.Exact}, {Owner: footprint.GC}, {Owner: footprint.Unattributed, ResidentBytes: MiB}}}
	return r
}

func TestFitText(t *testing.T) {
	var b bytes.Buffer
	if err := document.WriteText(&b, Fit(fitResult(t)), document.Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "fit.txt", b.Bytes())
	if strings.Contains(b.String(), "\x1b") {
		t.Error("escape sequences in plain text")
	}
	next := strings.Index(b.String(), "\nNext: ")
	for line := range strings.Lines(b.String()[:next]) {
		if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > 80 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestFitSaysHowFarTheLimitAsGivenIsKnown(t *testing.T) {
	r := fitResult(t)
	for _, c := range []struct {
		passes, fails       int64
		asGiven, change, is string
	}{
		{304, 296, "304 MiB", "-44 %", "known"},
		{2048, 248, "248 MiB to 2048 MiB", "-31 to -92 %", "between two limits"},
		{2048, 0, "at most 2048 MiB", "up to -92 %", "never failed"},
		{304, 160, "160 MiB to 304 MiB", "up to -44 %", "perhaps less than recommended"},
	} {
		r.AsGiven.LimitBytes, r.AsGivenFails = c.passes*MiB, c.fails*MiB
		if got, change := asGiven(r), memoryChange(r); got != c.asGiven || change != c.change {
			t.Errorf("%s: %s, %s", c.is, got, change)
		}
		var b bytes.Buffer
		if err := document.WriteText(&b, Fit(r), document.Style{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := lipgloss.Width(strings.TrimRight(line, "\n")); strings.Contains(line, c.change) && w > document.Width {
				t.Errorf("%d columns: %s", w, line)
			}
		}
	}
}

// The sentence that the user came for says of runs that were slower than asked what all of them
// tell together.
func TestFitOfSlowRuns(t *testing.T) {
	says := func(slow int, missed trial.Metric, c fit.RelativeCost) string {
		r := fitResult(t)
		r.ProofCost, r.FailBelow, r.RaisedFrom = c, nil, 0
		for i := range slow {
			r.Confirmations[i].SlowElsewhere = true
			r.Confirmations[i].Missed = []trial.Clause{{Metric: missed, Op: "<=", Value: 1.1, Unit: trial.Ratio}}
		}
		return answer(r).String()
	}
	for _, c := range []struct {
		slow      int
		missed    trial.Metric
		low, high float64
		want      string
	}{
		{0, trial.Cost, 1, 1.2, "3 of 3 fresh runs pass."},
		{2, trial.P99, 1, 1.2, "3 of 3 fresh runs pass (2 of them slower than asked, and not for want of memory)."},
		{3, trial.P99, 1, 1.2, "and not for want of memory; a quieter machine can tell whether it is."},
		{2, trial.Cost, 1, 1.2, "(2 of them slower than asked, and not for want of memory; by all of them the same work takes 1.10 times the baseline's processor time (1.00 to 1.20): as asked or more)."},
		{3, trial.Cost, 1.15, 1.25, "but none was as fast as asked, and not for want of memory; by all of them the same work takes 1.20 times the baseline's processor time (1.15 to 1.25): more than asked."},
		{1, trial.Cost, 1, 1.1, "(1 of them slower than asked, and not for want of memory; by all of them the same work takes 1.05 times the baseline's processor time (1.00 to 1.10): as asked)."},
	} {
		got := says(c.slow, c.missed, fit.RelativeCost{CostRatio: (c.low + c.high) / 2, CostLow: c.low, CostHigh: c.high})
		if !strings.Contains(got, c.want) {
			t.Errorf("%d slow by %s, %g to %g: %s", c.slow, c.missed, c.low, c.high, got)
		}
	}
}

// A run that waited for memory is said to do so, whether it passed or was too slow for another
// reason too.
func TestPressedTrials(t *testing.T) {
	for _, c := range []struct {
		verdict           trial.Verdict
		elsewhere         bool
		pressed           bool
		shown, atTheLimit string
	}{
		{trial.Passed, false, true, "pressed", "it waits for reclaimed memory for 5 % of the time"},
		{trial.TooSlow, true, true, "pressed", "it waits for reclaimed memory for 5 % of the time"},
		{trial.TooSlow, true, false, "slow elsewhere", "it is too slow"},
		{trial.TooSlow, false, true, "too-slow", "it waits for reclaimed memory for 5 % of the time"},
		{trial.TooSlow, false, false, "too-slow", "it is too slow"},
		{trial.Stalled, false, true, "stalled", "it waits for reclaimed memory most of the time"},
	} {
		tr := fit.Trial{Outcome: fit.Outcome{Passed: c.verdict == trial.Passed, Verdict: c.verdict, Result: &trial.Result{ReclaimShare: 0.049}}}
		tr.SlowElsewhere, tr.Pressed = c.elsewhere, c.pressed
		if shown, says := verdict(tr).String(), failure(tr); shown != c.shown || says != c.atTheLimit {
			t.Errorf("%+v: %s, %s", c, shown, says)
		}
	}
}

// Of a limit below the bound, for the proof moved that or the margin is the user's, it is said how
// many runs need no more.
func TestNeedText(t *testing.T) {
	n := *fitResult(t).Need
	for limit, want := range map[int64]string{
		171 * MiB: "99 % of them need no more than 170.0 MiB, with a confidence of 95 %.",
		168 * MiB: "99 % of them need no more than 170.0 MiB, and 97 % no more than the limit, with a confidence of 95 %.",
	} {
		if got := needText(n, limit); !strings.Contains(got, want) {
			t.Errorf("%d MiB: %s", limit/MiB, got)
		}
	}
}

// What is to be pasted must be one command with the words that were measured.
func TestFitCommandsPaste(t *testing.T) {
	r := fitResult(t)
	check := func(lines []string, want []string) {
		t.Helper()
		script := "printf '%s\\n' " + strings.Join(lines, " \\\n  ")
		out, err := exec.Command("sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, script)
		}
		if got := strings.TrimRight(string(out), "\n"); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	check(localLines(r), append(slices.Clone(r.Setup.Env), r.Setup.Command(r.Config.Command)...))
	image := imageSetup(r)
	check(dockerLines(r, image), []string{"docker", "run", "-m", "170m", "--memory-swap", "170m", "--cpus", "1", "-e", "MALLOC_ARENA_MAX=1", "-e",
		"JAVA_TOOL_OPTIONS=-XX:+UseSerialGC -Xmx52m -XX:+ExitOnOutOfMemoryError -XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=/app/app.jsa -Duser.timezone=UTC", "IMAGE"})
}

func TestFitWithoutGain(t *testing.T) {
	r := fitResult(t)
	r.Setup, r.Levers, r.Archive, r.TrainOption, r.RaisedFrom, r.FailBelow, r.Peak = fit.Setup{}, nil, "", "", 0, nil, nil
	r.Config.Load, r.Config.Env, r.Frontier = load.Description{}, nil, r.Frontier[:1]
	for _, trials := range [][]fit.Trial{r.Trials, r.Confirmations} {
		for i := range trials {
			trials[i].Measured.Load, trials[i].Result, trials[i].Throughput = nil, nil, 0
		}
	}
	r.Baseline.Measured.Load, r.AsGiven.Measured.Load, r.AsGiven.Throughput = nil, nil, 0
	var b bytes.Buffer
	if err := document.WriteText(&b, Fit(r), document.Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "fit-no-gain.txt", b.Bytes())
}

func TestFitJSON(t *testing.T) {
	var b bytes.Buffer
	if err := WriteFitJSON(&b, fitResult(t), nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "fit.json", b.Bytes())
}

func TestFitJSONOfFailure(t *testing.T) {
	r := fitResult(t)
	r.Found = fit.Found{Trials: r.Trials[:1]}
	r.Peak, r.Archive = nil, ""
	var b bytes.Buffer
	if err := WriteFitJSON(&b, r, errors.New("no limit could be confirmed")); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["schema"] != FitSchema || got["error"] != "no limit could be confirmed" || got["limitBytes"] != nil || got["asGiven"] != nil {
		t.Errorf("%v", got)
	}
	for _, list := range []string{"options", "env", "levers", "frontier", "trials", "confirmations", "warnings"} {
		if _, ok := got[list].([]any); !ok {
			t.Errorf("%s is %v, no list", list, got[list])
		}
	}
}

func TestNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		19644 * time.Nanosecond: "19.6 µs", 1234 * time.Microsecond: "1.23 ms", 45678 * time.Microsecond: "45.7 ms", 812 * time.Millisecond: "812 ms",
		2700 * time.Millisecond: "2.70 s", 12250 * time.Millisecond: "12.2 s", 123 * time.Second: "2 m 03 s", -time.Second: "-1.00 s"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if Limit(166*MiB) != "166 MiB" || Limit(MiB/2) != "0.5 MiB" || Rate(12.34) != "12.3" || Rate(1234.5) != "1234" || Change(304, 166) != "-45 %" || Change(0, 1) != "" {
		t.Error(Limit(166*MiB), Limit(MiB/2), Rate(12.34), Rate(1234.5), Change(304, 166))
	}
}

// Comments have a line of their own, and names with blanks stay one name.
func TestCopyLines(t *testing.T) {
	r := fitResult(t)
	r.Setup.Jar = "/home/me/fit out/extracted jars/app.jar"
	want := "# from /home/me/fit out\nCOPY [\"extracted jars/\",\"/app/\"]"
	if got := strings.Join(copyLines(r), "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCostText(t *testing.T) {
	ran := func(ok int64, cpu time.Duration) *trial.Result {
		return &trial.Result{Load: &load.Result{OK: ok}, LoadCPUTime: cpu}
	}
	given := ran(1000, 2*time.Second)
	if got, want := costText(given, ran(1050, 1050*time.Millisecond)), "an answer takes 1.00 ms of processor time, as given 2.00 ms (-50 %)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	slow := ran(1000, 2500*time.Millisecond)
	given.Pace, slow.Pace = 600*time.Microsecond, 800*time.Microsecond
	if got, want := costText(given, slow), "an answer takes 2.50 ms of processor time, as given 2.00 ms (+25 %); "+
		"a fixed piece of work took 33 % longer meanwhile: at the same pace of the machine it is -6 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, other := range []*trial.Result{nil, given, ran(1200, time.Second), {}} {
		if got := costText(given, other); got != "" {
			t.Errorf("%q", got)
		}
	}
}

// A run below the limit that left out heap which no run touched says so: its limit is not just below.
func TestAnswerTellsUntouchedHeap(t *testing.T) {
	for _, c := range []struct {
		untouched, failed int64
		want              bool
	}{{100, 60, true}, {100, 71, false}, {0, 60, false}} {
		r := fitResult(t)
		r.Need.UntouchedBytes, r.FailBelow.LimitBytes = c.untouched*MiB, c.failed*MiB
		if text := answer(r).String(); strings.Contains(text, "MiB, without room for heap that no run touched, it is too slow") != c.want {
			t.Errorf("%d untouched, %d fails: %s", c.untouched, c.failed, text)
		}
	}
}

// Points are named by what they add to those above them.
func TestFrontierNames(t *testing.T) {
	point := func(trial int, options []string, levers ...string) fit.FrontierPoint {
		return fit.FrontierPoint{Setup: fit.Setup{Options: options}, Levers: levers, Trial: trial, SpeedRatio: 0.5}
	}
	r := &fit.Result{Found: fit.Found{Frontier: []fit.FrontierPoint{
		point(3, nil), point(5, []string{"-Xmx9m"}, "a", "b"), point(6, nil, "c"), point(7, []string{"-Xmx8m"}, "a", "b", "d"), point(8, []string{"-Xmx7m"}, "a", "b", "d"),
	}}}
	r.Frontier[1].PickedBy = fit.Preferences
	for i, want := range []string{"as given", "a, b (-Xmx9m)", "c", "as 5, and d (-Xmx8m)", "as 7, another heap (-Xmx7m)"} {
		if got := pointName(r.Frontier[:i], r.Frontier[i]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var b bytes.Buffer
	d := &document.Document{}
	d.Add(fitFrontier(r)...)
	if err := document.WriteText(&b, d, document.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"speed", "× 0.50", "whatever is preferred"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	r.Frontier = r.Frontier[:1]
	if fitFrontier(r) != nil {
		t.Error("a choice of one")
	}
}
