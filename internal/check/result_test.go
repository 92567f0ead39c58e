package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/runner"
)

var here = Conditions{Machine: runner.Machine{Kernel: "6.1", Arch: "amd64", CPUs: 2, MemoryBytes: 8 << 30}, Runner: "cgroup v2", JDK: "21.0.1 A", Limit: "512m",
	Load: &lab.Load{Requests: 100}}

// Only a result that passed on the same machine, with the same JDK and load, is a base.
func TestAsBase(t *testing.T) {
	good := func() *Result {
		return &Result{Schema: Schema, Verdict: Passed, Conditions: here, Head: Side{Runs: make([]Run, 8)}}
	}
	if err := good().asBase(here, 8); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Result){
		`its verdict is "failed", and only what passed`:     func(r *Result) { r.Verdict = Failed },
		`its verdict is "not known"`:                        func(r *Result) { r.Verdict = Unknown },
		"it has 7 runs, and the budget asks for 8":          func(r *Result) { r.Head.Runs = r.Head.Runs[:7] },
		"JDK: 21.0.2 B there, 21.0.1 A here":                func(r *Result) { r.Conditions.JDK = "21.0.2 B" },
		"memory limit: none there, 512m here":               func(r *Result) { r.Conditions.Limit = "" },
		"machine: Linux 6.1 amd64 with 4 processors and":    func(r *Result) { r.Conditions.Machine.CPUs = 4 },
		`load: {"URLs":null,"Concurrency":0,"Rate":0,"Warm`: func(r *Result) { r.Conditions.Load = &lab.Load{Requests: 99} },
	} {
		r := good()
		spoil(r)
		if err := r.asBase(here, 8); !errors.Is(err, ErrBase) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What every run of the head has more of is named, and nothing else.
func TestGrown(t *testing.T) {
	run := func(metaspace int64, cache, other int64, workers int) holdings {
		f := &footprint.Footprint{Rows: []footprint.Row{{Owner: footprint.Metaspace, ResidentBytes: metaspace},
			{Owner: footprint.MappedFiles, ResidentBytes: 9 << 20, Children: []footprint.Child{{ID: "file:libx.so", Name: "libx.so", ResidentBytes: other}}}}}
		threads := []string{"main"}
		for i := range workers {
			threads = append(threads, "worker-"+string(rune('0'+i)))
		}
		return held(f, &attach.Histogram{Classes: []attach.ClassUse{{Name: "a.Cache", Bytes: cache}}}, threads)
	}
	base := Side{Holds: ranges([]holdings{run(5<<20, 0, 1<<20, 2), run(6<<20, 0, 3<<20, 2)}), Jars: map[string]int64{"a.jar": 5, "b.jar": 5}, Options: []string{"-Xmx1g"}}
	head := Side{Holds: ranges([]holdings{run(7<<20, 1<<20, 2<<20, 3), run(8<<20, 2<<20, 2<<20, 3)}), Jars: map[string]int64{"a.jar": 6, "c.jar": 7}, Options: []string{"-Xmx2g"}}
	var got []string
	for _, g := range grown(base, head) {
		got = append(got, string(g.Kind)+" "+g.Name+" "+g.Text)
	}
	want := []string{"owner metaspace ", "class a.Cache ", "threads worker-N ", "jar c.jar added", "jar b.jar removed", "jar a.jar changed", "option -Xmx2g added", "option -Xmx1g removed"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	r := &Result{Grew: grown(base, head)}
	if c := r.Culprits(Finding{Measure: "metaspace"}); len(c) != 1 || c[0].Name != "metaspace" {
		t.Errorf("%+v", c)
	}
	if c := r.Culprits(Finding{Measure: "needed"}); len(c) != 3 {
		t.Errorf("%+v", c)
	}
}

func TestAcceptOfAResult(t *testing.T) {
	r := &Result{Verdict: Failed, Findings: []Finding{
		{Measure: "needed", Unit: "bytes", Value: Interval{190 << 20, 189 << 20, 191.02 * (1 << 20)}, Verdict: Failed},
		{Measure: "malloc", Unit: "bytes", Growth: true, Value: Interval{3 << 20, 2.5 * (1 << 20), 3.5 * (1 << 20)}, Limit: 2 << 20, Resolution: 1 << 20, Verdict: Failed},
		{Measure: "threads", Unit: "count", Growth: true, Value: Interval{3, 3, 3}, Limit: 1, Resolution: 1, Verdict: Failed},
		{Measure: "start", Unit: "seconds", Value: Interval{9, 8, 10}, Verdict: Unknown},
	}}
	c, err := r.Accept("why", time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC))
	if err != nil || len(c.Most) != 1 || c.Most["needed"] != "191.1MiB" || len(c.Growth) != 2 || c.Growth["malloc"] != "2.0MiB" || c.Growth["threads"] != "3" || c.Date != "2026-11-25" {
		t.Errorf("%v, %+v", err, c)
	}
	for _, v := range []Verdict{Broken, Passed} {
		if _, err := (&Result{Verdict: v, Error: "no build"}).Accept("why", time.Now()); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", v, err)
		}
	}
}

// A trend has the last result of each commit, and is not written over where it is no trend.
func TestTrend(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trend.jsonl")
	for i, commit := range []string{"a", "b", "b", "c"} {
		r := &Result{Verdict: Passed, Commit: commit, Conditions: here}
		for n := range 4 {
			r.Head.Runs = append(r.Head.Runs, Run{Values: Values{"needed": float64(100*i + n)}})
		}
		if err := r.Record(name); err != nil {
			t.Fatal(err)
		}
	}
	points, err := ReadTrend(name, 2)
	if err != nil || len(points) != 2 || points[0].Commit != "b" || points[0].Values["needed"].Center != 201.5 || points[1].Commit != "c" {
		t.Errorf("%v, %+v", err, points)
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	if err := os.WriteFile(other, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Result{Head: Side{Runs: make([]Run, 1)}}).Record(other); err == nil {
		t.Error("another file was appended to")
	}
}

// A reference is checked out beside the tree, without the hooks of the repository, and
// removed again; one that git does not know is an error that says so.
func TestCheckOut(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "service")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q", "-b", "main")
	write("service/f", "old", 0o644)
	run("add", "-A")
	run("commit", "-qm", "one")
	write("service/f", "new", 0o644)
	write(".git/hooks/post-checkout", "#!/bin/sh\ntouch "+filepath.Join(dir, "hooked")+"\n", 0o755)
	tree, err := OpenTree(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	if commit, changed, err := tree.Head(t.Context()); err != nil || len(commit) < 40 || !changed {
		t.Errorf("%q, %v, %v", commit, changed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	commit, err := tree.Resolve(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	at, remove, err := tree.CheckOut(ctx, commit)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(at, "f")); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	cancel() // an interrupt leaves nothing either
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(at); err == nil {
		t.Errorf("%s is left", at)
	}
	if _, err := os.Stat(filepath.Join(dir, "hooked")); err == nil {
		t.Error("a hook ran")
	}
	for _, ref := range []string{"none", "--help", ""} {
		if _, err := tree.Resolve(t.Context(), ref); !errors.Is(err, ErrReference) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if _, err := OpenTree(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder without git is a tree")
	}
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := Build(t.Context(), "head", dir, "echo made > it", io.Discard); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "it")); err != nil || string(text) != "made\n" {
		t.Errorf("%q, %v", text, err)
	}
	var log bytes.Buffer
	err := Build(t.Context(), "the base x", dir, "echo no compiler; false; echo not reached", &log)
	var failed *BuildError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "the base x does not build") || failed.Output != "no compiler\n" || log.String() != failed.Output {
		t.Errorf("%v, %q", err, log.String())
	}
	if err := Build(t.Context(), "head", "/nonexistent", "", io.Discard); err != nil {
		t.Errorf("no command: %v", err)
	}
}
