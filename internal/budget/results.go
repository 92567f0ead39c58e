package budget

import (
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/lab"
)

// Results are what a command of benchmarks or tests writes. Each run of the command is one
// run of the side.
type Results struct {
	// Format is JMH or JUnit.
	Format string `yaml:"format"`
	// Command is run by a shell in the folder of the file.
	Command string `yaml:"command"`
	// Files are patterns of the files that it writes, from the folder of the file on. What
	// is there before a run is removed.
	Files []string `yaml:"files"`
	// Timeout is how long a run may take; an hour when 0.
	Timeout lab.Duration `yaml:"timeout"`
}

// Formats of results.
const (
	JMH   = "jmh"   // the JSON of JMH, -rf json
	JUnit = "junit" // what dev.tare:tare-junit writes, schema tare.junit/1
)

const (
	// resultSeparator is in names of measures of results: Class.method/metric.
	resultSeparator = "/"
	mostFiles       = 100
)

// metrics of JUnit's results.
var junitMetrics = map[string]bool{"retained": true, "allocated": true}

// resultMeasure is the measure of a name such as Class.method/metric.
func resultMeasure(name string) (Measure, bool) {
	test, metric := SplitResult(name)
	if test == "" || len(name) > MaxText {
		return Measure{}, false
	}
	if junitMetrics[metric] {
		return Measure{Name: name, Unit: lab.Bytes}, true
	}
	m, ok := lab.MeasureNamed("jmh." + metric)
	return Measure{Name: name, Unit: m.Unit}, ok
}

// SplitResult splits the name of a measure of results.
func SplitResult(name string) (test, metric string) {
	i := strings.LastIndex(name, resultSeparator)
	return name[:max(i, 0)], name[i+1:]
}

// OfResults says that a measure is one of results, of which the file tells.
func (m Measure) OfResults() bool { return strings.Contains(m.Name, resultSeparator) }

func (c *checker) checkResults() error {
	r := c.b.Results
	run := c.b.Run
	switch {
	case len(run.Command)+len(run.Options)+len(run.Env) > 0 || run.Load != nil || run.Limit != "" || run.Image != "" || run.JDK != "":
		return c.fail("$.run", "give one of run, compose and results: what starts benchmarks or tests is their command")
	case r.Format != JMH && r.Format != JUnit:
		return c.fail("$.results", "format %q: give %s or %s", r.Format, JMH, JUnit)
	case r.Command == "" || len(r.Command) > MaxText:
		return c.fail("$.results", "command: give one that runs them anew, of at most %d characters", MaxText)
	case len(r.Files) == 0 || len(r.Files) > mostFiles:
		return c.fail("$.results", "files: name those that the command writes its results to, such as [target/jmh.json]")
	}
	for _, f := range r.Files {
		if _, err := filepath.Match(f, ""); err != nil || !filepath.IsLocal(f) {
			return c.fail("$.results.files", "%q is no pattern of files below the folder of the budget", f)
		}
	}
	return nil
}
