package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// repository is a folder of git in which a budget of the bench's subject lies, committed.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	java := jvmtest.Java(t, 21)
	source, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "bench", "check", "subject", "Subject.java"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "Subject.java"), string(source))
	put(t, filepath.Join(dir, ".gitignore"), "classes\n*.json*\n")
	put(t, filepath.Join(dir, budget.FileName), fmt.Sprintf(`# The budget of a test.
build: %s -nowarn -d classes Subject.java
run:
  jdk: %s
  options: [-Xmx32m, -XX:+UseSerialGC, -Dsun.net.httpserver.nodelay=true, -cp, classes]
  command: [Subject, "{port}", heap=4000, direct=20480, threads=8]
  ready: tcp:{port}
  limit: 256m
  load: {urls: ["http://127.0.0.1:{port}/"], concurrency: 2, requests: 100, duration: 30s}
runs: 4
mostRuns: 8
most:
  needed: 250MiB # far above
growth:
  direct: 3%%
  heap-live: 10%%
`, filepath.Join(filepath.Dir(java), "javac"), java))
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "one")
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// The same version passes; one with a fifth more of direct memory fails, its owner is named,
// and what was accepted for it holds. Nothing is left behind.
func TestCheck(t *testing.T) {
	dir := repository(t)
	file := filepath.Join(dir, budget.FileName)
	kept, trend := filepath.Join(dir, "r.json"), filepath.Join(dir, "trend.jsonl")
	code, out, errs := tareRun(t, "check", "--budget", file, "--base", "HEAD", "--result", kept, "--record", trend)
	if code != exitOK || !strings.Contains(out, "All bounds hold.") {
		t.Fatalf("the same version: %d\n%s%s", code, out, errs)
	}
	passed := resultIn(t, kept)
	if passed.Verdict != check.Passed || len(passed.Findings) != 3 || len(passed.Base.Runs) < 4 {
		t.Fatalf("%+v", passed)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, strings.Replace(string(text), "direct=20480, threads=8", "direct=24576, threads=11", 1))
	failed := filepath.Join(dir, "failed.json")
	code, out, errs = tareRun(t, "check", "--budget", file, "--base", kept, "--format", "markdown", "--result", failed, "--record", trend)
	if code != exitOverBudget {
		t.Fatalf("a fifth more: %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"direct grew by 4.0 MiB", "Who grew: direct", "malloc: direct buffers"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r := resultIn(t, failed)
	for _, f := range r.Findings {
		if (f.Verdict == check.Failed) != (f.Measure == "direct") {
			t.Errorf("%s: %s", f.Measure, f.Verdict)
		}
	}
	names := map[string]check.Growth{}
	for _, g := range r.Grew {
		names[string(g.Kind)+" "+g.Name] = g
	}
	if g := names["threads worker-N"]; g.Base != 8 || g.Head != 11 {
		t.Errorf("threads: %+v", g)
	}
	if g, ok := names["owner malloc"]; !ok || g.Change() < 3<<20 {
		t.Errorf("owner: %+v", g)
	}
	if worktrees := gitIn(t, dir, "worktree", "list"); strings.Count(worktrees, "\n") != 1 {
		t.Errorf("left behind: %s", worktrees)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", "--budget", file, "--base", failed}, exitUsage, "only what passed becomes a base"},
		{[]string{"check", "accept", "--budget", file, kept, "--reason", "x"}, exitUsage, "is of another budget"},
		{[]string{"check", "accept", "--budget", file, failed}, exitUsage, "--reason: say"},
		{[]string{"check", "accept", "--budget", file, failed, "--reason", "a larger buffer"}, exitOK, "direct: 4.0MiB"},
		{[]string{"check", "trend", trend}, exitOK, "2 commits"},
		{[]string{"check", "trend", trend, "--html", filepath.Join(dir, "trend.html")}, exitOK, ""},
	} {
		if code, out, errs := tareRun(t, c.args...); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: %d\n%s%s", c.args, code, out, errs)
		}
	}
	replaceIn(t, file, "command: [Subject,", "command: [Nothing,")
	if code, _, errs := tareRun(t, "check", "--budget", file, "--base", "HEAD"); code != exitNotReady || !strings.Contains(errs, "the working tree does not run: crashed") || !strings.Contains(errs, "start it by hand") {
		t.Errorf("no such class: %d\n%s", code, errs)
	}
	after, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(after), "250MiB # far above") || !strings.Contains(string(after), "reason: 'a larger buffer'") {
		t.Errorf("%v\n%s", err, after)
	}
}

func resultIn(t *testing.T, name string) *check.Result {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := check.ReadResult(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recorded is a result of which one bound failed and one is not known.
func recorded() *check.Result {
	side := func(v float64) check.Side {
		return check.Side{Name: "it", Runs: []check.Run{{Took: time.Second, Values: check.Values{"needed": v}}}}
	}
	base := side(100 << 20)
	return &check.Result{Schema: check.Schema, Verdict: check.Failed, Head: side(110 << 20), Base: &base,
		Findings: []check.Finding{
			{Measure: "needed", Unit: "bytes", Growth: true, Value: check.Interval{Center: 10 << 20, Low: 9 << 20, High: 11 << 20}, Limit: 1 << 20, Resolution: 1 << 20, Verdict: check.Failed},
			{Measure: "malloc", Unit: "bytes", Growth: true, Verdict: check.Unknown, Why: "too <noisy>\x1b"},
			{Measure: "start", Unit: "seconds", Verdict: check.Passed},
		},
		Grew: []check.Growth{{Kind: check.KindClass, Name: "a.B<x>", Head: 9 << 20}}}
}

func TestCheckFormats(t *testing.T) {
	for format, want := range map[string]string{"text": "a.B<x>", "markdown": "needed grew by 10.0 MiB", "json": `"schema": "tare.check/1"`, "junit": `failures="1" errors="1"`} {
		var out strings.Builder
		if err := checkFormats[format](&out, recorded()); err != nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
		switch format {
		case "json":
			if !json.Valid([]byte(out.String())) {
				t.Errorf("no JSON: %s", out.String())
			}
		case "junit":
			var v struct {
				Cases []struct {
					Name string `xml:"name,attr"`
				} `xml:"testcase"`
			}
			if err := xml.Unmarshal([]byte(out.String()), &v); err != nil || len(v.Cases) != 3 || v.Cases[0].Name != "needed growth" {
				t.Errorf("%v, %+v", err, v)
			}
		}
	}
}

// Reports are what is printed, and an earlier one does not outlive the begin of a check.
func TestCheckReports(t *testing.T) {
	var files []string
	for ext, format := range reportFormats {
		file := filepath.Join(t.TempDir(), "check"+ext)
		if err := writeReports([]string{file}, recorded()); err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder
		if err := checkFormats[format](&printed, recorded()); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != printed.String() {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
		files = append(files, file)
	}
	if err := clearReports(files); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is of an earlier check", file)
		}
	}
}

// Bad input is told by one line and the next step, before anything is built or started.
func TestCheckBadInput(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run := "run: {command: [-jar, app.jar], ready: 'tcp:1'}\n"
	put(t, "growth.yaml", run+"growth: {needed: 2%}\n")
	put(t, "most.yaml", run+"most: {needed: 2MiB}\n")
	put(t, "wrong.yaml", run+"most: {needed: 2MiB}\nmoore: {}\n")
	put(t, "few.yaml", run+"most: {needed: 2MiB}\nruns: 2\n")
	put(t, "other.json", `{"schema":"tare.fit/1"}`+"\n")
	put(t, "broken.json", `{"schema":"tare.check/1","verdict":"broken","error":"the check did not end"}`)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"check"}, []string{"tare.budget.yaml", "docs/check.md"}},
		{[]string{"check", "--budget", "wrong.yaml"}, []string{"[3:1] unknown field \"moore\"", "^"}},
		{[]string{"check", "--budget", "few.yaml"}, []string{"[3:7] runs 2: give 4 to 100"}},
		{[]string{"check", "--budget", "growth.yaml"}, []string{"there is no base", "--base origin/main"}},
		{[]string{"check", "--budget", "most.yaml", "--base", "HEAD"}, []string{"bounds no growth"}},
		{[]string{"check", "--budget", "growth.yaml", "--base", "none.json"}, []string{"none.json"}},
		{[]string{"check", "--budget", "growth.yaml", "--base", "other.json"}, []string{"no result of schema tare.check/1"}},
		{[]string{"check", "--budget", "most.yaml", "--format", "sarif"}, []string{"give text, json, markdown or junit"}},
		{[]string{"check", "--budget", "most.yaml", "--report", "check.pdf"}, []string{"check.pdf: name a file that ends in .md"}},
		{[]string{"check", "accept"}, []string{"tare check --result"}},
		{[]string{"check", "accept", "broken.json", "--budget", "most.yaml", "--reason", "x"}, []string{"is of another budget"}},
		{[]string{"check", "trend", "none.jsonl"}, []string{"none.jsonl"}},
		{[]string{"check", "trend", "other.json"}, []string{"other.json"}},
	} {
		code, out, errs := tareRun(t, c.args...)
		if code != exitUsage || out != "" {
			t.Errorf("%q: exit code %d, %q", c.args, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: %q, want %q", c.args, errs, want)
			}
		}
	}
}

// What of base and head cannot be compared, or fails by itself, is told with an exit code of
// its own, and leaves nothing behind.
func TestCheckBadSides(t *testing.T) {
	const good = `build: "true"
results:
  format: junit
  command: sh measure.sh
  files: [r.jsonl]
runs: 4
mostRuns: 8
growth: {T.m/retained: default}
`
	const measure = `printf '{"schema":"tare.junit/1","timeMillis":%s,"test":"a.T.m","jdk":"21.0.12+7","retained":%s,"allocated":1}\n' $(date +%s%3N) 1000 > r.jsonl` + "\n"
	dir := committed(t, map[string]string{budget.FileName: good, "measure.sh": measure, ".gitignore": "*.json*\n"})
	file := filepath.Join(dir, budget.FileName)
	change := func(name, text string) {
		t.Helper()
		put(t, filepath.Join(dir, name), text)
		gitIn(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qam", "more")
	}
	change(budget.FileName, strings.Replace(good, `"true"`, "echo no compiler; exit 3", 1))
	change(budget.FileName, good+"moore: 1\n")
	change(budget.FileName, "run: {command: [-jar, a.jar], ready: 'tcp:1'}\nmost: {rss: 1MiB}\n")
	put(t, file, good)
	change("measure.sh", "echo no database; exit 4\n")
	change("measure.sh", measure)
	kept := filepath.Join(dir, "r.json")
	check := func(want int, texts []string, args ...string) {
		t.Helper()
		code, out, errs := tareRun(t, append([]string{"check", "--budget", file, "--result", kept}, args...)...)
		for _, text := range texts {
			if code != want || !strings.Contains(out+errs, text) {
				t.Errorf("%q: %d, no %q in\n%s%s", args, code, text, out, errs)
			}
		}
		if worktrees := gitIn(t, dir, "worktree", "list"); strings.Count(worktrees, "\n") != 1 {
			t.Errorf("left behind: %s", worktrees)
		}
	}
	check(exitOK, []string{"All bounds hold."}, "--base", "HEAD")
	passed, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "passed.json"), string(passed))
	check(exitUsage, []string{`no such commit as "none": fetch it first`}, "--base", "none")
	check(exitUsage, []string{"there is no base"})
	check(exitFailure, []string{"the base HEAD~4 does not build: echo no compiler; exit 3: exit status 3", "no compiler\n", "mend the build"}, "--base", "HEAD~4")
	if r := resultIn(t, kept); r.Verdict != "broken" || !strings.Contains(r.Error, "does not build") {
		t.Errorf("%+v", r)
	}
	check(exitOK, []string{"note: the base's own budget cannot be read", `[9:1] unknown field "moore"`}, "--base", "HEAD~3")
	check(exitUsage, []string{"--base HEAD~2: its budget checks a command, and this one results of junit: they cannot be compared"}, "--base", "HEAD~2")
	check(exitNotReady, []string{"HEAD~1 does not run: the command of results: exit status 4", "no database"}, "--base", "HEAD~1")
	check(exitOK, []string{"All bounds hold."}, "--base", filepath.Join(dir, "passed.json"))
	put(t, filepath.Join(dir, "few.json"), strings.Replace(string(passed), `"runs": [`, `"runs": [], "more": [`, 2))
	check(exitUsage, []string{"it has 0 runs, and the budget asks for 4"}, "--base", filepath.Join(dir, "few.json"))
	put(t, filepath.Join(dir, "elsewhere.json"), regexp.MustCompile(`"kernel": "[^"]*"`).ReplaceAllString(string(passed), `"kernel": "2.6.32"`))
	check(exitUsage, []string{"it was measured elsewhere", "machine: Linux 2.6.32 "}, "--base", filepath.Join(dir, "elsewhere.json"))
	put(t, filepath.Join(dir, "jdk.json"), strings.ReplaceAll(string(passed), "21.0.12+7", "17.0.1+12"))
	check(exitUsage, []string{"it cannot be a base: JDK: 17.0.1+12 before, and 21.0.12+7 in the working tree"}, "--base", filepath.Join(dir, "jdk.json"))
	put(t, filepath.Join(dir, "measure.sh"), "exit 5\n")
	check(exitNotReady, []string{"the working tree does not run: the command of results: exit status 5"}, "--base", "HEAD")
	put(t, file, strings.Replace(good, `"true"`, "exit 6", 1))
	check(exitFailure, []string{"the working tree does not build: exit 6: exit status 6"}, "--base", "HEAD")
}

// An image is checked against another, of which it has more heap.
func TestCheckOfImages(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	importSysinfo(t, e, "check:1")
	importSysinfo(t, e, "check:2", `ENV JAVA_TOOL_OPTIONS="-Xms28m -XX:+AlwaysPreTouch"`)
	t.Chdir(t.TempDir())
	put(t, budget.FileName, `run:
  runner: docker
  image: check:2
  options: [-Xmx28m, -XX:+UseSerialGC]
  command: [-jar, sysinfo.jar, --port, "{port}"]
  ready: tcp:{port}
  limit: 256m
  settle: 10ms
runs: 4
mostRuns: 8
growth: {java-heap: 5%}
`)
	code, out, errs := tareRun(t, "check", "--base", "check:1", "--format", "markdown")
	if code != exitOverBudget || !strings.Contains(out, "java-heap grew by") || !strings.Contains(out, "Java heap") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}
