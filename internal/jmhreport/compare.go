package jmhreport

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tare/internal/jmh"
	"tare/internal/linux"
	"tare/internal/report"
)

// ComparisonSchema names the JSON form of a Comparison. Fields may be added;
// none changes its meaning.
const ComparisonSchema = "tare.jmh-comparison/1"

// Comparison is what changed from run A to run B.
type Comparison struct {
	Schema string `json:"schema"`
	// Changes are sorted by benchmark, then metric.
	Changes []Change `json:"changes"`
	// OnlyA and OnlyB are benchmarks that only one of the two has.
	OnlyA []string `json:"onlyA"`
	OnlyB []string `json:"onlyB"`
	// Differences are conditions that differ, such as the JDK.
	Differences []string `json:"differences"`
}

// Change is a metric of a benchmark in A and in B.
type Change struct {
	Benchmark string       `json:"benchmark"`
	Metric    string       `json:"metric"`
	A         jmh.Estimate `json:"a"`
	B         jmh.Estimate `json:"b"`
	// Verdict is "better", "worse", "same", or "too few values".
	Verdict Verdict `json:"verdict"`
}

// Verdict says what a change is.
type Verdict string

// The verdicts. Better and Worse are differences that Welch's t-test finds at
// 0.1 %.
const (
	Better    Verdict = "better"
	Worse     Verdict = "worse"
	Same      Verdict = "same"
	TooFew    Verdict = "too few values"
	forkNoted         = "Welch's t-test at 0.1 %"
)

// Compare compares results by benchmark, mode, threads and parameters.
func Compare(a, b []jmh.Result, patterns []string) (*Comparison, error) {
	c := &Comparison{Schema: ComparisonSchema, Changes: []Change{}, OnlyA: []string{}, OnlyB: []string{}, Differences: []string{}}
	inA, inB := byKey(a), byKey(b)
	for _, key := range slices.Sorted(maps.Keys(inA)) {
		other, ok := inB[key]
		if !ok {
			c.OnlyA = append(c.OnlyA, key)
			continue
		}
		changes, err := changes(key, inA[key], other, patterns)
		if err != nil {
			return nil, err
		}
		c.Changes = append(c.Changes, changes...)
	}
	for _, key := range slices.Sorted(maps.Keys(inB)) {
		if _, ok := inA[key]; !ok {
			c.OnlyB = append(c.OnlyB, key)
		}
	}
	if len(c.Changes) == 0 {
		return nil, errors.New("the two have no benchmark in common: compare runs of the same benchmarks with the same parameters")
	}
	differ := func(what, inA, inB string) {
		if inA != inB {
			c.Differences = append(c.Differences, fmt.Sprintf("different %s: %s and %s", what, cmp.Or(inA, "none"), cmp.Or(inB, "none")))
		}
	}
	differ("JDKs", a[0].JDK, b[0].JDK)
	differ("options", strings.Join(a[0].Options, " "), strings.Join(b[0].Options, " "))
	return c, nil
}

func byKey(results []jmh.Result) map[string]jmh.Result {
	out := map[string]jmh.Result{}
	for _, r := range results {
		d := dimensions(r)
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(d)), func(name string) bool {
			return slices.Contains([]string{"file", "jdk", "options", "benchmark", "threads", "mode"}, name)
		})
		key := fmt.Sprintf("%s %s, threads %d", d["benchmark"], r.Mode, r.Threads)
		if params := label(d, names); params != "" {
			key += ", " + params
		}
		out[key] = r
	}
	return out
}

func changes(key string, a, b jmh.Result, patterns []string) ([]Change, error) {
	group := Group{Contenders: []Contender{{Estimates: map[string]jmh.Estimate{}}}}
	both := group.Contenders[0].Estimates
	for name, m := range a.Metrics {
		if other, ok := b.Metrics[name]; ok && len(m.Forks) > 0 && len(other.Forks) > 0 {
			both[name] = m.Estimate()
		}
	}
	metrics, err := group.metrics(patterns)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, name := range metrics {
		ea, eb := both[name], b.Metrics[name].Estimate()
		out = append(out, Change{key, name, ea, eb, verdict(ea, eb, a.HigherIsBetter(name))})
	}
	return out, nil
}

func verdict(a, b jmh.Estimate, higherIsBetter bool) Verdict {
	different, known := jmh.Differ(a.Values, b.Values)
	switch {
	case !known:
		return TooFew
	case !different:
		return Same
	case (b.Center > a.Center) == higherIsBetter:
		return Better
	}
	return Worse
}

// CompareText writes a comparison for a terminal.
func CompareText(w io.Writer, c *Comparison) error {
	p := &printer{w: w}
	for _, note := range c.notes() {
		p.line("%s", strings.Join(report.Wrap("note: "+linux.Printable(note), 78), "\n      "))
	}
	for _, group := range c.byBenchmark() {
		p.line("\n%s", linux.Printable(group[0].Benchmark))
		rows := [][]string{{"", "", "A", "", "B", "", "change", ""}}
		for _, ch := range group {
			rows = append(rows, []string{
				linux.Printable(ch.Metric), linux.Printable(ch.A.Unit), jmh.Quantity(ch.A.Center), ch.A.Interval(),
				jmh.Quantity(ch.B.Center), ch.B.Interval(), ch.percent(), string(ch.Verdict),
			})
		}
		const l, r = report.Left, report.Right
		p.table("  ", []report.Align{l, l, r, l, r, l, r, l}, rows)
	}
	p.line("\n%s", strings.Join(report.Wrap(explanation+"; "+forkNoted, 78), "\n"))
	return p.err
}

// CompareMarkdown writes a comparison as text of a pull request: what got worse
// or better first, everything folded below.
func CompareMarkdown(w io.Writer, c *Comparison) error {
	p := &printer{w: w}
	for _, v := range []Verdict{Worse, Better} {
		p.changes(string(v), slices.DeleteFunc(slices.Clone(c.Changes), func(ch Change) bool { return ch.Verdict != v }))
	}
	if !slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Verdict == Worse || ch.Verdict == Better }) {
		p.line("No significant change.\n")
	}
	for _, note := range c.notes() {
		p.line("Note: %s\n", cell(note))
	}
	p.line("<details><summary>All %d metrics</summary>\n", len(c.Changes))
	p.changes("", c.Changes)
	p.line("%s; %s.\n\n</details>", upperFirst(explanation), forkNoted)
	return p.err
}

func (p *printer) changes(title string, changes []Change) {
	if len(changes) == 0 {
		return
	}
	if title != "" {
		p.line("**%s**\n", upperFirst(title))
	}
	p.line("| benchmark | metric | A | B | change | |\n|---|---|---:|---:|---:|---|")
	for _, ch := range changes {
		p.line("| %s | %s (%s) | %s %s | %s %s | %s | %s |", cell(ch.Benchmark), cell(ch.Metric), cell(ch.A.Unit),
			jmh.Quantity(ch.A.Center), ch.A.Interval(), jmh.Quantity(ch.B.Center), ch.B.Interval(), ch.percent(), ch.Verdict)
	}
	p.line("")
}

func (ch Change) percent() string { return report.Change(ch.A.Center, ch.B.Center) }

func (c *Comparison) notes() []string {
	notes := slices.Clone(c.Differences)
	if len(c.OnlyA) > 0 {
		notes = append(notes, "only in A: "+strings.Join(c.OnlyA, "; "))
	}
	if len(c.OnlyB) > 0 {
		notes = append(notes, "only in B: "+strings.Join(c.OnlyB, "; "))
	}
	return notes
}

func (c *Comparison) byBenchmark() [][]Change {
	var out [][]Change
	for _, ch := range c.Changes {
		if n := len(out); n > 0 && out[n-1][0].Benchmark == ch.Benchmark {
			out[n-1] = append(out[n-1], ch)
		} else {
			out = append(out, []Change{ch})
		}
	}
	return out
}
