package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/report"
)

// saveWeighing saves the footprint of a JVM to a file, and returns its name.
func saveWeighing(t *testing.T, pid int) string {
	t.Helper()
	code, saved, errs := tare(t, "weigh", fmt.Sprint(pid), "--json")
	file := filepath.Join(t.TempDir(), "before.json")
	if err := os.WriteFile(file, []byte(saved), 0o600); code != exitOK || err != nil {
		t.Fatal(code, errs, err)
	}
	return file
}

// A saved footprint, one on standard input and a live JVM can be compared, in
// any order; a difference is no failure.
func TestDiff(t *testing.T) {
	p := startFiller(t)
	pid := fmt.Sprint(p.PID())
	file := saveWeighing(t, p.PID())
	for _, args := range [][]string{{file, pid}, {pid, file}, {file, file}, {pid, pid}, {file, "-"}, {"-", pid}} {
		cmd := tareCommand(t, append([]string{"diff", "--json"}, args...)...)
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cmd.Stdin = in
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		var d report.Diff
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, r := range d.Rows {
			sum += r.ChangeBytes
		}
		if d.Schema != report.DiffSchema || d.A.From != args[0] || d.B.From != args[1] || d.A.PID != p.PID() || d.B.PID != p.PID() ||
			sum != d.ChangeBytes || d.ChangeBytes != d.B.RSSBytes-d.A.RSSBytes || len(d.Rows) < 10 {
			t.Errorf("%q: %s", args, out)
		}
	}
	code, out, errs := tare(t, "diff", file, pid)
	for _, want := range []string{"A  " + file, "B  " + pid, " later", "java 17.", "Java heap", "= Rss", "the limit sees"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
}

func TestDiffOfTwoJVMs(t *testing.T) {
	a, b := startFiller(t), startFiller(t)
	code, out, errs := tare(t, "diff", fmt.Sprint(a.PID()), fmt.Sprint(b.PID()))
	if code != exitOK || !strings.Contains(out, "note: different JVMs") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestDiffRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	foreign, empty := file("fit.json", `{"schema":"tare.fit/1"}`), file("empty.jsonl", "")
	wrong := file("wrong.json", `{"schema":"tare.footprint/1","pid":1,"rssBytes":5,"rows":[{"owner":"malloc","residentBytes":4}]}`)
	const save = "save a footprint with: tare weigh PID --json"
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{nil, exitUsage, []string{"diff takes two footprints", "save one with: tare weigh PID --json"}},
		{[]string{foreign}, exitUsage, []string{"diff takes two footprints"}},
		{[]string{"-", "-"}, exitUsage, []string{"only one footprint can come from standard input"}},
		{[]string{"--bogus"}, exitUsage, []string{"tare diff --help"}},
		{[]string{foreign, foreign}, exitTarget, []string{`fit.json: not a saved footprint: its schema is "tare.fit/1"`, save}},
		{[]string{empty, foreign}, exitTarget, []string{"empty.jsonl: not a saved footprint: it is empty", save}},
		{[]string{wrong, foreign}, exitTarget, []string{"wrong.json: not a saved footprint: its rows add up to 4 bytes, rssBytes says 5", save}},
		{[]string{filepath.Join(dir, "none.json"), foreign}, exitTarget, []string{"none.json: no such file", save}},
		{[]string{"99999999", foreign}, exitTarget, []string{"no such process", "tare weigh --list"}},
		{[]string{"no-such.jar", foreign}, exitTarget, []string{`no JVM runs "no-such.jar"`, "tare weigh --list"}},
	} {
		code, out, errs := tare(t, append([]string{"diff"}, c.args...)...)
		if code != c.code || out != "" || strings.Count(errs, "\n") > 2 {
			t.Errorf("%q: exit code %d, want %d; %q, %q", c.args, code, c.code, out, errs)
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: no %q in %q", c.args, want, errs)
			}
		}
	}
}
