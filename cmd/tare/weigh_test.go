package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jdks"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// tare runs one command line.
func tare(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func startFiller(t *testing.T) *jvmtest.Process {
	return jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m"}, 5, 10, 10)
}

func TestWeighJSON(t *testing.T) {
	p := startFiller(t)
	code, out, errs := tare(t, "weigh", fmt.Sprint(p.PID()), "--json")
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	var f struct {
		Schema    string
		PID       int
		JDK       string
		Collector string
		Time      string
		RSSBytes  int64
		PSSBytes  int64
		Cgroup    map[string]any
		Rows      []map[string]any
		Sources   []map[string]any
		Warnings  []string
	}
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatal(err)
	}
	if f.Schema != footprint.Schema || f.PID != p.PID() || !strings.HasPrefix(f.JDK, "17.") || f.Collector != "G1" || f.Warnings == nil {
		t.Errorf("got %+v", f)
	}
	var sum float64
	for _, r := range f.Rows {
		for _, key := range []string{"owner", "residentBytes", "committedBytes", "reservedBytes", "how"} {
			if _, ok := r[key]; !ok {
				t.Errorf("row %v has no %s", r["owner"], key)
			}
		}
		sum += r["residentBytes"].(float64)
	}
	if int64(sum) != f.RSSBytes {
		t.Errorf("rows add up to %.0f, Rss is %d", sum, f.RSSBytes)
	}
	for _, s := range f.Sources {
		if _, ok := s["error"]; !ok || s["name"] == "" || s["millis"] == nil {
			t.Errorf("source %v", s)
		}
	}
	for _, key := range []string{"limitBytes", "usageBytes"} {
		if _, ok := f.Cgroup[key]; !ok {
			t.Errorf("cgroup has no %s", key)
		}
	}
}

func TestWeighText(t *testing.T) {
	p := startFiller(t)
	code, out, errs := tare(t, "weigh", fmt.Sprint(p.PID()))
	if code != exitOK {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	for _, want := range []string{"java 17.", "Java heap", "unattributed", "= Rss", "nothing was sent to the JVM"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// What stops the JVM is said before, and apart from the result.
func TestWeighDeep(t *testing.T) {
	p := startFiller(t)
	code, out, errs := tare(t, "weigh", fmt.Sprint(p.PID()), "--deep")
	if code != exitOK || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, fmt.Sprintf("tare: process %d stops its ", p.PID())) {
		t.Fatalf("exit code %d, %q", code, errs)
	}
	for _, want := range []string{"the JVM was asked, and stopped meanwhile", "objects in the heap, live or not: ", "byte[]", "metaspace: ", "<boot class loader>"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, _ = tare(t, "weigh", fmt.Sprint(p.PID()), "--deep", "--json")
	f, err := footprint.Read(strings.NewReader(out))
	if code != exitOK || err != nil || f.Asked == nil || f.Asked.Classes == nil {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
}

func TestWeighList(t *testing.T) {
	p := startFiller(t)
	code, out, _ := tare(t, "weigh", "--list")
	if code != exitOK || !strings.Contains(out, fmt.Sprint(p.PID())) || !strings.Contains(out, "workloads.jar") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	code, out, _ = tare(t, "weigh", "--list", "--json")
	var rows []listed
	if err := json.Unmarshal([]byte(out), &rows); code != exitOK || err != nil || len(rows) == 0 {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
}

func TestBadInput(t *testing.T) {
	startFiller(t)
	startFiller(t)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"weigh", "99999999"}, exitTarget, []string{"process 99999999: no such process", "tare weigh --list"}},
		{[]string{"weigh", "0"}, exitTarget, []string{"no such process"}},
		{[]string{"weigh", fmt.Sprint(os.Getpid())}, exitTarget, []string{"is not a JVM: no libjvm.so is mapped", "tare weigh --list"}},
		{[]string{"weigh", "no-such.jar"}, exitTarget, []string{`no JVM runs "no-such.jar"`, "tare weigh --list"}},
		{[]string{"weigh", "workloads.jar"}, exitTarget, []string{"several JVMs match", "processes "}},
		{[]string{"weigh"}, exitUsage, []string{"weigh takes one JVM", "tare weigh --list"}},
		{[]string{"weigh", "1", "2"}, exitUsage, []string{"weigh takes one JVM"}},
		{[]string{"weigh", "--bogus"}, exitUsage, []string{"unknown flag: --bogus", "tare weigh --help"}},
		{[]string{"weihg"}, exitUsage, []string{`unknown command "weihg"`, `"weigh"`}},
	} {
		code, out, errs := tare(t, c.args...)
		if code != c.code || out != "" {
			t.Errorf("%q: exit code %d, want %d; stdout %q", c.args, code, c.code, out)
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: no %q in %q", c.args, want, errs)
			}
		}
		if lines := strings.Count(errs, "\n"); lines > 2 {
			t.Errorf("%q: %d lines of error: %s", c.args, lines, errs)
		}
	}
}

// A JVM chooses the names that are listed and quoted: a terminal must not obey
// them.
func TestNamesArePrintable(t *testing.T) {
	const escape = "\x1b]0;title\a\x1b[2J\u202e"
	var out strings.Builder
	if err := listTable(&out, []listed{{1, 2, escape, "HotSpot", "/tmp/" + escape + "/libjvm.so"}}); err != nil {
		t.Fatal(err)
	}
	out.WriteString(jdksTable([]jdks.JDK{{Home: escape, Version: "17", Vendor: escape, Error: escape}}))
	complain(&out, fmt.Errorf("it says %s", escape))
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q in %q", r, out.String())
		}
	}
}
