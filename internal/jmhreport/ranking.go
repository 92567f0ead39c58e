// Package jmhreport shows JMH's results metric by metric: how contenders rank by
// speed and by each kind of memory, and what changed between two runs.
package jmhreport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jmh"
)

// ReportSchema names the JSON form of a Report. Fields may be added; none
// changes its meaning.
const ReportSchema = "tare.jmh-report/1"

// Report is how contenders rank, group by group.
type Report struct {
	Schema string  `json:"schema"`
	Groups []Group `json:"groups"`
	// Common is what all results share, such as the JDK.
	Common []string `json:"common"`
}

// Group is the contenders that were measured under the same conditions.
type Group struct {
	// Name are the conditions; "" when there is one group.
	Name string `json:"name"`
	// Contenders are sorted by the first metric, the best first.
	Contenders []Contender `json:"contenders"`
	Rankings   []Ranking   `json:"rankings"`
}

// Contender is one of the things compared, with its metrics by name.
type Contender struct {
	Name      string                  `json:"name"`
	Estimates map[string]jmh.Estimate `json:"estimates"`
	result    jmh.Result
}

// Ranking is the contenders' order by one metric.
type Ranking struct {
	Metric         string `json:"metric"`
	Unit           string `json:"unit"`
	HigherIsBetter bool   `json:"higherIsBetter"`
	// Order are indexes of the group's contenders, the best first; those
	// without the metric are missing.
	Order []int `json:"order"`
	// Tied says of each in Order but the first whether its interval overlaps
	// that of the one before.
	Tied []bool `json:"tied"`
}

// Options choose what a report shows.
type Options struct {
	// Contender is the dimension that names the contenders, a parameter or
	// one of file, benchmark, threads, jdk, options; "": all that differ.
	Contender string
	// Metrics are names, or patterns of path.Match, in order; none: the usual
	// ones.
	Metrics []string
	// Sort is the metric that contenders are sorted by; "": the first.
	Sort string
}

// usual are the metrics that a report shows, as far as results have them.
var usual = []string{
	jmh.Score, "mem.retained", "mem.heap.settled", "mem.used.fin", "mem.used.settled", "mem.peak.used", "mem.committed.settled",
	"mem.peak.committed", "proc.rss", "proc.rss.peak", "proc.hwm", "mem.alloc.norm", "gc.alloc.rate.norm",
}

// dimensions are what tells a result from others, by name.
func dimensions(r jmh.Result) map[string]string {
	d := map[string]string{
		"file": r.File, "benchmark": shortName(r.Benchmark), "mode": r.Mode, "threads": strconv.Itoa(r.Threads), "jdk": r.JDK,
		"options": strings.Join(r.Options, " "),
	}
	for name, value := range r.Params {
		d[name] = value
	}
	return d
}

// shortName is a benchmark's class and method.
func shortName(benchmark string) string {
	parts := strings.Split(benchmark, ".")
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}

// varying are the dimensions in which results differ, in order: the fixed
// ones, then parameters.
func varying(results []jmh.Result) (names []string, common []string) {
	values := map[string][]string{}
	for _, r := range results {
		for name, value := range dimensions(r) {
			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}
	if !sameBut(results, "file") {
		delete(values, "file") // other dimensions tell the results apart
	}
	fixed := []string{"file", "benchmark", "mode", "threads", "jdk", "options"}
	all := slices.Clone(fixed)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(fixed, name) {
			all = append(all, name)
		}
	}
	for _, name := range all {
		switch {
		case len(values[name]) > 1:
			names = append(names, name)
		case len(values[name]) == 1 && name != "file" && values[name][0] != "":
			common = append(common, name+" "+values[name][0])
		}
	}
	return names, common
}

// sameBut says that two results differ in nothing but one dimension.
func sameBut(results []jmh.Result, dimension string) bool {
	seen := map[string]bool{}
	for _, r := range results {
		d := dimensions(r)
		delete(d, dimension)
		key := fmt.Sprintf("%q", d) // maps are printed in the order of their keys
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// Rank sorts results into groups and ranks the contenders of each group by each
// metric. It fails when the results do not have what o asks for.
func Rank(results []jmh.Result, o Options) (*Report, error) {
	names, common := varying(results)
	contender, groupBy, err := split(names, o.Contender)
	if err != nil {
		return nil, err
	}
	report := &Report{Schema: ReportSchema, Common: common}
	index := map[string]int{}
	for _, r := range results {
		d := dimensions(r)
		name := label(d, groupBy)
		at, ok := index[name]
		if !ok {
			at = len(report.Groups)
			index[name] = at
			report.Groups = append(report.Groups, Group{Name: name})
		}
		c := Contender{Name: label(d, contender), Estimates: map[string]jmh.Estimate{}, result: r}
		if c.Name == "" {
			c.Name = d["benchmark"]
		}
		for metric, m := range r.Metrics {
			if len(m.Forks) > 0 {
				c.Estimates[metric] = m.Estimate()
			}
		}
		report.Groups[at].Contenders = append(report.Groups[at].Contenders, c)
	}
	for i := range report.Groups {
		if err := report.Groups[i].rank(o); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// split divides the varying dimensions into those that name contenders and
// those that name groups. Different modes measure different things.
func split(names []string, contender string) (contenders, groups []string, err error) {
	if contender != "" && !slices.Contains(names, contender) {
		return nil, nil, fmt.Errorf("the results do not differ in %q\nthey differ in: %s", contender, strings.Join(names, ", "))
	}
	for _, name := range names {
		switch {
		case name == contender || contender == "" && name != "mode":
			contenders = append(contenders, name)
		default:
			groups = append(groups, name)
		}
	}
	return contenders, groups, nil
}

// label joins the values of dimensions; a parameter's value that does not say
// what it is, such as a number or a share, gets its name.
func label(d map[string]string, names []string) string {
	var parts []string
	for _, name := range names {
		value := d[name]
		if _, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err == nil || value == "true" || value == "false" {
			value = name + " " + value
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, ", ")
}

func (g *Group) rank(o Options) error {
	metrics, err := g.metrics(o.Metrics)
	if err != nil {
		return err
	}
	by := metrics[0]
	if o.Sort != "" {
		by = o.Sort
		if !g.has(by) {
			return unknownMetric(by, g)
		}
	}
	sorted := g.Ranking(by).Order
	contenders := make([]Contender, 0, len(g.Contenders))
	for _, i := range sorted {
		contenders = append(contenders, g.Contenders[i])
	}
	for i, c := range g.Contenders {
		if !slices.Contains(sorted, i) {
			contenders = append(contenders, c)
		}
	}
	g.Contenders = contenders
	for _, m := range metrics {
		g.Rankings = append(g.Rankings, g.Ranking(m))
	}
	return nil
}

func (g *Group) has(metric string) bool {
	return slices.ContainsFunc(g.Contenders, func(c Contender) bool { _, ok := c.Estimates[metric]; return ok })
}

func unknownMetric(pattern string, g *Group) error {
	return fmt.Errorf("no metric %q in the results\nthere are: %s", pattern, strings.Join(g.allMetrics(), ", "))
}

func (g *Group) allMetrics() []string {
	all := map[string]bool{}
	for _, c := range g.Contenders {
		for name := range c.Estimates {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// metrics are those that patterns name, or the usual ones.
func (g *Group) metrics(patterns []string) ([]string, error) {
	var out []string
	chosen := patterns
	if len(chosen) == 0 {
		chosen = usual
	}
	for _, pattern := range chosen {
		found := false
		for _, name := range g.allMetrics() {
			ok, err := path.Match(pattern, name)
			if err != nil {
				return nil, fmt.Errorf("%q is not a pattern: %w", pattern, err)
			}
			if ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
			found = found || ok
		}
		if !found && len(patterns) > 0 {
			return nil, unknownMetric(pattern, g)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no result has a score: run the benchmarks anew with JMH's -rf json")
	}
	return out, nil
}

// Ranking is the contenders' order by a metric. It is empty when no contender has
// the metric.
func (g *Group) Ranking(metric string) Ranking {
	r := Ranking{Metric: metric, Order: []int{}, Tied: []bool{}}
	for i, c := range g.Contenders {
		if e, ok := c.Estimates[metric]; ok {
			r.Order = append(r.Order, i)
			r.Unit = e.Unit
			r.HigherIsBetter = c.result.HigherIsBetter(metric)
		}
	}
	at := func(i int) jmh.Estimate { return g.Contenders[i].Estimates[metric] }
	slices.SortStableFunc(r.Order, func(a, b int) int {
		if r.HigherIsBetter {
			a, b = b, a
		}
		return cmp.Compare(at(a).Center, at(b).Center)
	})
	for i, c := range r.Order {
		r.Tied = append(r.Tied, i > 0 && at(c).Overlaps(at(r.Order[i-1])))
	}
	return r
}

// Place is the rank of a contender, from 1; 0 when it lacks the metric. tied
// says that its interval overlaps that of a neighbour.
func (r Ranking) Place(contender int) (place int, tied bool) {
	i := slices.Index(r.Order, contender)
	if i < 0 {
		return 0, false
	}
	return i + 1, r.Tied[i] || i+1 < len(r.Order) && r.Tied[i+1]
}
