// Package jmh reads results of the Java Microbenchmark Harness, and says how
// sure each metric is.
package jmh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxFile is the size of the largest result file that is read.
const maxFile = 256 << 20

// Result is one benchmark with one set of parameters.
type Result struct {
	File      string // where it was read
	Benchmark string // with package and class
	Mode      string // thrpt, avgt, sample, ss
	Threads   int
	JDK       string
	Options   []string // of the measured JVM
	Params    map[string]string
	// Metrics are the score, under the name "score", and what profilers
	// found.
	Metrics map[string]Metric
}

// Metric is what was measured of one kind.
type Metric struct {
	Unit string
	// Forks are the values of the iterations of each fork; only finite ones.
	Forks [][]float64
	// Peak says that the largest value counts, not the mean.
	Peak bool
}

// Score is the name of the metric that is the benchmark's own.
const Score = "score"

// number is a number as JMH writes it: NaN and infinities are strings.
type number float64

// UnmarshalJSON reads a number or one of JMH's strings.
func (n *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*n = number(math.NaN())
		return nil
	case `"+INF"`, `"-INF"`:
		*n = number(math.Inf(1))
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%.40s is not a number", text)
	}
	*n = number(v)
	return nil
}

func (n number) finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

type jsonResult struct {
	Benchmark        string                `json:"benchmark"`
	Mode             string                `json:"mode"`
	Threads          int                   `json:"threads"`
	JDK              string                `json:"jdkVersion"`
	Options          []string              `json:"jvmArgs"`
	Params           map[string]string     `json:"params"`
	PrimaryMetric    *jsonMetric           `json:"primaryMetric"`
	SecondaryMetrics map[string]jsonMetric `json:"secondaryMetrics"`
}

type jsonMetric struct {
	Score      number     `json:"score"`
	ScoreError number     `json:"scoreError"`
	Unit       string     `json:"scoreUnit"`
	RawData    [][]number `json:"rawData"`
}

// Read reads the JSON that JMH writes with -rf json -rff FILE. The format is
// that of org.openjdk.jmh.results.format.JSONResultFormat, JMH 1.37. name says
// where it comes from.
func Read(r io.Reader, name string) ([]Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s: more than %d MiB", name, maxFile>>20)
	}
	var raw []jsonResult
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("%s: not a JMH result: %w", name, err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s: not a JMH result: no benchmark in it", name)
	}
	results := make([]Result, 0, len(raw))
	for i, jr := range raw {
		result, err := jr.result(name)
		if err != nil {
			return nil, fmt.Errorf("%s: result %d: %w", name, i+1, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (jr jsonResult) result(file string) (Result, error) {
	if jr.Benchmark == "" || jr.Mode == "" || jr.PrimaryMetric == nil {
		return Result{}, errors.New("no benchmark, mode or primaryMetric")
	}
	result := Result{
		File: file, Benchmark: jr.Benchmark, Mode: jr.Mode, Threads: jr.Threads, JDK: jr.JDK, Options: jr.Options,
		Params: jr.Params, Metrics: map[string]Metric{Score: jr.PrimaryMetric.metric()},
	}
	for name, m := range jr.SecondaryMetrics {
		result.Metrics[strings.TrimPrefix(name, "·")] = m.metric() // JMH before 1.36 marked them so
	}
	return result, nil
}

func (m jsonMetric) metric() Metric {
	out := Metric{Unit: m.Unit}
	largest := math.Inf(-1)
	n := 0
	for _, fork := range m.RawData {
		var values []float64
		for _, v := range fork {
			if v.finite() {
				values = append(values, float64(v))
				largest = max(largest, float64(v))
				n++
			}
		}
		if len(values) > 0 {
			out.Forks = append(out.Forks, values)
		}
	}
	if n == 0 && m.Score.finite() {
		// Sampling modes write a histogram instead of values.
		out.Forks = [][]float64{{float64(m.Score)}}
	}
	// JMH gives an error to means alone; a maximum is one of the values.
	out.Peak = n > 1 && !m.ScoreError.finite() && float64(m.Score) == largest && m.varies()
	return out
}

func (m jsonMetric) varies() bool {
	first := slices.Concat(m.RawData...)[0]
	return slices.ContainsFunc(slices.Concat(m.RawData...), func(v number) bool { return v != first })
}

// HigherIsBetter says which way a metric of the result is good: more operations
// in a time and more hits, but less of everything else.
func (r Result) HigherIsBetter(metric string) bool {
	return metric == Score && r.Mode == "thrpt" || strings.HasSuffix(metric, ".hit.rate")
}
