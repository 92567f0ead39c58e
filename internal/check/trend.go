package check

import (
	"fmt"
	"time"

	"tare.dev/tare/internal/records"
)

// TrendSchema names the JSON form of a Point.
const TrendSchema = "tare.trend/1"

// Point is what the head of one check needed: a line of a trend file.
type Point struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`
	Commit  string    `json:"commit,omitempty"`
	Verdict Verdict   `json:"verdict"`
	// JDK, Kernel and Runner tell why two neighbours may differ.
	JDK    string `json:"jdk"`
	Kernel string `json:"kernel"`
	Runner string `json:"runner"`
	Runs   int    `json:"runs"`
	// Values are the means of the head's runs by measure, with their 95 % intervals.
	Values map[string]Interval `json:"values"`
}

// point is the point of a result.
func (r *Result) point() Point {
	p := Point{Schema: TrendSchema, Time: r.Time, Commit: r.Commit, Verdict: r.Verdict, JDK: r.Conditions.JDK, Kernel: r.Conditions.Machine.Kernel,
		Runner: r.Conditions.Runner, Runs: len(r.Head.Runs), Values: map[string]Interval{}}
	for name := range r.Head.Runs[0].Values {
		if v, ok := values(r.Head.values(), name); ok {
			if e, enough := meanOf(v); enough {
				p.Values[name] = e.interval()
			}
		}
	}
	return p
}

// Record appends a result to a trend file, and makes the file where there is none.
func (r *Result) Record(name string) error {
	f, err := records.Open(name, checkPoint)
	if err != nil {
		return fmt.Errorf("trend %w", err)
	}
	defer f.Close()
	if err := f.Append(r.point()); err != nil {
		return fmt.Errorf("trend: %w", err)
	}
	return f.Close()
}

func checkPoint(line []byte) error {
	_, err := parsePoint(line)
	return err
}

func parsePoint(line []byte) (p Point, err error) {
	if err := records.Into(func(v Point) { p = v })(line); err != nil {
		return p, err
	}
	if p.Schema != TrendSchema {
		return p, fmt.Errorf("no point of schema %s", TrendSchema)
	}
	return p, nil
}

// ReadTrend reads the last points of a trend file, of each commit the last one.
func ReadTrend(name string, most int) ([]Point, error) {
	var all []Point
	err := records.ReadFile(name, func(line []byte) error {
		p, err := parsePoint(line)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 && p.Commit != "" && all[n-1].Commit == p.Commit {
			all = all[:n-1]
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("trend %w", err)
	}
	return all[max(0, len(all)-most):], nil
}
