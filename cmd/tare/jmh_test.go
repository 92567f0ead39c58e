package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/jmhreport"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// jmhResult is a real result of four caches in three forks each.
func jmhResult(t *testing.T) string {
	t.Helper()
	return filepath.Join(jvmtest.Root(t), "internal", "jmh", "testdata", "caches.json")
}

func TestJMHReport(t *testing.T) {
	file := jmhResult(t)
	code, out, errs := tare(t, "jmh", "report", file, "--sort", "mem.retained")
	for _, want := range []string{"mem.retained in MiB, less is better", "ranking by metric", "guava is first by mem.retained"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	code, out, errs = tare(t, "jmh", "report", file, "--json")
	var r jmhreport.Report
	if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil || r.Schema != jmhreport.ReportSchema || len(r.Groups) != 1 {
		t.Errorf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	code, out, errs = tare(t, "jmh", "report", file, "--html", page)
	text, err := os.ReadFile(page)
	if code != exitOK || err != nil || !strings.HasPrefix(string(text), "<!DOCTYPE html>") || !strings.Contains(out, page) {
		t.Errorf("exit code %d, %v, %s%s", code, err, out, errs)
	}
}

func TestJMHCompare(t *testing.T) {
	file := jmhResult(t)
	code, out, errs := tare(t, "jmh", "compare", file, file, "--metrics", "mem.retained")
	if code != exitOK || strings.Count(out, "same") != 4 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = tare(t, "jmh", "compare", file, file, "--markdown")
	if code != exitOK || !strings.HasPrefix(out, "No significant change.") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestJMHRefuses(t *testing.T) {
	file := jmhResult(t)
	const write = "-rf json -rff FILE"
	none := filepath.Join(t.TempDir(), "none.json")
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"report"}, exitUsage, []string{"report takes results of JMH", write}},
		{[]string{"compare", file}, exitUsage, []string{"compare takes two results", write}},
		{[]string{"report", none}, exitTarget, []string{"none.json: no such file", write}},
		{[]string{"report", os.DevNull}, exitTarget, []string{"null: not a JMH result", write}},
		{[]string{"report", file, "--sort", "bogus"}, exitUsage, []string{`no metric "bogus"`, "there are: cache.hit.rate"}},
		{[]string{"report", file, "--contender", "bogus"}, exitUsage, []string{`do not differ in "bogus"`, "they differ in: cache"}},
		{[]string{"report", file, "--html", none + "/page.html"}, exitFailure, []string{"the page cannot be written"}},
		{[]string{"bogus"}, exitUsage, []string{`unknown command "bogus"`}},
	} {
		code, out, errs := tare(t, append([]string{"jmh"}, c.args...)...)
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
