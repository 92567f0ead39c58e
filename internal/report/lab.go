package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/linux"
)

// Lab shows an experiment: first what became of the claims, then the numbers,
// then under what conditions they were measured. command is what makes the
// report; empty for none.
func Lab(s *lab.Set, command string) *document.Document {
	e := s.Experiment
	d := &document.Document{Title: e.Title, Made: command}
	if e.Question != "" {
		d.Add(prose(e.Question))
	}
	if e.Source != "" {
		d.Add(prose("Published: " + e.Source))
	}
	labClaims(d, s)
	if e.Remarks != "" {
		for p := range strings.SplitSeq(strings.TrimSpace(e.Remarks), "\n\n") {
			d.Add(prose(p))
		}
	}
	labPublished(d, s)
	for _, name := range e.Measure {
		labMeasure(d, s, name)
	}
	labConditions(d, s)
	return d
}

// prose is a paragraph that the author of an experiment wrote.
func prose(text string) document.Paragraph {
	return document.Paragraph{Text: document.Prose(oneLine(text))}
}

func heading(text string) document.Heading { return document.Heading{Text: document.Plain(text)} }

func aside(text string) document.Paragraph {
	return document.Paragraph{Text: document.Plain(text), Role: document.Aside}
}

func labClaims(d *document.Document, s *lab.Set) {
	judged := s.Judge()
	if len(judged) == 0 {
		return
	}
	var claims document.Items
	for _, j := range judged {
		details := []document.Detail{{Text: document.Plain(claimExpectation(j) + "; measured " + claimMeasured(j)), Aside: true}}
		if why := oneLine(j.Claim.Why); why != "" {
			details = append(details, document.Detail{Text: document.Prose(why)})
		}
		claims.Items = append(claims.Items, document.Item{Marks: []document.Text{judgementText(j.Judgement)}, Title: document.Prose(oneLine(j.Claim.Text)), Details: details})
	}
	d.Add(heading("Claims"), claims)
	intervals := "In brackets: 95 % intervals"
	if search := s.Experiment.Search; search != nil {
		intervals += fmt.Sprintf("; those of what a search found take in the %g %% to which it looked", 100*search.Tolerance)
	}
	judgement := "A claim is confirmed where the whole interval is as expected, refuted where none of it is, else unclear."
	if e := s.Experiment; e.MostRepeats > e.Repeats {
		judgement += fmt.Sprintf(" The cells of claims that were unclear after %d rounds run on while further rounds can make them clear, up to %d:"+
			" each look at the results makes it likelier that chance has judged one.", e.Repeats, e.MostRepeats)
	}
	d.Add(aside(intervals + ". " + judgement))
}

func judgementText(j lab.Judgement) document.Text {
	switch j {
	case lab.Confirmed:
		return document.Good(string(j))
	case lab.Refuted:
		return document.Bad(string(j))
	}
	return document.Plain(string(j))
}

func claimExpectation(j lab.Judged) string {
	for name, values := range j.Claim.Compare {
		return fmt.Sprintf("%s, ratio of %s %s to %s: expected %s", j.Claim.Measure, name, values[0], values[1], j.Claim.Expect)
	}
	return j.Claim.Measure + ": expected " + j.Claim.Expect
}

// claimMeasured shows the checks: all of a few, else their range.
func claimMeasured(j lab.Judged) string {
	const few = 3
	var parts []string
	low, high, known := 0.0, 0.0, 0
	for _, c := range j.Checks {
		if c.Judgement == lab.Unmeasured {
			continue
		}
		if known == 0 || c.Value.Center < low {
			low = c.Value.Center
		}
		if known == 0 || c.Value.Center > high {
			high = c.Value.Center
		}
		known++
		text := fmt.Sprintf("%s (%s … %s)", j.Unit.Format(c.Value.Center), j.Unit.Format(c.Value.Low), j.Unit.Format(c.Value.High))
		if c.Where != "" && len(j.Checks) > 1 {
			text = c.Where + ": " + text
		}
		if c.Judgement != lab.Confirmed {
			text += " " + string(c.Judgement)
		}
		parts = append(parts, text)
	}
	switch {
	case known == 0:
		return "-"
	case len(parts) <= few:
		return strings.Join(parts, "; ")
	}
	text := fmt.Sprintf("%s … %s in %d cells", j.Unit.Format(low), j.Unit.Format(high), known)
	against := slices.DeleteFunc(parts, func(p string) bool { return strings.HasSuffix(p, ")") })
	if len(against) > 0 {
		text += "; " + strings.Join(against[:min(few, len(against))], "; ")
	}
	return text
}

func labPublished(d *document.Document, s *lab.Set) {
	beside := s.Published()
	if len(beside) == 0 {
		return
	}
	t := document.Table{Columns: document.Columns(">", "cell", "measure", ">published", ">measured here", ">ratio", "note"), Sortable: true}
	var whys []string
	of := map[string][]string{} // the numbers of the rows that a reason is for
	for i, b := range beside {
		number := strconv.Itoa(i + 1)
		ratio := noCell
		if m, _, _, ok := b.Measured.Median(); ok && b.Value > 0 {
			ratio = document.Number(fmt.Sprintf("%.2f", m/b.Value), m/b.Value)
		}
		t.Row(document.Number(number, float64(i)), textCell(b.Where), textCell(b.Published.Measure), document.Number(b.Unit.Format(b.Value), b.Value),
			sampleCell(b.Measured, b.Unit), ratio, textCell(b.Published.Note))
		if why := oneLine(b.Published.Why); why != "" {
			if of[why] == nil {
				whys = append(whys, why)
			}
			of[why] = append(of[why], number)
		}
	}
	d.Add(heading("Published beside measured"), t)
	for _, why := range whys {
		d.Add(prose(strings.Join(of[why], ", ") + ": " + why))
	}
}

// oneLine is a text of several lines as one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// noCell stands where nothing was measured; it is sorted first.
var noCell = document.Number("-", -1)

// textCell is sorted by its number if it is one, else by its text.
func textCell(text string) document.Cell {
	if v, ok := level(text); ok {
		return document.Number(text, v)
	}
	return document.Cell{Text: document.Plain(text)}
}

// labMeasure shows one measure: its plots, and a row for each combination of the
// factors but one, which has the columns.
func labMeasure(d *document.Document, s *lab.Set, name string) {
	e := s.Experiment
	m, _ := lab.MeasureNamed(name)
	d.Add(heading(name), aside(m.Help+"; median (smallest … largest)"))
	for _, f := range labPlots(s, name) {
		d.Add(f)
	}
	if len(e.Factors) < 2 {
		d.Add(labList(s, name, m.Unit))
		return
	}
	column := slices.IndexFunc(e.Factors, func(f lab.Factor) bool { return f.Name == e.Columns })
	columns, rows := pivot(s, column)
	t := document.Table{Sortable: true}
	for i, f := range e.Factors {
		if i != column {
			t.Columns = append(t.Columns, document.Column{Name: f.Name})
		}
	}
	for _, c := range columns {
		t.Columns = append(t.Columns, document.Column{Name: e.Columns + " " + c, Number: true})
	}
	for _, r := range rows {
		var line []document.Cell
		for _, l := range r.labels {
			line = append(line, textCell(l))
		}
		for _, c := range columns {
			results, ok := r.cells[c]
			if !ok {
				line = append(line, document.Number("", -2))
				continue
			}
			line = append(line, sampleCell(results.Sample(name), m.Unit))
		}
		t.Row(line...)
	}
	d.Add(t)
}

// labList shows one measure of an experiment with one factor or none: a line for
// each cell.
func labList(s *lab.Set, name string, u lab.Unit) document.Table {
	t := document.Table{Columns: document.Columns("", ">"+name), Sortable: true}
	for _, f := range s.Experiment.Factors {
		t.Columns[0].Name = f.Name
	}
	for _, c := range s.Cells {
		t.Row(textCell(strings.Join(c.Cell.Labels, "")), sampleCell(c.Sample(name), u))
	}
	return t
}

// labRow is the cells of one row, by their label in the column's factor.
type labRow struct {
	labels []string
	cells  map[string]lab.CellResults
}

func pivot(s *lab.Set, column int) (columns []string, rows []labRow) {
	for _, c := range s.Cells {
		label := c.Cell.Labels[column]
		if !slices.Contains(columns, label) {
			columns = append(columns, label)
		}
		others := slices.Delete(slices.Clone(c.Cell.Labels), column, column+1)
		i := slices.IndexFunc(rows, func(r labRow) bool { return slices.Equal(r.labels, others) })
		if i < 0 {
			i = len(rows)
			rows = append(rows, labRow{others, map[string]lab.CellResults{}})
		}
		rows[i].cells[label] = c
	}
	return columns, rows
}

// sampleCell is the median of a sample, by which it is sorted, its range, and
// how many runs failed.
func sampleCell(s lab.Sample, u lab.Unit) document.Cell {
	c, note := noCell, ""
	if m, low, high, ok := s.Median(); ok {
		c = document.Number(u.Format(m), m)
		if len(s.Values) > 1 && u.Format(low) != u.Format(high) {
			note = fmt.Sprintf("(%s … %s)", strings.TrimSuffix(u.Format(low), " "+unitSuffix(u.Format(low))), u.Format(high))
		}
	}
	if s.Failed > 0 {
		note = strings.TrimSpace(fmt.Sprintf("%s %d failed", note, s.Failed))
	}
	c.Note = document.Plain(note)
	return c
}

// sampleText is a sample in one line.
func sampleText(s lab.Sample, u lab.Unit) string {
	c := sampleCell(s, u)
	return strings.TrimSpace(c.Text.String() + " " + c.Note.String())
}

// unitSuffix is what stands behind the number.
func unitSuffix(text string) string {
	_, suffix, _ := strings.Cut(text, " ")
	return suffix
}

func labConditions(d *document.Document, s *lab.Set) {
	var first, last string
	var jdks, machines []string
	var others []float64
	records, planned, trials := 0, 0, 0
	warnings := map[string]int{}
	for _, c := range s.Cells {
		for _, r := range c.Records {
			records++
			trials += r.Trials
			if r.Round <= s.Experiment.Repeats {
				planned++
			}
			day := r.Time.Format("2006-01-02")
			if first == "" || day < first {
				first = day
			}
			last = max(last, day)
			if !slices.Contains(jdks, r.JDK) {
				jdks = append(jdks, r.JDK)
			}
			machine := fmt.Sprintf("%d processors, %s, Linux %s %s, %s", r.Machine.CPUs, Size(r.Machine.MemoryBytes), r.Machine.Kernel, r.Machine.Arch, r.Runner)
			if !slices.Contains(machines, machine) {
				machines = append(machines, machine)
			}
			for _, w := range r.Warnings {
				warnings[w]++
			}
			others = append(others, r.Others)
		}
	}
	d.Add(heading("Conditions"))
	if records == 0 {
		d.Add(aside("Nothing was run yet."))
		return
	}
	slices.SortFunc(jdks, func(a, b string) int {
		if jvmopts.ParseRelease(a).AtLeast(jvmopts.ParseRelease(b)) {
			return 1
		}
		return -1
	})
	when := first
	if last != first {
		when += " to " + last
	}
	e := s.Experiment
	runs := fmt.Sprintf("%d of %d runs", planned, len(s.Cells)*e.Repeats)
	if further := records - planned; further > 0 {
		runs += fmt.Sprintf(" and %d more for unclear claims", further)
	}
	d.Add(aside(fmt.Sprintf("%s · JDK %s · %s · %d cells, %s, %d starts · rounds: %d, each in random order, seed %d", strings.Join(machines, "; "),
		strings.Join(jdks, ", "), when, len(s.Cells), runs, trials, e.Repeats, e.Seed)))
	if slices.Sort(others); others[records-1] >= worthSaying {
		d.Add(aside(fmt.Sprintf("Others took %.0f … %.0f %% of the machine's processor time meanwhile: times are to be read with that in mind.", 100*others[0], 100*others[records-1])))
	}
	for _, w := range sortedWarnings(warnings) {
		d.Add(document.Paragraph{Text: document.Plain(fmt.Sprintf("in %d runs: %s", warnings[w], w)), Role: document.Note})
	}
}

// worthSaying is the share of processor time from which on others are named.
const worthSaying = 0.05

func sortedWarnings(m map[string]int) []string {
	var out []string
	for w := range m {
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

// LabDifferences shows which differences between two result sets are real.
func LabDifferences(c lab.Comparison) *document.Document {
	t := document.Table{Columns: document.Columns("cell", "measure", ">A", ">B", ">change", ">p", ">effect", "")}
	isReal := 0
	for _, d := range c.Differences {
		word := document.Plain("within noise")
		if d.Real {
			isReal++
			word = document.Strong("real")
		} else if d.Warning != "" {
			word = document.Plain(d.Warning)
		}
		a, _, _, _ := d.A.Median()
		b, _, _, _ := d.B.Median()
		row := document.Cells(d.Cell, d.Measure, sampleText(d.A, d.Unit), sampleText(d.B, d.Unit), Change(a, b), fmt.Sprintf("%.3f", d.P), fmt.Sprintf("%+.2f", d.Effect))
		t.Row(append(row, document.Cell{Text: word})...)
	}
	doc := &document.Document{}
	say := func(format string, a ...any) {
		doc.Add(document.Paragraph{Text: document.Plain(fmt.Sprintf(format, a...))})
	}
	say("%d of %d differences are real: p < 0.05 by the Mann–Whitney U test.", isReal, len(c.Differences))
	if n := len(c.Differences); n >= 20 {
		say("By chance alone, about %d would be.", n/20)
	}
	for _, only := range []struct {
		set   string
		cells []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.cells) > 0 {
			say("%d cells are only in %s, such as %s.", len(only.cells), only.set, only.cells[0])
		}
	}
	doc.Add(t, aside("effect: how much more often a value of B is larger than one of A than smaller"))
	return doc
}

// LabPlan shows what an experiment would run.
func LabPlan(e *lab.Experiment, r *lab.Results, pending []lab.Job) *document.Document {
	cells := e.Cells()
	total, planned := len(cells)*e.Repeats, 0
	for _, j := range pending {
		if j.Round <= e.Repeats {
			planned++
		}
	}
	text := fmt.Sprintf("%s: %d cells, %d rounds: %d runs, of which %d have a result.", e.Title, len(cells), e.Repeats, total, total-planned)
	if e.MostRepeats > e.Repeats {
		text += fmt.Sprintf(" The cells of claims that are unclear then run up to %d rounds.", e.MostRepeats)
	}
	if e.Search != nil {
		text += fmt.Sprintf(" Each run looks for the %s, by several trials.", e.Search)
	}
	if took := meanTook(r); took > 0 && len(pending) > 0 {
		text += fmt.Sprintf(" By those that have run, these take about %s.", Duration(took*time.Duration(len(pending))))
	}
	const shown = 20
	t := document.Table{Columns: document.Columns("", "")}
	for _, j := range pending[:min(len(pending), shown)] {
		t.Row(document.Cells(fmt.Sprintf("round %d", j.Round), e.Key(j.Cell))...)
	}
	if more := len(pending) - shown; more > 0 {
		t.Row(document.Cells("…", fmt.Sprintf("and %d more", more))...)
	}
	d := &document.Document{}
	d.Add(paragraph(text), t)
	return d
}

func meanTook(r *lab.Results) time.Duration {
	var sum time.Duration
	for _, rec := range r.Records {
		sum += rec.Took
	}
	return sum / time.Duration(max(1, len(r.Records)))
}

// LabProgress writes a line when a run has ended.
func LabProgress(w io.Writer, e *lab.Experiment, ev lab.Event) {
	if ev.Record == nil {
		return
	}
	left := ""
	if ev.Left > 0 {
		left = " · about " + Duration(ev.Left) + " left"
	}
	values := make([]string, 0, len(e.Measure))
	for _, name := range e.Measure {
		m, _ := lab.MeasureNamed(name)
		if v, ok := ev.Record.Values[name]; ok {
			values = append(values, name+" "+m.Unit.Format(v))
		}
	}
	fmt.Fprintf(w, "%*d of %d  %s  %s  %s%s\n", len(fmt.Sprint(ev.Total)), ev.Number, ev.Total, linux.Printable(e.Key(ev.Job.Cell)), ev.Record.Verdict,
		strings.Join(values[:min(3, len(values))], ", "), left)
}
