package jmhreport

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/report"
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

// Compare compares the results of two runs. Results belong together when their
// benchmark, mode, threads and parameters are the same. Patterns choose metrics,
// as in Options. It fails when the runs have no benchmark in common.
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
	d := &document.Document{}
	c.addNotes(d)
	for _, group := range c.byBenchmark() {
		t := document.Table{Columns: document.Columns("", "", ">A", "", ">B", "", ">change", "")}
		for _, ch := range group {
			t.Row(document.Cells(ch.Metric, ch.A.Unit, jmh.Quantity(ch.A.Center), ch.A.Interval(), jmh.Quantity(ch.B.Center), ch.B.Interval(), ch.percent(), string(ch.Verdict))...)
		}
		d.Add(document.Heading{Text: document.Plain(group[0].Benchmark)}, t)
	}
	d.Add(aside(explanation + "; " + forkNoted))
	return document.WriteText(w, d, document.Style{})
}

// CompareMarkdown writes a comparison as text of a pull request: what got worse
// or better first, everything folded below.
func CompareMarkdown(w io.Writer, c *Comparison) error {
	d := &document.Document{}
	for _, v := range []Verdict{Worse, Better} {
		of := slices.DeleteFunc(slices.Clone(c.Changes), func(ch Change) bool { return ch.Verdict != v })
		if len(of) > 0 {
			d.Add(document.Paragraph{Text: document.Strong(upperFirst(string(v)))}, changesTable(of))
		}
	}
	if len(d.Blocks) == 0 {
		d.Add(document.Paragraph{Text: document.Plain("No significant change.")})
	}
	c.addNotes(d)
	d.Add(document.Fold{Summary: document.Plain(fmt.Sprintf("All %d metrics", len(c.Changes))),
		Blocks: []document.Block{changesTable(c.Changes), aside(upperFirst(explanation) + "; " + forkNoted + ".")}})
	return document.WriteMarkdown(w, d)
}

func changesTable(changes []Change) document.Table {
	t := document.Table{Columns: document.Columns("benchmark", "metric", ">A", ">B", ">change", "")}
	for _, ch := range changes {
		row := document.Cells(ch.Benchmark, ch.Metric+" ("+ch.A.Unit+")", jmh.Quantity(ch.A.Center), jmh.Quantity(ch.B.Center), ch.percent(), string(ch.Verdict))
		row[2].Note, row[3].Note = document.Plain(ch.A.Interval()), document.Plain(ch.B.Interval())
		t.Row(row...)
	}
	return t
}

// addNotes says what the two do not have in common.
func (c *Comparison) addNotes(d *document.Document) {
	for _, note := range c.notes() {
		d.Add(document.Paragraph{Text: document.Plain(note), Role: document.Note})
	}
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
