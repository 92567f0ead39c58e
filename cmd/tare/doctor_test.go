package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tare.dev/tare/internal/doctor"
)

// A JVM and its saved footprint give the same kind of answer, as text and as
// JSON.
func TestDoctor(t *testing.T) {
	p := startFiller(t)
	pid := fmt.Sprint(p.PID())
	code, out, errs := tare(t, "doctor", pid)
	if code != exitOK || !strings.Contains(out, "-XX:ArchiveRelocationMode=0") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	code, saved, _ := tare(t, "weigh", pid, "--json")
	file := filepath.Join(t.TempDir(), "footprint.json")
	if err := os.WriteFile(file, []byte(saved), 0o600); code != exitOK || err != nil {
		t.Fatal(code, err)
	}
	var r, again doctor.Report
	code, out, errs = tare(t, "doctor", file, "--json")
	if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	if r.Schema != doctor.Schema || r.PID != p.PID() || len(r.Findings) == 0 || r.Rules < 20 || r.Unknown == nil {
		t.Errorf("%+v", r)
	}
	for _, key := range []string{"id", "title", "bytesAtStake", "certainty", "evidence", "do", "cost", "source"} {
		if !strings.Contains(out, `"`+key+`":`) {
			t.Errorf("no %s in %s", key, out)
		}
	}
	_, out, _ = tare(t, "doctor", file, "--json")
	if err := json.Unmarshal([]byte(out), &again); err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("%v: %+v\nthen %+v", err, r, again)
	}
}

func TestDoctorRefuses(t *testing.T) {
	dir := t.TempDir()
	foreign, broken := filepath.Join(dir, "result.json"), filepath.Join(dir, "broken.json")
	for name, text := range map[string]string{foreign: `{"schema":"tare.fit/1"}`, broken: `{"schema":`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const save = "save a footprint with: tare weigh PID --json"
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{filepath.Join(dir, "none.json")}, exitTarget, []string{"none.json: no such file", save}},
		{[]string{foreign}, exitTarget, []string{`result.json: not a saved footprint: its schema is "tare.fit/1"`, save}},
		{[]string{broken}, exitTarget, []string{"broken.json: not a saved footprint: no JSON object", save}},
		{[]string{"99999999"}, exitTarget, []string{"no such process", "tare weigh --list"}},
		{[]string{fmt.Sprint(os.Getpid())}, exitTarget, []string{"is not a JVM", "tare weigh --list"}},
		{nil, exitUsage, []string{"doctor takes one JVM", "tare weigh --list"}},
		{[]string{"--bogus"}, exitUsage, []string{"tare doctor --help"}},
	} {
		code, out, errs := tare(t, append([]string{"doctor"}, c.args...)...)
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
