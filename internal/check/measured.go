package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
)

// Measured is a command of benchmarks or tests that write results. Each of its runs is one
// run of the side, however many forks or repeats there are in it: their mean counts.
type Measured struct {
	Results budget.Results
	// Dir is the folder that the command runs in.
	Dir string
	// Bounds are what is read of the results.
	Bounds []budget.Bound
}

var _ Source = Measured{}

// JUnitSchema names a line of the results of dev.tare:tare-junit.
const JUnitSchema = "tare.junit/1"

const (
	resultsTimeout = time.Hour
	// coarse is how far times of files may lie behind the clock (current_time(9)).
	coarse = 20 * time.Millisecond
	// mostNames is how many names of results an error lists.
	mostNames = 20
)

// result is what was measured of one benchmark or test.
type result struct {
	name, jdk string
	metrics   map[string]float64 // in the base units
}

// Once runs the command, and reads what it wrote.
func (m Measured) Once(ctx context.Context, side string) (Run, holdings, error) {
	begin := time.Now().UTC()
	limit := cmp.Or(time.Duration(m.Results.Timeout), resultsTimeout)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := shell(limited, m.Dir, m.Results.Command, io.Discard)
	switch {
	case ctx.Err() != nil:
		return Run{}, nil, context.Cause(ctx)
	case limited.Err() != nil:
		return Run{}, nil, &RunError{Side: side, Verdict: fmt.Sprintf("the command of results did not end within %s", limit)}
	case err != nil:
		return Run{}, nil, &RunError{Side: side, Verdict: fmt.Sprintf("the command of results: %v", err), Evidence: last(strings.Split(strings.TrimSpace(out), "\n"))}
	}
	run := Run{Time: begin, Took: time.Since(begin)}
	results, err := m.read(begin)
	if err == nil {
		run.Values, run.JDK, err = m.values(results)
	}
	if err != nil {
		return Run{}, nil, &RunError{Side: side, Verdict: err.Error()}
	}
	return run, nil, nil
}

func (m Measured) conditions(ctx context.Context) (Conditions, error) {
	machine, err := runner.ThisHost().Machine(ctx)
	return Conditions{Machine: machine, Runner: "results of " + m.Results.Format}, err
}

func (Measured) describe(*Side) {}

func (Measured) lacks(budget.Measure) string { return "" }

// read reads the results that were written since a moment.
func (m Measured) read(since time.Time) ([]result, error) {
	var names []string
	for _, pattern := range m.Results.Files {
		matches, err := filepath.Glob(filepath.Join(m.Dir, pattern))
		if err != nil {
			return nil, err
		}
		names = append(names, matches...)
	}
	slices.Sort(names)
	var out []result
	for _, name := range slices.Compact(names) {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() || st.ModTime().Before(since.Add(-coarse)) {
			continue
		}
		read := readJMH
		if m.Results.Format == budget.JUnit {
			read = readJUnit
		}
		results, err := read(name, since)
		if err != nil {
			return nil, err
		}
		out = append(out, results...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the command wrote no result anew into %s: let it run them each time, and name its files", strings.Join(m.Results.Files, ", "))
	}
	return out, nil
}

// readJMH reads a file of JMH.
func readJMH(name string, _ time.Time) ([]result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := jmh.Read(f, name)
	if err != nil {
		return nil, err
	}
	var out []result
	for _, r := range all {
		one := result{name: benchmark(r), jdk: r.JDK, metrics: map[string]float64{}}
		for metric, v := range r.Metrics {
			if len(v.Forks) == 0 {
				continue
			}
			e := v.Estimate()
			if one.metrics[metric] = e.Center; e.Unit == "MiB" {
				one.metrics[metric] *= 1 << 20
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// benchmark is a benchmark with its parameters: a.B.read(cache=guava,keys=500).
func benchmark(r jmh.Result) string {
	if len(r.Params) == 0 {
		return r.Benchmark
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		parts = append(parts, name+"="+r.Params[name])
	}
	return r.Benchmark + "(" + strings.Join(parts, ",") + ")"
}

// junitLine is one measured test.
type junitLine struct {
	Schema string `json:"schema"`
	// TimeMillis is when it was measured, since 1970.
	TimeMillis int64   `json:"timeMillis"`
	Test       string  `json:"test"`
	JDK        string  `json:"jdk"`
	Retained   float64 `json:"retained"`
	Allocated  float64 `json:"allocated"`
}

// readJUnit reads what tests have appended to a file since a moment.
func readJUnit(name string, since time.Time) (out []result, err error) {
	err = records.ReadFile(name, func(text []byte) error {
		var line junitLine
		if err := json.Unmarshal(text, &line); err != nil || line.Schema != JUnitSchema || line.Test == "" {
			return errors.New("no result of schema " + JUnitSchema)
		}
		if line.TimeMillis < since.UnixMilli() {
			return nil
		}
		out = append(out, result{line.Test, line.JDK, map[string]float64{"retained": line.Retained, "allocated": line.Allocated}})
		return nil
	})
	return out, err
}

// values are those of the bounds, and the JDK that they were measured on.
func (m Measured) values(results []result) (values Values, jdk string, err error) {
	values = Values{}
	for _, b := range m.Bounds {
		test, metric := budget.SplitResult(b.Measure.Name)
		r, err := named(results, test)
		if err != nil {
			return nil, "", err
		}
		v, ok := r.metrics[metric]
		if !ok {
			return nil, "", fmt.Errorf("%s has no metric %q: it has %s", r.name, metric, list(slices.Sorted(maps.Keys(r.metrics))))
		}
		if jdk != "" && jdk != r.jdk {
			return nil, "", fmt.Errorf("results of two JDKs, %s and %s: run all with one", jdk, r.jdk)
		}
		values[b.Measure.Name], jdk = v, r.jdk
	}
	return values, jdk, nil
}

// named is the result of a name: the whole one, or its end behind a dot.
func named(results []result, name string) (result, error) {
	var all, found []string
	var out result
	for _, r := range results {
		all = append(all, r.name)
		if r.name == name || strings.HasSuffix(r.name, "."+name) {
			out = r
			found = append(found, r.name)
		}
	}
	switch len(found) {
	case 0:
		return out, fmt.Errorf("there is no result of %q: there are %s", name, list(all))
	case 1:
		return out, nil
	}
	return out, fmt.Errorf("%d results are of %q: %s: write more of the name, or measure each once", len(found), name, list(found))
}

// list are some names in words.
func list(names []string) string {
	text := strings.Join(names[:min(mostNames, len(names))], ", ")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
