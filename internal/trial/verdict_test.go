package trial

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	verdictRepeat = flag.Int("verdicts.repeat", 1, "runs of each labelled program")
	verdictOut    = flag.String("verdicts.out", "", "file for the table of verdicts, in Markdown")
)

// labelled is a program whose verdict is known.
type labelled struct {
	mode    string // of workloads.jar's verdict
	args    []string
	options []string
	limit   int64
	slo     string
	want    Verdict
	// words must be in the evidence.
	words string
	// name is the program's in the table, where the mode alone does not tell; spoil
	// changes the trial.
	name  string
	spoil func(t *testing.T, s *Spec)
	// sees says what the result lacks, "" for nothing.
	sees func(r *Result) string
	// grows is what is seen to grow steadily, of a program that passes.
	grows string
}

// The heap of each is fixed, so that the verdict does not hang on how a JDK
// sizes it. Where growth is looked at, C1 compiles: C2's working memory grows for
// longer than so short a load.
var labelledSet = []labelled{
	{mode: "ok", options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed},
	{mode: "native-leak", args: []string{"16768"}, options: []string{"-Xmx48m"}, limit: 160, want: OOMKilled, words: "its limit of 160 MiB was reached", spoil: longer},
	{mode: "heap-leak", args: []string{"256"}, options: []string{"-Xmx32m"}, limit: 256, want: OutOfMemory, words: "java.lang.OutOfMemoryError: Java heap space", spoil: longer},
	{mode: "thrash", args: []string{"70", "4096"}, options: []string{"-Xmx64m", "-XX:+UseSerialGC"}, limit: 320, slo: "p99<20ms", want: Thrashing, words: "garbage collection took"},
	{mode: "never-ready", options: []string{"-Xmx48m"}, limit: 256, want: NeverReady, words: "not ready after 5s"},
	{mode: "crash", args: []string{"50"}, options: []string{"-Xmx48m"}, limit: 256, want: Crashed, words: "exit code 7"},
	{mode: "slow", args: []string{"300"}, options: []string{"-Xmx48m"}, limit: 256, slo: "p50<250ms", want: TooSlow, words: "p50 is 3"},
	{mode: "errors", args: []string{"10"}, options: []string{"-Xmx48m"}, limit: 256, want: Errors, words: "503"},
	{mode: "reclaim", args: []string{"400"}, options: []string{"-Xmx48m"}, limit: 192, slo: "p50<5ms", want: Stalled, words: "were read again after they had been reclaimed"},
	{mode: "slow", name: "sleeping dependency", args: []string{"300"}, options: []string{"-Xmx48m", "-XX:-UsePerfData"}, limit: 256, slo: "p50<250ms", want: TooSlow, words: "p50 is 3", sees: innocentMemory},
	{mode: "lock", args: []string{"40"}, options: []string{"-Xmx48m"}, limit: 256, slo: "p50<80ms", want: TooSlow, words: "p50 is 1", sees: innocentMemory},
	{mode: "work", name: "stolen processor", args: []string{"20"}, options: []string{"-Xmx48m", "-XX:+UseSerialGC"}, limit: 256, slo: "p50<90ms", want: TooSlow, words: "other processes took", sees: innocentMemory, spoil: stealProcessor},
	{mode: "thrash", name: "collections within the objective", args: []string{"66", "512"}, options: []string{"-Xmx64m", "-XX:+UseSerialGC"}, limit: 320, slo: "p99<4s", want: Passed, sees: guiltyCollector},
	{mode: "thrash", name: "ZGC, heap too small", args: []string{"60", "8192"}, options: []string{"-Xmx64m", "-XX:+UseZGC"}, limit: 512, slo: "p99<2ms", want: Thrashing, words: "the collector's threads used", sees: guiltyCollector},
	{mode: "thrash", name: "Shenandoah, heap too small", args: []string{"65", "8192"}, options: []string{"-Xmx64m", "-XX:+UseShenandoahGC"}, limit: 512, slo: "p99<2ms", want: Thrashing, words: "the collector's threads used", sees: guiltyCollector},
	{mode: "thrash", name: "collector without performance data", args: []string{"70", "4096"}, options: []string{"-Xmx64m", "-XX:+UseSerialGC", "-XX:-UsePerfData"}, limit: 320, slo: "p99<20ms", want: Thrashing, words: "the collector's threads used", sees: guiltyCollector},
	{mode: "spin", name: "spinning threads", args: []string{"1"}, options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed,
		spoil: func(_ *testing.T, s *Spec) { s.Idle, s.Weigh = 1200*time.Millisecond, false }, sees: burnsIdle(true)},
	{mode: "ok", name: "idles quietly", options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed,
		spoil: func(_ *testing.T, s *Spec) { s.Idle, s.Weigh = 1200*time.Millisecond, false }, sees: burnsIdle(false)},
	{mode: "reclaim", name: "file service with room", args: []string{"64"}, options: []string{"-Xmx48m"}, limit: 320, want: Passed,
		spoil: func(_ *testing.T, s *Spec) { s.Squeeze, s.Weigh = true, false }, sees: worksWithCache},
	{mode: "late-fill", args: []string{"2"}, options: []string{"-Xmx48m"}, limit: 256, want: OutOfMemory, words: "java.lang.OutOfMemoryError: Java heap space", spoil: longer},
	{mode: "start-peak", args: []string{"300"}, options: []string{"-Xmx48m", "-XX:MaxDirectMemorySize=512m"}, limit: 200, want: OOMKilled, words: "before it was ready"},
	{mode: "start-peak", name: "start-peak with room", args: []string{"150"}, options: []string{"-Xmx48m", "-XX:MaxDirectMemorySize=512m"}, limit: 320, want: Passed, spoil: func(_ *testing.T, s *Spec) { s.Weigh = false }, sees: peaksAtStart},
	{mode: "child-leak", args: []string{"16768"}, options: []string{"-Xmx48m"}, limit: 192, want: OOMKilled, words: "its limit of 192 MiB was reached", spoil: longer},
	{mode: "child-thrash", args: []string{"70", "4096"}, options: []string{"-Xmx48m"}, limit: 320, slo: "p99<20ms", want: Thrashing, words: "garbage collection took", sees: guiltyChild},
	{mode: "thrash", name: "thrash, started by a script", args: []string{"70", "4096"}, options: []string{"-Xmx64m", "-XX:+UseSerialGC"}, limit: 320, slo: "p99<20ms", want: Thrashing, words: "garbage collection took",
		spoil: byScript, sees: guiltyChild},
	{mode: "slow-leak", args: []string{"8192"}, options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed, grows: "malloc"},
}

// innocentMemory wants memory to be seen to have taken none of the speed.
func innocentMemory(r *Result) string {
	loss, known := r.CollectorLoss(0)
	if !known || loss >= innocentGC || r.ReclaimShare >= innocentStall {
		return fmt.Sprintf("memory took %.3f (%v) by collections, %.3f by reclaim", loss, known, r.ReclaimShare)
	}
	return ""
}

// guiltyCollector wants collections to be seen to have taken speed.
func guiltyCollector(r *Result) string {
	if loss, known := r.CollectorLoss(0); !known || loss < 0.15 {
		return fmt.Sprintf("collections took %.3f (%v)", loss, known)
	}
	return ""
}

// guiltyChild wants the collections of another JVM than the process that was started to be
// seen, and that JVM's options.
func guiltyChild(r *Result) string {
	if r.Program == nil || !r.Program.Child || !slices.Contains(r.Program.Options, "-Xmx64m") {
		return fmt.Sprintf("weighed was %+v", r.Program)
	}
	return guiltyCollector(r)
}

// byScript has a shell start the JVM and stay.
func byScript(_ *testing.T, s *Spec) {
	s.Args = append([]string{"sh", "-c", `"$@"; exit $?`, "sh"}, s.Args...)
}

func burnsIdle(want bool) func(*Result) string {
	return func(r *Result) string {
		if r.IdleCPUs == nil {
			return "it was not seen idle"
		}
		if (*r.IdleCPUs >= 0.2) != want {
			return fmt.Sprintf("idle it used %.3f processors", *r.IdleCPUs)
		}
		return ""
	}
}

// worksWithCache wants most of the 64 MiB of the file to be part of what is needed.
func worksWithCache(r *Result) string {
	if r.CacheBytes < 40<<20 {
		return fmt.Sprintf("it works with %d MiB of page cache", r.CacheBytes>>20)
	}
	return ""
}

// peaksAtStart wants the 150 MiB of the start to be in what was needed, and gone at the end.
func peaksAtStart(r *Result) string {
	end := r.Stat["total_rss"]
	if v2, ok := r.Stat["anon"]; ok {
		end = v2
	}
	if r.PeakBytes < 150<<20 || r.PeakBytes-end < 50<<20 {
		return fmt.Sprintf("peak %d MiB, anonymous at the end %d", r.PeakBytes>>20, end>>20)
	}
	return ""
}

// longer has a busy machine get through the requests that it takes. A trial ends with its
// application.
func longer(_ *testing.T, s *Spec) { s.Duration = 12 * time.Second }

// stealProcessor has the trial share one processor with two threads of other processes.
func stealProcessor(t *testing.T, s *Spec) {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !cpus.IsSet(cpu) {
		cpu++
	}
	s.Limits.Cpuset = strconv.Itoa(cpu)
	cpus.Zero()
	cpus.Set(cpu)
	for range 2 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		if err := unix.SchedSetaffinity(cmd.Process.Pid, &cpus); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerdicts runs every labelled program on JDK 17 and 25, limited and under
// load for real.
func TestVerdicts(t *testing.T) {
	r := testRunner(t)
	jar := jvmtest.Jar(t, "workloads.jar")
	var table strings.Builder
	table.WriteString("| program | verdict wanted | JDK | right | verdicts | evidence of the last |\n|---|---|---|---|---|---|\n")
	for _, major := range []int{17, 25} {
		for _, l := range labelledSet {
			t.Run(fmt.Sprintf("%d/%s", major, l.title()), func(t *testing.T) {
				if l.want == OOMKilled {
					holdInCache(t, filepath.Join(jvmtest.Home(t, major), "lib"), jar)
				}
				right, got := 0, []string{}
				var last *Result
				for range *verdictRepeat {
					spec := l.spec(t, jvmtest.Home(t, major), jar)
					if l.spoil != nil {
						l.spoil(t, &spec)
					}
					res, err := Run(t.Context(), r, spec)
					if err != nil {
						t.Fatal(err)
					}
					last = res
					got = append(got, string(res.Verdict))
					if l.matches(res) {
						right++
					} else {
						t.Errorf("%s, want %s: %q\nlog: %q\nseen: %s\nresult: %+v\ntimes: %+v", res.Verdict, l.want, res.Evidence, res.Log, l.lacks(res), res, res.Times)
					}
				}
				fmt.Fprintf(&table, "| %s | %s | %d | %d of %d | %s | %s |\n", l.title(), l.want, major, right, *verdictRepeat,
					strings.Join(got, " "), strings.ReplaceAll(strings.Join(last.Evidence, "; "), "|", `\|`))
			})
		}
	}
	if *verdictOut != "" {
		text := results.Text("Verdicts on labelled programs", "make bench-verdicts", table.String())
		if err := os.WriteFile(*verdictOut, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// holdInCache maps files, so that the kernel finds none of their pages to
// reclaim in the group of a trial. Else it may, on a disk that reads far ahead,
// drop and read them again for minutes instead of killing, and the verdict is,
// rightly, that the application is stalled. Here it is about the kill.
func holdInCache(t *testing.T, paths ...string) {
	t.Helper()
	hold := func(name string) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil || st.Size() == 0 {
			return
		}
		b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			t.Fatalf("map %s: %v", name, err)
		}
		t.Cleanup(func() { _ = unix.Munmap(b) })
	}
	for _, p := range paths {
		resolved, err := filepath.EvalSymlinks(p)
		if err == nil {
			err = filepath.WalkDir(resolved, func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					hold(name)
				}
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (l labelled) title() string { return cmp.Or(l.name, l.mode) }

func (l labelled) lacks(r *Result) string {
	if l.sees == nil {
		return ""
	}
	return l.sees(r)
}

func (l labelled) matches(r *Result) bool {
	if l.want == Passed && l.sees == nil {
		var grows []string
		for _, g := range r.Growth {
			grows = append(grows, g.Of)
		}
		if strings.Join(grows, " ") != l.grows {
			return false
		}
	}
	return l.lacks(r) == "" && r.Verdict == l.want && strings.Contains(strings.Join(r.Evidence, "\n"), l.words)
}

func (l labelled) spec(t *testing.T, home, jar string) Spec {
	t.Helper()
	port := jvmtest.FreePort(t)
	args := append([]string{filepath.Join(home, "bin", "java")}, l.options...)
	args = append(args, "-jar", jar, "verdict", l.mode, strconv.Itoa(port))
	target, err := load.ParseTarget(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	slo := "errors=0"
	if l.slo != "" {
		slo += " " + l.slo
	}
	objective, err := ParseSLO(slo)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := ParseReady(fmt.Sprintf("tcp:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	timeout := 2 * time.Minute
	if l.want == NeverReady {
		timeout = 5 * time.Second
	}
	duration := 4 * time.Second
	if l.mode == "crash" {
		duration = 12 * time.Second // a busy machine takes so long for its requests
	}
	if l.grows != "" { // what grows by warming up must be the smaller part
		duration = 8 * time.Second
	}
	return Spec{
		Args: append(args, l.args...), Env: os.Environ(), Dir: t.TempDir(), Limits: runner.Limits{MemoryBytes: l.limit << 20},
		Ready: ready, ReadyTimeout: timeout, SLO: objective, JavaHome: home, Files: []string{jar},
		Loader:   load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Concurrency: 4, Timeout: 5 * time.Second}},
		Duration: duration, Weigh: true, StopGrace: 20 * time.Second,
	}
}

// A trial that passes is whole: load, peaks, footprints, live set, and nothing
// is left of it.
func TestTrialIsWhole(t *testing.T) {
	l := labelled{mode: "thrash", args: []string{"20", "128"}, options: []string{"-Xmx48m", "-XX:+UseSerialGC"}, limit: 256}
	spec := l.spec(t, jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar"))
	spec.Warmup = time.Second
	spec.Probe = true
	spec.LogFile = filepath.Join(t.TempDir(), "app.log")
	var stages []string
	spec.Stage = func(s Stage) { stages = append(stages, string(s)) }
	res, err := Run(t.Context(), testRunner(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Passed() || res.Load == nil || res.Load.OK == 0 || res.ReadyAfter <= 0 || res.Collections == 0 || res.GCShare == nil {
		t.Errorf("%+v", res)
	}
	if res.LiveBytes < 7<<20 || res.LiveBytes > 48<<20 {
		t.Errorf("live set %d, want a fifth of 48 MiB and what the JVM itself keeps", res.LiveBytes)
	}
	if res.PeakBytes <= res.NeededBytes/2 || res.PeakBytes > 256<<20 || len(res.Stat) == 0 || res.CPUTime <= 0 {
		t.Errorf("peak %d, needed %d, CPU time %s, %d statistics", res.PeakBytes, res.NeededBytes, res.CPUTime, len(res.Stat))
	}
	for _, file := range []string{"workloads.jar", "libjvm.so"} {
		if !slices.ContainsFunc(res.Opened, func(name string) bool { return filepath.Base(name) == file }) {
			t.Errorf("%s is none of the files used: %q", file, res.Opened)
		}
	}
	for name, f := range map[string]*footprint.Footprint{"peak": res.Peak, "end": res.End} {
		if f == nil || f.RSSBytes < 16<<20 {
			t.Errorf("%s: footprint %+v; %q", name, f, res.Warnings)
		}
	}
	if b, err := os.ReadFile(spec.LogFile); err != nil || !strings.Contains(string(b), "listening on") {
		t.Errorf("log %q, %v", b, err)
	}
	if got := strings.Join(stages, ", "); got != "starting, warming up, loading, stopping" {
		t.Errorf("stages %s", got)
	}
}

// A load command warms an application up by running as often as it is told to.
func TestCommandWarmsUp(t *testing.T) {
	for _, c := range []struct {
		name        string
		blocks      int
		work        Work
		least, most int
	}{
		{"until it is warm", 5, Work{}, 2, 6},
		{"as often as the first baseline", 0, Work{Blocks: 3}, 4, 4},
	} {
		runs := filepath.Join(t.TempDir(), "runs")
		spec := labelled{mode: "ok", limit: 256}.spec(t, jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar"))
		spec.Loader = load.Command{Args: []string{"/bin/sh", "-c", "echo run >>" + runs}, Env: os.Environ(), Format: load.Status}
		spec.SLO, spec.Warmup, spec.WarmBlocks, spec.Work = SLO{}, 200*time.Millisecond, c.blocks, c.work
		if _, err := Run(t.Context(), testRunner(t), spec); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(runs)
		if n := strings.Count(string(text), "run\n"); err != nil || n < c.least || n > c.most {
			t.Errorf("%s: %d runs, %v", c.name, n, err)
		}
	}
}

// What looking into an application makes it use is not what it needs.
func TestInspectIsNotMeasured(t *testing.T) {
	const step, steps = 16 << 20, 6
	l := labelled{mode: "native-leak", args: []string{strconv.Itoa(step >> 10)}, options: []string{"-Xmx48m"}, limit: 512}
	spec := l.spec(t, jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar"))
	put := spec.Loader
	spec.Loader, spec.Duration = nil, 300*time.Millisecond
	var before, after runner.Usage
	spec.Inspect = func(ctx context.Context, p runner.Process) {
		before, _ = p.Usage(ctx)
		if _, err := put.(load.WorkLoader).LoadRequests(ctx, steps, time.Minute); err != nil {
			t.Error(err)
		}
		after, _ = p.Usage(ctx)
	}
	res, err := Run(t.Context(), testRunner(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	if after.UsageBytes < before.UsageBytes+step*steps/2 {
		t.Fatalf("looking made it use %d bytes, before %d", after.UsageBytes, before.UsageBytes)
	}
	if res.Peak == nil {
		t.Fatalf("no footprint: %q", res.Warnings)
	}
	if most := before.PeakBytes + step; max(res.PeakBytes, res.NeededBytes, res.Peak.RSSBytes) > most {
		t.Errorf("peak %d, needed %d, peak footprint %d; before it was looked into %d", res.PeakBytes, res.NeededBytes, res.Peak.RSSBytes, before.PeakBytes)
	}
}

func TestTrialSaysWhatIsWrong(t *testing.T) {
	r := testRunner(t)
	home, jar := jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar")

	t.Run("ends before it is ready", func(t *testing.T) {
		l := labelled{mode: "crash", args: []string{"0"}, limit: 256}
		res, err := Run(t.Context(), r, l.spec(t, home, jar))
		if err != nil {
			t.Fatal(err)
		}
		if res.Verdict != Crashed || res.ReadyAfter != 0 || !strings.Contains(strings.Join(res.Log, "\n"), "fatal: crashed at start") {
			t.Errorf("%s %q %q", res.Verdict, res.Evidence, res.Log)
		}
	})
	t.Run("limit below what a JVM starts in", func(t *testing.T) {
		l := labelled{mode: "ok", limit: 6}
		spec := l.spec(t, home, jar)
		spec.ReadyTimeout = 10 * time.Second // it may reclaim for ever instead of being killed
		res, err := Run(t.Context(), r, spec)
		if err != nil {
			t.Fatal(err)
		}
		if res.Passed() || res.ReadyAfter != 0 || len(res.Evidence) == 0 {
			t.Errorf("%s %q", res.Verdict, res.Evidence)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		spec := labelled{mode: "ok", limit: 64}.spec(t, home, jar)
		spec.Args[0] = filepath.Join(t.TempDir(), "java")
		if _, err := Run(t.Context(), r, spec); err == nil || !strings.Contains(err.Error(), spec.Args[0]) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		spec := labelled{mode: "ok", limit: 256}.spec(t, home, jar)
		spec.Duration = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		spec.Stage = func(s Stage) {
			if s == Loading {
				cancel()
			}
		}
		if _, err := Run(ctx, r, spec); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// A start that collections hold up is given up when patience ends, one that only
// takes long is not.
func TestPatience(t *testing.T) {
	source := filepath.Join(t.TempDir(), "Job.java")
	if err := os.WriteFile(source, []byte(jobSource), 0o644); err != nil {
		t.Fatal(err)
	}
	ready, err := ParseReady("log:never")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode    string
		timeout time.Duration
		givenUp bool
	}{
		{"thrash", 3 * time.Minute, true},
		{"hang", 4 * time.Second, false},
	} {
		t.Run(c.mode, func(t *testing.T) {
			res, err := Run(t.Context(), testRunner(t), Spec{Args: []string{jvmtest.Java(t, 17), "-Xmx48m", "-XX:+UseSerialGC", source, c.mode}, Env: os.Environ(),
				Limits: runner.Limits{MemoryBytes: 256 << 20}, Ready: ready, ReadyTimeout: c.timeout, Patience: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			waited := strings.Contains(strings.Join(res.Evidence, "\n"), "not ready after "+c.timeout.String())
			if (res.Verdict == NeverReady) == c.givenUp || waited == c.givenUp {
				t.Errorf("%s %q", res.Verdict, res.Evidence)
			}
		})
	}
}

// testRunner is for trials, which measure.
func testRunner(t *testing.T) runner.Runner {
	t.Helper()
	alone.Measures(t, "control groups")
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
