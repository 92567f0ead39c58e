package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/plot"
)

// CheckProgress says which run begins.
func CheckProgress(w io.Writer, s check.Step) {
	again := ""
	if s.Fresh {
		again = "fresh runs: "
	}
	fmt.Fprintf(w, "%s%d of %d: %s\n", again, s.Number, s.Total, linux.Printable(s.Side))
}

// Check shows whether a budget is kept, and what grew.
func Check(r *check.Result) *document.Document {
	d := &document.Document{Title: "Memory budget: " + string(r.Verdict), Made: "tare check"}
	d.Add(document.Paragraph{Text: checkLead(r), Role: document.Lead})
	t := document.Table{Columns: document.Columns("measure", ">base", ">head", ">measured", ">allowed", "verdict")}
	for _, f := range r.Findings {
		t.Row(checkCells(f)...)
	}
	d.Add(t)
	for _, f := range r.Findings {
		if f.Why != "" && f.Verdict == check.Unknown {
			d.Add(note(f.Measure + " is not known: " + f.Why + "."))
		}
	}
	for _, f := range r.Findings {
		if f.Verdict == check.Failed {
			checkCulprits(d, r, f)
		}
	}
	checkChanged(d, r)
	for _, w := range r.Warnings {
		d.Add(note(w))
	}
	checkConditions(d, r)
	return d
}

func checkLead(r *check.Result) document.Text {
	var parts []string
	for _, f := range r.Findings {
		if f.Verdict == check.Failed {
			parts = append(parts, checkSentence(f))
		}
	}
	switch r.Verdict {
	case check.Failed:
		return document.Bad(strings.Join(parts, " "))
	case check.Passed:
		return document.Good("All bounds hold.")
	}
	return document.Plain("No bound is known to fail, and not all are known to hold.")
}

// checkSentence says what is beyond its bound.
func checkSentence(f check.Finding) string {
	unit := lab.Unit(f.Unit)
	if f.Growth {
		return fmt.Sprintf("%s grew by %s; %s are allowed.", f.Measure, amountOf(unit, f.Value.Center), amountOf(unit, f.Limit))
	}
	return fmt.Sprintf("%s is %s; %s are allowed.", f.Measure, amountOf(unit, f.Value.Center), amountOf(unit, f.Limit))
}

func checkCells(f check.Finding) []document.Cell {
	unit := lab.Unit(f.Unit)
	base, sign := "", ""
	if f.Growth {
		base = amountOf(unit, f.Base)
		if f.Value.Center > 0 {
			sign = "+"
		}
	}
	measured := document.Cell{Text: document.Plain("")}
	if f.Value != (check.Interval{}) {
		measured = document.Cell{Text: document.Plain(sign + amountOf(unit, f.Value.Center)), Note: document.Plain(fmt.Sprintf("%s … %s", amountOf(unit, f.Value.Low), amountOf(unit, f.Value.High)))}
	}
	allowed := "≤ " + amountOf(unit, f.Limit)
	switch {
	case f.Growth && f.Limit == 0: // not measured
		allowed = ""
	case f.Growth:
		allowed = "≤ +" + amountOf(unit, f.Limit)
	}
	verdict := document.Plain(string(f.Verdict))
	switch f.Verdict {
	case check.Failed:
		verdict = document.Bad(string(f.Verdict))
	case check.Passed:
		verdict = document.Good(string(f.Verdict))
	}
	return []document.Cell{{Text: document.Plain(f.Measure)}, {Text: document.Plain(base)}, {Text: document.Plain(amountOf(unit, f.Head))}, measured, {Text: document.Plain(allowed)}, {Text: verdict}}
}

// mostCulprits is how many things are named of each kind.
const mostCulprits = 5

// checkCulprits names what grew of a bound's owner.
func checkCulprits(d *document.Document, r *check.Result, f check.Finding) {
	t := document.Table{Columns: document.Columns("what", "name", ">base", ">head", ">change")}
	shown := map[check.Kind]int{}
	for _, g := range r.Culprits(f) {
		if shown[g.Kind]++; shown[g.Kind] <= mostCulprits {
			t.Row(document.Cells(string(g.Kind), growthName(g), growthValue(g, g.Base), growthValue(g, g.Head), "+"+growthValue(g, g.Change()))...)
		}
	}
	if len(t.Rows) > 0 {
		d.Add(heading("Who grew: "+f.Measure), t)
	}
}

func growthName(g check.Growth) string {
	if g.Kind == check.KindOwner {
		return OwnerName(footprint.Owner(g.Name))
	}
	return g.Name
}

func growthValue(g check.Growth, v float64) string {
	switch {
	case g.Kind == check.KindThreads:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) < 1<<20:
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	}
	return lab.Bytes.Format(v)
}

// checkChanged lists the jars and the options that the sides do not share.
func checkChanged(d *document.Document, r *check.Result) {
	t := document.Table{Columns: document.Columns("what", "name", "")}
	for _, g := range r.Grew {
		if g.Kind == check.KindJar || g.Kind == check.KindOption {
			t.Row(document.Cells(string(g.Kind), g.Name, g.Text)...)
		}
	}
	const most = 20
	if n := len(t.Rows); n > 0 {
		t.Rows = t.Rows[:min(n, most)]
		d.Add(heading("Jars and options changed"), t)
		if n > most {
			d.Add(aside(fmt.Sprintf("And %d more; --format json has all.", n-most)))
		}
	}
}

func checkConditions(d *document.Document, r *check.Result) {
	c := r.Conditions
	text := fmt.Sprintf("%d runs of the head", len(r.Head.Runs))
	if r.Base != nil {
		text += fmt.Sprintf(", %d of %s", len(r.Base.Runs), sideName(*r.Base))
	}
	d.Add(aside(fmt.Sprintf("%s; %s, JDK %s, Linux %s, %d processors. Beside each figure: its 95 %% interval.", text, c.Runner, c.JDK, c.Machine.Kernel, c.Machine.CPUs)))
}

func sideName(s check.Side) string {
	if s.Commit != "" && s.Commit != s.Name {
		return s.Name + " (" + s.Commit[:min(12, len(s.Commit))] + ")"
	}
	return s.Name
}

// Trend plots what the commits of a trend file needed, a plot for each measure.
func Trend(points []check.Point, name string) *document.Document {
	d := &document.Document{Title: "Memory over commits", Made: "tare check trend " + name}
	if len(points) == 0 {
		d.Add(note("No commit is recorded yet: tare check --record " + name))
		return d
	}
	first, last := points[0], points[len(points)-1]
	d.Add(document.Paragraph{Text: document.Plain(fmt.Sprintf("%d commits, %s to %s.", len(points), first.Time.UTC().Format(time.DateOnly), last.Time.UTC().Format(time.DateOnly))), Role: document.Lead})
	t := document.Table{Columns: document.Columns("measure", ">first", ">last", ">change")}
	var figures []document.Figure
	for _, m := range trendMeasures(last) {
		was, ok := first.Values[m.Name]
		if !ok {
			continue
		}
		is := last.Values[m.Name]
		t.Row(document.Cells(m.Name, amountOf(m.Unit, was.Center), amountOf(m.Unit, is.Center), change(m.Unit, is.Center-was.Center))...)
		figures = append(figures, trendFigure(points, m))
	}
	d.Add(t)
	for _, f := range figures {
		d.Add(f)
	}
	return d
}

// trendMeasures are those of a point, in the order of reports, and then those of results.
func trendMeasures(p check.Point) (out []budget.Measure) {
	for _, m := range budget.Measures() {
		if _, ok := p.Values[m.Name]; ok {
			out = append(out, m)
		}
	}
	known := len(out)
	for name := range p.Values {
		if m, ok := budget.MeasureNamed(name); ok && m.OfResults() {
			out = append(out, m)
		}
	}
	slices.SortFunc(out[known:], func(a, b budget.Measure) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func change(u lab.Unit, v float64) string {
	if v < 0 {
		return "-" + amountOf(u, -v)
	}
	return "+" + amountOf(u, v)
}

// amountOf is a mean in words: also that of what is counted, to a tenth, and of some bytes.
func amountOf(u lab.Unit, v float64) string {
	size := math.Abs(v)
	switch {
	case u == lab.Count:
		v = math.Round(10*v) / 10
	case u == lab.Bytes && size > 0 && size < 1<<10:
		return fmt.Sprintf("%.0f B", v)
	case u == lab.Bytes && size > 0 && size < 1<<20:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return u.Format(v)
}

func trendFigure(points []check.Point, m budget.Measure) document.Figure {
	scale, unit := 1.0, string(m.Unit)
	if m.Unit == lab.Bytes {
		scale, unit = 1<<20, "MiB"
	}
	series := map[check.Verdict]*plot.Series{
		check.Passed:  {Name: "passed", Tone: plot.Main},
		check.Failed:  {Name: "failed", Tone: plot.Bad, Shape: plot.Cross},
		check.Unknown: {Name: "not known", Tone: plot.Muted, Shape: plot.Ring},
	}
	for i, p := range points {
		v, ok := p.Values[m.Name]
		s := series[p.Verdict]
		if !ok || s == nil {
			continue
		}
		commit := p.Commit[:min(12, len(p.Commit))]
		s.Points = append(s.Points, plot.Point{X: float64(i - len(points) + 1), Y: v.Center / scale, Low: v.Low / scale, High: v.High / scale,
			Title: fmt.Sprintf("%s: %s", linux.Printable(commit), amountOf(m.Unit, v.Center))})
	}
	chart := plot.Chart{Title: m.Name, Desc: m.Name + " of each commit, with 95 % intervals", X: plot.Axis{Label: "commits before the last", Loose: true}, Y: plot.Axis{Label: unit, Unit: unit, Loose: true}}
	for _, v := range []check.Verdict{check.Passed, check.Failed, check.Unknown} {
		if len(series[v].Points) > 0 {
			chart.Series = append(chart.Series, *series[v])
		}
	}
	return document.Figure{Heading: document.Plain(m.Name), Plot: chart}
}

// junit is the XML that Ant's JUnit task writes, as build servers read it.
type junit struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Failure *junitWhy `xml:"failure,omitempty"`
	Error   *junitWhy `xml:"error,omitempty"`
	Output  string    `xml:"system-out,omitempty"`
}

type junitWhy struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a result as JUnit XML: a bound is a test, one that is not known an
// error.
func WriteJUnit(w io.Writer, r *check.Result) error {
	took := time.Duration(0)
	for _, run := range slices.Concat(r.Head.Runs, baseRuns(r)) {
		took += run.Took
	}
	suite := junit{Name: "tare check", Tests: len(r.Findings), Time: fmt.Sprintf("%.3f", took.Seconds()), Stamp: r.Time.UTC().Format("2006-01-02T15:04:05")}
	for _, f := range r.Findings {
		c := junitCase{Class: "tare.check", Name: f.Measure}
		if f.Growth {
			c.Name += " growth"
		}
		unit := lab.Unit(f.Unit)
		c.Output = fmt.Sprintf("%s (%s … %s), allowed %s", amountOf(unit, f.Value.Center), amountOf(unit, f.Value.Low), amountOf(unit, f.Value.High), amountOf(unit, f.Limit))
		switch f.Verdict {
		case check.Failed:
			suite.Failures++
			c.Failure = &junitWhy{Message: checkSentence(f), Type: string(f.Verdict), Text: culpritLines(r, f)}
		case check.Unknown:
			suite.Errors++
			c.Error = &junitWhy{Message: f.Measure + " is not known: " + linux.Printable(f.Why), Type: string(f.Verdict)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func baseRuns(r *check.Result) []check.Run {
	if r.Base == nil {
		return nil
	}
	return r.Base.Runs
}

func culpritLines(r *check.Result, f check.Finding) string {
	var b strings.Builder
	for _, g := range r.Culprits(f) {
		fmt.Fprintf(&b, "%s %s: +%s\n", g.Kind, linux.Printable(growthName(g)), growthValue(g, g.Change()))
	}
	return b.String()
}
