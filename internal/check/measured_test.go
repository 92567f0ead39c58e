package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/lab"
)

// measured is a source that bounds a measure of results which a command writes.
func measured(t *testing.T, format, command, measure string) Measured {
	t.Helper()
	m, ok := budget.MeasureNamed(measure)
	if !ok {
		t.Fatal(measure)
	}
	return Measured{Results: budget.Results{Format: format, Command: command, Files: []string{"target/*.json*"}}, Dir: t.TempDir(), Bounds: []budget.Bound{{Measure: m}}}
}

// The JSON of JMH: sizes are bytes, forks one mean; what is not of this run is none.
func TestMeasuredJMH(t *testing.T) {
	source, err := filepath.Abs(filepath.Join("..", "jmh", "testdata", "caches.json"))
	if err != nil {
		t.Fatal(err)
	}
	const named = "ZipfianSequenceLoading.read(cache=caffeine,entries=20000,keys=500)"
	m := measured(t, budget.JMH, "mkdir -p target; cp "+source+" target/jmh.json", named+"/mem.heap.settled")
	run, _, err := m.Once(t.Context(), "head")
	if err != nil {
		t.Fatal(err)
	}
	if v := run.Values[m.Bounds[0].Measure.Name]; v < 8*(1<<20) || v > 9*(1<<20) || run.JDK != "21.0.12.1" || run.Took <= 0 {
		t.Errorf("%+v", run)
	}
	for _, c := range []struct{ command, measure, want string }{
		{"true", named + "/score", "wrote no result anew into target/*.json*"}, // that of the run before is there
		{"touch target/jmh.json", "ZipfianSequenceLoading.read/score", `no result of "ZipfianSequenceLoading.read": there are dev.tare.caches.ZipfianSequenceLoading.read(cache=`},
		{"touch target/jmh.json", named + "/mem.none", `has no metric "mem.none": it has cache.hit.rate`},
		{"touch target/jmh.json; cp target/jmh.json target/again.json", named + "/score", "2 results are of"},
		{"echo '[]' > target/jmh.json; rm -f target/again.json", named + "/score", "no benchmark in it"},
		{"echo broken; exit 3", named + "/score", "head does not run: the command of results: exit status 3\nbroken"},
	} {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(m.Dir, "target", "jmh.json"), old, old); err != nil {
			t.Fatal(err)
		}
		other := measured(t, budget.JMH, c.command, c.measure)
		other.Dir = m.Dir
		_, _, err := other.Once(t.Context(), "head")
		var failed *RunError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.command, err, c.want)
		}
	}
}

// Lines of tests: those that earlier runs have appended are not taken.
func TestMeasuredJUnit(t *testing.T) {
	line := func(time, retained string) string {
		return `printf '{"schema":"tare.junit/1","timeMillis":%s,"test":"a.CacheTest.holds","jdk":"21.0.12+7","retained":%s,"allocated":12}\n' ` + time + " " + retained + " >> target/r.jsonl\n"
	}
	m := measured(t, budget.JUnit, "mkdir -p target\n"+line("1000", "7")+line(`$(date +%s%3N)`, "$((2 << 20))")+"sleep 0.01 # a JVM takes longer", "CacheTest.holds/retained")
	for range 2 {
		run, _, err := m.Once(t.Context(), "head")
		if err != nil || run.Values["CacheTest.holds/retained"] != 2<<20 || run.JDK != "21.0.12+7" {
			t.Errorf("%v, %+v", err, run)
		}
	}
	m.Results.Command = "echo '{}' >> target/r.jsonl"
	if _, _, err := m.Once(t.Context(), "head"); err == nil || !strings.Contains(err.Error(), "no result of schema tare.junit/1") {
		t.Error(err)
	}
}

// A command that does not end is ended with all that it started, at its deadline or with
// the check.
func TestMeasuredEnds(t *testing.T) {
	m := measured(t, budget.JMH, "sleep 1000 & sleep 1000", "a.B.c/score")
	m.Results.Timeout = lab.Duration(50 * time.Millisecond)
	if _, _, err := m.Once(t.Context(), "head"); err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Error(err)
	}
	m.Results.Timeout = 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := m.Once(ctx, "head"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// of is a source of results whose runs are numbers of a file, one each.
func of(t *testing.T, numbers ...int) Measured {
	t.Helper()
	m := measured(t, budget.JUnit, `n=$(head -1 numbers); sed -i 1d numbers; mkdir -p target
printf '{"schema":"tare.junit/1","timeMillis":%s,"test":"a.T.m","jdk":"%s","retained":%s,"allocated":1}\n' $(date +%s%3N) $(cat jdk) $n > target/r.jsonl`, "T.m/retained")
	text := ""
	for _, n := range numbers {
		text += fmt.Sprintln(n)
	}
	for name, text := range map[string]string{"numbers": text, "jdk": "21.0.12+7"} {
		if err := os.WriteFile(filepath.Join(m.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// A whole check of results: growth fails, and results of another JDK are no base.
func TestCheckOfResults(t *testing.T) {
	b, err := budget.Read(strings.NewReader("results: {format: junit, command: x, files: [x]}\nruns: 4\nmostRuns: 8\ngrowth: {T.m/retained: default}\n"), "b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	same := []int{1000, 1001, 1002, 1003, 1000, 1001, 1002, 1003}
	more := []int{1100, 1101, 1102, 1103, 1100, 1101, 1102, 1103}
	r, err := (&Check{Budget: b, Head: Subject{Name: "head", What: of(t, more...)}, Base: &Subject{Name: "base", What: of(t, same...)}}).Run(t.Context())
	if err != nil || r.Verdict != Failed || r.Findings[0].Measure != "T.m/retained" || len(r.Head.Runs) != 8 || r.Conditions.JDK != "21.0.12+7" || r.Conditions.Runner != "results of junit" {
		t.Fatalf("%v, %+v", err, r)
	}
	passed, err := (&Check{Budget: b, Head: Subject{Name: "head", What: of(t, same...)}, Base: &Subject{Name: "base", What: of(t, same...)}}).Run(t.Context())
	if err != nil || passed.Verdict != Passed {
		t.Fatalf("%v, %+v", err, passed)
	}
	head := of(t, same...)
	r, err = (&Check{Budget: b, Head: Subject{Name: "head", What: head}, Earlier: passed}).Run(t.Context())
	if err != nil || r.Verdict != Passed {
		t.Fatalf("%v, %+v", err, r)
	}
	if err := os.WriteFile(filepath.Join(head.Dir, "jdk"), []byte("25.0.1+8"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(head.Dir, "numbers"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = (&Check{Budget: b, Head: Subject{Name: "head", What: head}, Earlier: passed}).Run(t.Context())
	if !errors.Is(err, ErrBase) || !strings.Contains(err.Error(), "JDK: 21.0.12+7 before, and 25.0.1+8 in head") {
		t.Error(err)
	}
}
