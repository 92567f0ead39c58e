package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	// grows is what is seen to grow steadily, of a program that passes.
	grows string
}

// The heap of each is fixed, so that the verdict does not hang on how a JDK
// sizes it. Where growth is looked at, C1 compiles: C2's working memory grows for
// longer than so short a load.
var labelledSet = []labelled{
	{mode: "ok", options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed},
	{mode: "native-leak", args: []string{"16768"}, options: []string{"-Xmx48m"}, limit: 160, want: OOMKilled, words: "its limit of 160 MiB was reached"},
	{mode: "heap-leak", args: []string{"256"}, options: []string{"-Xmx32m"}, limit: 256, want: OutOfMemory, words: "java.lang.OutOfMemoryError: Java heap space"},
	{mode: "thrash", args: []string{"70", "512"}, options: []string{"-Xmx64m", "-XX:+UseSerialGC"}, limit: 320, slo: "p99<20ms", want: Thrashing, words: "garbage collection took"},
	{mode: "never-ready", options: []string{"-Xmx48m"}, limit: 256, want: NeverReady, words: "not ready after 5s"},
	{mode: "crash", args: []string{"50"}, options: []string{"-Xmx48m"}, limit: 256, want: Crashed, words: "exit code 7"},
	{mode: "slow", args: []string{"300"}, options: []string{"-Xmx48m"}, limit: 256, slo: "p50<250ms", want: TooSlow, words: "p50 is 3"},
	{mode: "errors", args: []string{"10"}, options: []string{"-Xmx48m"}, limit: 256, want: Errors, words: "503"},
	{mode: "reclaim", args: []string{"400"}, options: []string{"-Xmx48m"}, limit: 192, slo: "p50<5ms", want: Stalled, words: "were read again after they had been reclaimed"},
	{mode: "slow-leak", args: []string{"8192"}, options: []string{"-Xmx48m", "-XX:TieredStopAtLevel=1"}, limit: 256, want: Passed, grows: "malloc"},
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
			t.Run(fmt.Sprintf("%d/%s", major, l.mode), func(t *testing.T) {
				if l.want == OOMKilled {
					holdInCache(t, filepath.Join(jvmtest.Home(t, major), "lib"), jar)
				}
				right, got := 0, []string{}
				var last *Result
				for range *verdictRepeat {
					res, err := Run(t.Context(), r, l.spec(t, jvmtest.Home(t, major), jar))
					if err != nil {
						t.Fatal(err)
					}
					last = res
					got = append(got, string(res.Verdict))
					if l.matches(res) {
						right++
					} else {
						t.Errorf("%s, want %s: %q\nlog: %q\nshares: %+v", res.Verdict, l.want, res.Evidence, res.Log, res)
					}
				}
				fmt.Fprintf(&table, "| %s | %s | %d | %d of %d | %s | %s |\n", l.mode, l.want, major, right, *verdictRepeat,
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

func (l labelled) matches(r *Result) bool {
	if l.want == Passed {
		var grows []string
		for _, g := range r.Growth {
			grows = append(grows, g.Of)
		}
		if strings.Join(grows, " ") != l.grows {
			return false
		}
	}
	return r.Verdict == l.want && strings.Contains(strings.Join(r.Evidence, "\n"), l.words)
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
