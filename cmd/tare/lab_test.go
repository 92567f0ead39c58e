package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	labKills    = flag.Int("lab.kills", 5, "random moments at which TestLabSurvivesKills kills the lab")
	labKillsOut = flag.String("lab.kills.out", "", "file for what came of the kills, in Markdown")
)

// labKillWithin is how long a lab runs at most after its first new result
// before it is killed.
const labKillWithin = 400 * time.Millisecond

// experiment writes an experiment file around the memory filler, with more
// lines at its end, and returns its name.
func experiment(t *testing.T, more string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stacks.yaml")
	text := fmt.Sprintf(`title: Stacks
source: https://example.com/stacks
run:
  jdk: %s
  options: [-Xint, -Xmx64m, "-Xss{xss}", -XX:NativeMemoryTracking=summary]
  command: [-jar, %s, memory-filler, "{threads}", "50", "{depth}"]
  limit: 256m
  ready: log:^ready$
  settle: 10ms
%s`, jvmtest.Java(t, 17), jvmtest.Jar(t, "workloads.jar"), more)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const stacks = `factors:
  - {name: threads, values: [60]}
  - {name: depth, values: [0, 500]}
  - {name: xss, values: [512k, 2m]}
repeats: 2
seed: 3
measure: [rss, row.thread-stacks, committed.thread-stacks, nmt.Thread, vmrss, vmhwm, cgroup-peak, start]
claims:
  - {text: Deep stacks are resident, measure: row.thread-stacks, compare: {depth: [500, 0]}, expect: ">= 1.5"}
  - {text: The option alone costs nothing, measure: rss, compare: {xss: [2m, 512k]}, expect: 0.9 .. 1.1}
published:
  - {where: {depth: 500, xss: 2m}, measure: nmt.Thread, value: 60MiB}
`

func labRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"lab"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestLabRunsAndReports(t *testing.T) {
	file := experiment(t, stacks)
	if code, stdout, _ := labRun(t, "plan", file); code != exitOK || !strings.Contains(stdout, "4 cells, 2 rounds: 8 runs, of which 0 have a result") {
		t.Errorf("plan: %d %s", code, stdout)
	}
	if code, _, stderr := labRun(t, "run", file, "--where", "xss=2m,depth=500", "--rounds", "1"); code != exitOK || strings.Count(stderr, " passed ") != 1 {
		t.Fatalf("a part: exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := labRun(t, "run", file)
	if code != exitOK || strings.Count(stderr, " passed ") != 7 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"confirmed  Deep stacks are resident", "confirmed  The option alone costs nothing", "row.thread-stacks",
		"threads=60 depth=500 xss=2m  nmt.Thread", "8 of 8 runs, 8 starts"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout)
		}
	}
	results := resultsOf(t, file)
	for _, r := range results.Records {
		for _, m := range []string{"rss", "row.thread-stacks", "committed.thread-stacks", "nmt.Thread", "vmrss", "vmhwm", "cgroup-peak", "start"} {
			if r.Values[m] <= 0 {
				t.Errorf("%v: %s is %g", r.Cell, m, r.Values[m])
			}
		}
	}
	// Again: nothing is left to run.
	code, again, stderr := labRun(t, "run", file)
	if code != exitOK || strings.Contains(stderr, " passed ") || again != stdout {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, md, _ := labRun(t, "report", file, "--markdown"); !strings.HasPrefix(md, "# Stacks\n") || !strings.Contains(md, "| depth |") && !strings.Contains(md, "| threads | depth |") {
		t.Errorf("Markdown:\n%s", md)
	}
	name := new(labOptions).resultsFile(file)
	if code, stdout, stderr := labRun(t, "compare", name, name); code != exitOK || !strings.HasPrefix(stdout, "0 of 32 differences are real") {
		t.Errorf("compare: %d %s %s", code, stdout, stderr)
	}
	page := filepath.Join(t.TempDir(), "stacks.html")
	if code, stdout, stderr := labRun(t, "report", file, "--html", page); code != exitOK || stdout != "" {
		t.Errorf("page: %d %s %s", code, stdout, stderr)
	}
	if b, err := os.ReadFile(page); err != nil || strings.Count(string(b), "<svg") != 2*8 || !strings.Contains(string(b), "<h1>Stacks</h1>") {
		t.Errorf("page: %v, %.300s", err, b)
	}
	nothingLeft(t)
}

func resultsOf(t *testing.T, file string) *lab.Results {
	t.Helper()
	r, err := readResults(new(labOptions).resultsFile(file))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLabSearches(t *testing.T) {
	alone.Measures(t, "trials")
	file := experiment(t, `factors:
  - {name: depth, values: [10]}
  - {name: xss, values: [512k]}
repeats: 1
search: {find: largest threads, from: 50, to: 4000, tolerance: 0.1}
measure: [found]
`)
	code, stdout, stderr := labRun(t, "run", file)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	r := resultsOf(t, file).Records
	// 64 MiB of heap hold 50 KiB for each of at most 1300 threads.
	if len(r) != 1 || r[0].Values["found"] < 300 || r[0].Values["found"] > 1311 || r[0].Trials < 4 || r[0].Verdict != "passed" {
		t.Errorf("%+v\n%s", r, stdout)
	}
	nothingLeft(t)
}

// A search can measure the run of what it found, too. A later round begins at what
// the one before found.
func TestLabSearchesALimit(t *testing.T) {
	alone.Measures(t, "trials")
	file := experiment(t, `factors:
  - {name: threads, values: [10]}
  - {name: depth, values: [10]}
  - {name: xss, values: [512k]}
repeats: 2
search: {find: smallest limit}
measure: [limit, found, rss, row.java-heap, cgroup-peak]
`)
	code, stdout, stderr := labRun(t, "run", file)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	records := resultsOf(t, file).Records
	if len(records) != 2 {
		t.Errorf("%d records\n%s", len(records), stdout)
	}
	for _, r := range records {
		if v := r.Values; v["found"] < 16<<20 || v["found"] > 128<<20 || v["limit"] != v["found"] || v["rss"] <= 0 || v["row.java-heap"] <= 0 || v["cgroup-peak"] > v["found"] || r.Trials < 5 {
			t.Errorf("%+v\n%s", r, stdout)
		}
	}
	nothingLeft(t)
}

// Archives are made before the run, by one run or two, used by it, and removed;
// a launcher starts it. With -Xshare:on a JVM that cannot use its archive ends.
func TestLabTrainsAndLaunches(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archives.yaml")
	text := fmt.Sprintf(`title: Archives
run:
  jdk: %s
  options: ["-Xshare:on", "-XX:+UseSerialGC", "-Xlog:cds=off"]
  command: [-jar, %s, memory-filler, "1", "0", "0"]
  limit: 512m
  ready: log:^ready$
  settle: 10ms
factors:
  - name: classes
    variants:
      - {name: dynamic, options: ["-XX:SharedArchiveFile={archive}"], train: {options: ["-XX:ArchiveClassesAtExit={archive}"]}}
      - name: static
        options: ["-XX:SharedArchiveFile={archive}"]
        train:
          options: ["-XX:DumpLoadedClassList={archive}.classes"]
          then: ["-Xshare:dump", "-XX:SharedClassListFile={archive}.classes", "-XX:SharedArchiveFile={archive}"]
      - {name: exec, launcher: [%s, --]}
      - {name: JDK}
repeats: 2
measure: [row.cds, heap-max, passed]
claims:
  - {text: All pass, measure: passed, expect: 1 .. 1}
`, jvmtest.Java(t, 17), jvmtest.Jar(t, "workloads.jar"), filepath.Join(jvmtest.Root(t), "bin", "tare-exec"))
	scratch := new(labOptions).resultsFile(file) + ".scratch"
	stale := filepath.Join(scratch, "of a killed lab")
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Mkdir(scratch, 0o700), os.WriteFile(stale, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := labRun(t, "run", file)
	if code != exitOK || !strings.Contains(stdout, "confirmed  All pass") {
		t.Fatalf("exit code %d: %s %s", code, stdout, stderr)
	}
	for _, r := range resultsOf(t, file).Records {
		// A quarter of the limit is the JVM's default; the launcher gives more.
		if given := r.Values["heap-max"] > 150<<20; given != (r.Cell["classes"] == "exec") || r.Values["row.cds"] < 1<<20 {
			t.Errorf("%v: %v", r.Cell, r.Values)
		}
	}
	if _, err := os.Stat(scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files are left: %v", err)
	}
	broken := strings.NewReplacer("ArchiveClassesAtExit={archive}", "+PrintCommandLineFlags\", \"-Dx={archive}", "title: Archives", "title: Broken").Replace(text)
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := labRun(t, "run", file, "--where", "classes=dynamic"); code != exitFailure || !strings.Contains(stderr, "no class archive was made") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	nothingLeft(t)
}

// A run in a virtual machine: another kernel, cgroup v2, less memory than here,
// a setting that the host does not have.
func TestLabInMachine(t *testing.T) {
	file := experiment(t, `  machine:
    memory: 512m
    cpus: 1
    settings: {/sys/kernel/mm/transparent_hugepage/enabled: never}
factors:
  - {name: threads, values: [20]}
  - {name: depth, values: [100]}
  - {name: xss, values: [512k]}
repeats: 1
measure: [rss, row.thread-stacks, cgroup-peak, nmt.Thread]
`)
	tare := filepath.Join(jvmtest.Root(t), "bin", "tare")
	if out, err := exec.Command(tare, "lab", "run", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	host, err := linux.NewFS("/proc").KernelRelease()
	if err != nil {
		t.Fatal(err)
	}
	r := resultsOf(t, file).Records
	if len(r) != 1 || r[0].Verdict != "passed" || r[0].Runner != "cgroup v2" || r[0].Machine.Kernel == "" || r[0].Machine.Kernel == host ||
		r[0].Machine.MemoryBytes > 512<<20 || r[0].Machine.CPUs != 1 {
		t.Fatalf("%+v", r)
	}
	for _, m := range []string{"rss", "row.thread-stacks", "cgroup-peak", "nmt.Thread"} {
		if r[0].Values[m] < 1<<20 {
			t.Errorf("%s is %g", m, r[0].Values[m])
		}
	}
}

// The last cell of each experiment that runs a program on this machine without a search: all
// that it measures has a value.
func TestExperimentsRun(t *testing.T) {
	alone.Uses(t, "JVMs")
	files, err := filepath.Glob(filepath.Join(jvmtest.Root(t), "experiments", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d experiments, %v", len(files), err)
	}
	ran := 0
	for _, file := range files {
		e, err := readExperiment(file)
		if err != nil {
			t.Fatal(err)
		}
		cells := slices.DeleteFunc(e.Cells(), func(c lab.Cell) bool { return c.Run.Machine != nil })
		if len(cells) == 0 || e.Search != nil || e.Run.Workload != "" {
			continue
		}
		ran++
		t.Run(filepath.Base(file), func(t *testing.T) {
			results := filepath.Join(t.TempDir(), "results.jsonl")
			where := strings.ReplaceAll(e.Key(cells[len(cells)-1]), " ", ",")
			if code, _, stderr := labRun(t, "run", file, "--where", where, "--rounds", "1", "--results", results); code != exitOK {
				t.Fatalf("%s: exit code %d: %s", where, code, stderr)
			}
			r, err := readResults(results)
			if err != nil || len(r.Records) != 1 || r.Records[0].Verdict != "passed" {
				t.Fatalf("%s: %v, %+v", where, err, r)
			}
			for _, m := range e.Measure {
				// What a collection left is known only if there was one.
				if _, ok := r.Records[0].Values[m]; !ok && m != "heap-live" {
					t.Errorf("%s: no %s: %v", where, m, r.Records[0])
				}
			}
		})
	}
	if ran < 6 {
		t.Errorf("%d experiments ran", ran)
	}
	nothingLeft(t)
}

func TestLabRefusesBadInput(t *testing.T) {
	good := experiment(t, stacks)
	empty := filepath.Join(t.TempDir(), "none.jsonl")
	if err := os.WriteFile(empty, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no file", []string{"run"}, exitUsage, "lab takes an experiment file"},
		{"missing file", []string{"run", "/missing.yaml"}, exitUsage, "no such file"},
		{"mistake", []string{"run", experiment(t, strings.Replace(stacks, "repeats", "repets", 1))}, exitUsage, `unknown field "repets"`},
		{"restricted to nothing", []string{"plan", good, "--where", "xss=3m"}, exitUsage, `factor xss has no value "3m"`},
		{"restricted by no factor", []string{"plan", good, "--where", "gc=g1"}, exitUsage, `"gc" is no factor`},
		{"no results", []string{"report", good}, exitUsage, "run the experiment first"},
		{"no page", []string{"report", good, "--markdown", "--html", "x"}, exitUsage, "give one of them"},
		{"compare one", []string{"compare", empty}, exitUsage, "lab takes two results files"},
		{"compare no results", []string{"compare", empty, empty}, exitFailure, "no record of schema tare.lab/1"},
		{"other results", []string{"run", good, "--results", empty}, exitFailure, "no record of schema tare.lab/1"},
		{"no such JDK", []string{"run", experiment(t, "") + "x"}, exitUsage, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := labRun(t, tt.args...)
			if code != tt.code || stdout != "" || !strings.HasPrefix(stderr, "tare: ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, want %d; stdout %q; stderr %q, want %q", code, tt.code, stdout, stderr, tt.want)
			}
		})
	}
	if _, err := os.Stat(new(labOptions).resultsFile(good)); err == nil {
		t.Error("a refused experiment left a results file")
	}
}

// A lab that is killed at any moment goes on where it stopped: no finished run
// is lost, none is made twice, and nothing is left running.
func TestLabSurvivesKills(t *testing.T) {
	runs := 4 * max(6, *labKills) // more than are made before the last kill
	file := experiment(t, strings.Replace(stacks, "repeats: 2", fmt.Sprintf("repeats: %d", runs/4), 1))
	tare := filepath.Join(jvmtest.Root(t), "bin", "tare")
	rng := rand.New(rand.NewPCG(5, 6))
	finished := map[string]time.Time{}
	check := func() int {
		f, err := os.Open(new(labOptions).resultsFile(file))
		if os.IsNotExist(err) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := lab.ReadResults(f, "results")
		if err != nil {
			t.Fatal(err)
		}
		now := map[string]time.Time{}
		for _, rec := range r.Records {
			key := fmt.Sprint(rec.Cell, rec.Round)
			if _, twice := now[key]; twice {
				t.Errorf("%s was run twice", key)
			}
			now[key] = rec.Time
		}
		for key, at := range finished {
			if !now[key].Equal(at) {
				t.Errorf("%s was finished at %s and is lost", key, at)
			}
		}
		finished = now
		return len(now)
	}
	before := 0
	for range *labKills {
		cmd := exec.Command(tare, "lab", "run", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) > 0 { // else it is killed at its start
			polltest.Until(t, "another result", func() bool { return countLines(t, new(labOptions).resultsFile(file)) > before+1 })
		}
		timer := time.NewTimer(time.Duration(rng.Int64N(int64(labKillWithin))))
		<-timer.C
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		before = check()
	}
	if before == 0 || before == runs {
		t.Errorf("%d of %d runs were made before the last kill: nothing was there to lose, or to make", before, runs)
	}
	code, _, stderr := labRun(t, "run", file)
	if code != exitOK || check() != runs {
		t.Errorf("exit code %d, %d of %d runs: %s", code, len(finished), runs, stderr)
	}
	nothingLeft(t)
	if *labKillsOut != "" && !t.Failed() {
		body := fmt.Sprintf("`tare lab run` for an experiment of %d short runs, killed (SIGKILL) at %d random moments at its start or up to %s after a new result, and started again; %d runs had "+
			"ended at the last kill, and the rest were made after it.\n\n- finished runs lost, or made twice: none: reached\n- control groups and processes left after the last start: none: reached\n",
			runs, *labKills, labKillWithin, before)
		if err := os.WriteFile(*labKillsOut, []byte(results.Text("Kills of the lab", "make bench-kills", body)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// countLines counts the whole lines of a file, 0 where there is none.
func countLines(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

// A cell in an image has the JDK, the paths and the environment of the image,
// and the same measures.
func TestLabInImage(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	importSysinfo(t, e, "filler:17", `ENV JAVA_TOOL_OPTIONS="-XX:NativeMemoryTracking=summary -Xmx64m"`)
	file := filepath.Join(t.TempDir(), "image.yaml")
	text := `title: In an image
run:
  runner: docker
  image: filler:{version}
  options: [-Xint]
  command: [-jar, workloads.jar, memory-filler, "20", "50", "10"]
  limit: 256m
  ready: log:^ready$
  settle: 10ms
factors:
  - {name: version, values: [17]}
repeats: 1
measure: [rss, row.thread-stacks, nmt.Thread, heap-max, vmhwm, cgroup-peak, start, passed]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := labRun(t, "run", file); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	r := resultsOf(t, file)
	if len(r.Records) != 1 {
		t.Fatalf("%d records", len(r.Records))
	}
	got := r.Records[0]
	if got.Runner != "docker" || !strings.HasPrefix(got.Image, "sha256:") || !strings.HasPrefix(got.JDK, "17.") || got.Verdict != "passed" {
		t.Errorf("%+v", got)
	}
	for _, m := range []string{"rss", "row.thread-stacks", "nmt.Thread", "vmhwm", "cgroup-peak", "start"} {
		if got.Values[m] <= 0 {
			t.Errorf("%s is %g; %q", m, got.Values[m], got.Warnings)
		}
	}
	if n := got.Values["heap-max"]; n > 64<<20 {
		t.Errorf("heap-max is %g: the image's own -Xmx64m did not count", n)
	}
	noContainers(t, e)

	missing := strings.Replace(text, "filler:{version}", "none:{version}", 1)
	if err := os.WriteFile(file, []byte(missing), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := labRun(t, "run", file); code != exitTarget || !strings.Contains(stderr, `image "none:17": no such image`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	wrong := strings.Replace(text, "  image: filler:{version}\n", "  image: filler:{version}\n  jdk: 17\n", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := labRun(t, "run", file); code != exitUsage || !strings.Contains(stderr, "the JDK is the image's") || !strings.Contains(stderr, "^") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
