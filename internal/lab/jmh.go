package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/trial"
)

// JMHWorkload is a run's workload that is a jar of JMH benchmarks: it runs to
// its end, and its results are the measures jmh.METRIC.
const JMHWorkload = "jmh"

// jmhPrefix starts the names of measures that are metrics of a JMH result.
const jmhPrefix = "jmh."

// besideJMH are the other measures that such a run has: those of its group. The
// process that the lab starts is JMH's own, not the one that is measured.
var besideJMH = []string{"cgroup-peak", "cgroup-needed", "cpu-time", "passed", foundMeasure, limitMeasure}

// ownFlags are JMH's options that the lab gives itself.
var ownFlags = []string{"-rf", "-rff"}

// jmhSpec makes the trial one of a jar of benchmarks.
func (r Run) jmhSpec(s *trial.Spec) error {
	switch {
	case r.Workload != JMHWorkload:
		return fmt.Errorf("workload %q: give %s, or leave it out for a program that keeps running", r.Workload, JMHWorkload)
	case r.Image != "":
		return fmt.Errorf("workload %s writes its result to this machine's files: leave out runner and image", JMHWorkload)
	case r.Ready != "" || r.Load != nil || r.Settle != 0:
		return fmt.Errorf("workload %s runs to its end: leave out ready, load and settle", JMHWorkload)
	}
	for _, flag := range ownFlags {
		if slices.Contains(r.Command, flag) {
			return fmt.Errorf("workload %s: leave out %s, which the lab gives itself", JMHWorkload, flag)
		}
	}
	s.Job, s.Duration = true, 0
	return nil
}

// jmhResult is the file that a run of benchmarks writes its result to; nil is
// that of a run which is none.
type jmhResult struct{ dir string }

// newJMHResult has a run of benchmarks write its result, and fail when a
// benchmark fails.
func newJMHResult(r Run, s *trial.Spec) (*jmhResult, error) {
	if r.Workload != JMHWorkload {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "tare-jmh-")
	if err != nil {
		return nil, fmt.Errorf("for the result of JMH: %w", err)
	}
	f := &jmhResult{dir}
	s.Args = append(s.Args, "-rf", "json", "-rff", f.name())
	if !slices.Contains(s.Args, "-foe") {
		s.Args = append(s.Args, "-foe", "true")
	}
	s.Weigh, s.Inspect = false, nil // JMH's own process tells nothing of the measured one
	return f, nil
}

func (f *jmhResult) name() string { return filepath.Join(f.dir, "result.json") }

func (f *jmhResult) remove() {
	if f != nil {
		_ = os.RemoveAll(f.dir) // below the system's folder for temporary files
	}
}

// read gives the observation the metrics of the one benchmark that ran. What
// keeps it from that is a warning of a run that passed; one that failed has
// said why.
func (f *jmhResult) read(o *observation) {
	if f == nil || !o.trial.Passed() {
		return
	}
	var err error
	if o.jmh, err = f.estimates(); err != nil {
		o.trial.Warnings = append(o.trial.Warnings, err.Error())
	}
}

func (f *jmhResult) estimates() (map[string]jmh.Estimate, error) {
	file, err := os.Open(f.name())
	if err != nil {
		return nil, errors.New("JMH ended without a result: is the jar one of JMH benchmarks?")
	}
	defer file.Close()
	results, err := jmh.Read(file, "JMH's result")
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%d benchmarks ran: name one by a pattern and -p NAME=VALUE for each of its parameters", len(results))
	}
	estimates := map[string]jmh.Estimate{}
	for name, m := range results[0].Metrics {
		if len(m.Forks) > 0 {
			estimates[name] = m.Estimate()
		}
	}
	return estimates, nil
}

// jmhMeasure is the measure of a metric: sizes are bytes, everything else is in
// the unit of JMH's result.
func jmhMeasure(name string) (Measure, bool) {
	metric, ok := strings.CutPrefix(name, jmhPrefix)
	if !ok || metric == "" || len(metric) > 200 {
		return Measure{}, false
	}
	m := Measure{Name: name, Unit: Number, Help: "mean of a metric of JMH's result"}
	if isSize(metric) {
		m.Unit = Bytes
	}
	m.value = func(o *observation) (float64, bool) {
		e, ok := o.jmh[metric]
		switch {
		case !ok:
			return 0, false
		case m.Unit == Bytes:
			return e.Center * (1 << 20), e.Unit == "MiB"
		}
		return e.Center, true
	}
	return m, true
}

// isSize says whether a metric of the profilers dev.tare.jmh is a size. A unit
// must be known before anything runs.
func isSize(metric string) bool {
	switch metric {
	case "mem.alloc.rate", "mem.alloc.norm", "mem.settled.rounds", "mem.peak.collections":
		return false
	}
	family, _, _ := strings.Cut(metric, ".")
	return slices.Contains([]string{"mem", "proc", "cgroup", "nmt", "footprint", "graph"}, family) && !strings.HasSuffix(metric, ".objects")
}

// fits says why a measure is not one of the run; nil when it is.
func (m Measure) fits(r Run) error {
	ofJMH := strings.HasPrefix(m.Name, jmhPrefix)
	switch {
	case m.needsLoad && r.Load == nil:
		return fmt.Errorf("measure %s needs a load", m.Name)
	case ofJMH && r.Workload != JMHWorkload:
		return fmt.Errorf("measure %s needs workload: %s", m.Name, JMHWorkload)
	case r.Workload == JMHWorkload && !ofJMH && !slices.Contains(besideJMH, m.Name):
		return fmt.Errorf("measure %s is of a program that keeps running: of workload %s there are jmh.METRIC, %s", m.Name, JMHWorkload,
			strings.Join(besideJMH, ", "))
	}
	return nil
}
