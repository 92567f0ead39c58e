package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/jvmopts"
	"tare/internal/lab"
	"tare/internal/linux"
)

// labDoc is the report of an experiment as a sequence of blocks: terminal,
// Markdown and page differ only in how they write one.
type labDoc interface {
	heading(text string)
	paragraph(text string)
	// item is a word of judgement and what it judges, with the evidence and,
	// unless empty, the reason.
	item(word, text, evidence, why string)
	// table has its head in the first row.
	table(align []Align, rows [][]cell)
	// measure is where a measure's plots are shown, by what shows any.
	measure(s *lab.Set, name string)
}

// LabText writes the report of an experiment for a terminal.
func LabText(w io.Writer, s *lab.Set, st Style) error {
	d := &textDoc{printer{w: w}, st}
	labReport(d, s)
	return d.err
}

// LabMarkdown writes the report of an experiment as Markdown.
func LabMarkdown(w io.Writer, s *lab.Set, command string) error {
	d := &markdownDoc{printer{w: w}}
	d.line("# %s", markdownText(s.Experiment.Title))
	d.line("")
	labReport(d, s)
	d.paragraph("Made by `" + command + "`.")
	return d.err
}

// labReport says first what became of the claims, then the numbers, then under
// what conditions.
func labReport(d labDoc, s *lab.Set) {
	e := s.Experiment
	if e.Question != "" {
		d.paragraph(e.Question)
	}
	if e.Source != "" {
		d.paragraph("Published: " + e.Source)
	}
	labClaims(d, s)
	if e.Remarks != "" {
		for p := range strings.SplitSeq(strings.TrimSpace(e.Remarks), "\n\n") {
			d.paragraph(strings.Join(strings.Fields(p), " "))
		}
	}
	labPublished(d, s)
	for _, name := range e.Measure {
		labMeasure(d, s, name)
	}
	labConditions(d, s)
}

func labClaims(d labDoc, s *lab.Set) {
	judged := s.Judge()
	if len(judged) == 0 {
		return
	}
	d.heading("Claims")
	for _, j := range judged {
		d.item(string(j.Judgement), j.Claim.Text, claimExpectation(j)+"; measured "+claimMeasured(j), j.Claim.Why)
	}
	intervals := "In brackets: 95 % intervals"
	if search := s.Experiment.Search; search != nil {
		intervals += fmt.Sprintf("; those of what a search found take in the %g %% to which it looked", 100*search.Tolerance)
	}
	judgement := "A claim is confirmed where the whole interval is as expected, refuted where none of it is, else unclear."
	if e := s.Experiment; e.MostRepeats > e.Repeats {
		judgement += fmt.Sprintf(" The cells of claims that were unclear after %d rounds run on while further rounds can make them clear, up to %d:"+
			" each look at the results makes it likelier that chance has judged one.", e.Repeats, e.MostRepeats)
	}
	d.paragraph(intervals + ". " + judgement)
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

func labPublished(d labDoc, s *lab.Set) {
	beside := s.Published()
	if len(beside) == 0 {
		return
	}
	rows := [][]cell{headCells("", "cell", "measure", "published", "measured here", "ratio", "note")}
	var whys []string
	of := map[string][]string{} // the numbers of the rows that a reason is for
	for i, b := range beside {
		number := strconv.Itoa(i + 1)
		ratio := noCell
		if m, _, _, ok := b.Measured.Median(); ok && b.Value > 0 {
			ratio = cell{fmt.Sprintf("%.2f", m/b.Value), m / b.Value}
		}
		rows = append(rows, []cell{{number, float64(i)}, textCell(b.Where), textCell(b.Published.Measure), {b.Unit.Format(b.Value), b.Value}, sampleCell(b.Measured, b.Unit), ratio,
			textCell(b.Published.Note)})
		if why := oneLine(b.Published.Why); why != "" {
			if of[why] == nil {
				whys = append(whys, why)
			}
			of[why] = append(of[why], number)
		}
	}
	d.heading("Published beside measured")
	d.table([]Align{Right, Left, Left, Right, Right, Right, Left}, rows)
	for _, why := range whys {
		d.paragraph(strings.Join(of[why], ", ") + ": " + why)
	}
}

// oneLine is a text of several lines as one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// noCell stands where nothing was measured; it is sorted first.
var noCell = cell{"-", -1}

// textCell is sorted by its number if it is one, else by its text.
func textCell(text string) cell {
	if v, ok := level(text); ok {
		return cell{text, v}
	}
	return cell{text, math.NaN()}
}

func headCells(texts ...string) []cell {
	var out []cell
	for _, t := range texts {
		out = append(out, cell{Text: t})
	}
	return out
}

// labMeasure writes one measure: a row for each combination of the factors but
// one, which has the columns.
func labMeasure(d labDoc, s *lab.Set, name string) {
	e := s.Experiment
	m, _ := lab.MeasureNamed(name)
	d.heading(name)
	d.paragraph(m.Help + "; median (smallest … largest)")
	d.measure(s, name)
	if len(e.Factors) < 2 {
		labList(d, s, name, m.Unit)
		return
	}
	column := slices.IndexFunc(e.Factors, func(f lab.Factor) bool { return f.Name == e.Columns })
	columns, rows := pivot(s, column)
	head, align := []cell{}, []Align{}
	for i, f := range e.Factors {
		if i != column {
			head, align = append(head, cell{Text: f.Name}), append(align, Left)
		}
	}
	for _, c := range columns {
		head, align = append(head, cell{Text: e.Columns + " " + c}), append(align, Right)
	}
	table := [][]cell{head}
	for _, r := range rows {
		var line []cell
		for _, l := range r.labels {
			line = append(line, textCell(l))
		}
		for _, c := range columns {
			results, ok := r.cells[c]
			if !ok {
				line = append(line, cell{"", -2})
				continue
			}
			line = append(line, sampleCell(results.Sample(name), m.Unit))
		}
		table = append(table, line)
	}
	d.table(align, table)
}

// labList writes one measure of an experiment with one factor or none: a line
// for each cell.
func labList(d labDoc, s *lab.Set, name string, u lab.Unit) {
	rows := [][]cell{headCells("", name)}
	for _, f := range s.Experiment.Factors {
		rows[0][0].Text = f.Name
	}
	for _, c := range s.Cells {
		rows = append(rows, []cell{textCell(strings.Join(c.Cell.Labels, "")), sampleCell(c.Sample(name), u)})
	}
	d.table([]Align{Left, Right}, rows)
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

// sampleCell is sorted by the median.
func sampleCell(s lab.Sample, u lab.Unit) cell {
	c := cell{sampleText(s, u), noCell.Sort}
	if m, _, _, ok := s.Median(); ok {
		c.Sort = m
	}
	return c
}

// sampleText is the median and the range of a sample, and how many runs failed.
func sampleText(s lab.Sample, u lab.Unit) string {
	text := "-"
	if m, low, high, ok := s.Median(); ok {
		text = u.Format(m)
		if len(s.Values) > 1 && u.Format(low) != u.Format(high) {
			text = fmt.Sprintf("%s (%s … %s)", text, strings.TrimSuffix(u.Format(low), " "+unitSuffix(u.Format(low))), u.Format(high))
		}
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(" %d failed", s.Failed)
	}
	return text
}

// unitSuffix is what stands behind the number.
func unitSuffix(text string) string {
	_, suffix, _ := strings.Cut(text, " ")
	return suffix
}

func labConditions(d labDoc, s *lab.Set) {
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
	d.heading("Conditions")
	if records == 0 {
		d.paragraph("Nothing was run yet.")
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
	d.paragraph(fmt.Sprintf("%s · JDK %s · %s · %d cells, %s, %d starts · rounds: %d, each in random order, seed %d", strings.Join(machines, "; "),
		strings.Join(jdks, ", "), when, len(s.Cells), runs, trials, e.Repeats, e.Seed))
	if slices.Sort(others); others[records-1] >= worthSaying {
		d.paragraph(fmt.Sprintf("Others took %.0f … %.0f %% of the machine's processor time meanwhile: times are to be read with that in mind.", 100*others[0], 100*others[records-1]))
	}
	for _, w := range sortedWarnings(warnings) {
		d.paragraph(fmt.Sprintf("Note, in %d runs: %s", warnings[w], linux.Printable(w)))
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

// LabDifferences writes what changed between two result sets.
func LabDifferences(w io.Writer, c lab.Comparison, st Style) error {
	rows := [][]string{{"cell", "measure", "A", "B", "change", "p", "effect", ""}}
	isReal := 0
	for _, d := range c.Differences {
		word := "within noise"
		if d.Real {
			isReal++
			word = st.Strong("real")
		} else if d.Warning != "" {
			word = d.Warning
		}
		a, _, _, _ := d.A.Median()
		b, _, _, _ := d.B.Median()
		rows = append(rows, []string{linux.Printable(d.Cell), d.Measure, sampleText(d.A, d.Unit), sampleText(d.B, d.Unit), Change(a, b),
			fmt.Sprintf("%.3f", d.P), fmt.Sprintf("%+.2f", d.Effect), word})
	}
	p := &printer{w: w}
	p.line("%d of %d differences are real: p < 0.05 by the Mann–Whitney U test.", isReal, len(c.Differences))
	if n := len(c.Differences); n >= 20 {
		p.line("By chance alone, about %d would be.", n/20)
	}
	for _, only := range []struct {
		set   string
		cells []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.cells) > 0 {
			p.line("%d cells are only in %s, such as %s.", len(only.cells), only.set, linux.Printable(only.cells[0]))
		}
	}
	p.line("")
	p.table("  ", []Align{Left, Left, Right, Right, Right, Right, Right, Left}, rows)
	p.line("")
	p.line("effect: how much more often a value of B is larger than one of A than smaller")
	return p.err
}

type textDoc struct {
	printer
	style Style
}

func (d *textDoc) heading(text string) { d.line("%s", d.style.Strong(text)) }

func (d *textDoc) paragraph(text string) {
	for _, l := range Wrap(linux.Printable(text), width) {
		d.line("%s", l)
	}
	d.line("")
}

func (d *textDoc) measure(*lab.Set, string) {} // plots are for pages

func (d *textDoc) item(word, text, evidence, why string) {
	const indent = 16
	for i, l := range Wrap(linux.Printable(text), width-indent) {
		if i == 0 {
			d.line("  %-*s%s", indent-2, word, d.style.Strong(l))
		} else {
			d.line("%*s%s", indent, "", d.style.Strong(l))
		}
	}
	for _, l := range Wrap(linux.Printable(evidence), width-indent) {
		d.line("%*s%s", indent, "", d.style.Faint(l))
	}
	if why != "" {
		for _, l := range Wrap(linux.Printable(oneLine(why)), width-indent) {
			d.line("%*s%s", indent, "", l)
		}
	}
	d.line("")
}

func (d *textDoc) table(align []Align, rows [][]cell) {
	texts := make([][]string, len(rows))
	for i, row := range rows {
		for _, c := range row {
			texts[i] = append(texts[i], linux.Printable(c.Text))
		}
	}
	d.printer.table("  ", align, texts)
	d.line("")
}

type markdownDoc struct{ printer }

func (d *markdownDoc) heading(text string) {
	d.line("## %s", markdownText(text))
	d.line("")
}

func (d *markdownDoc) paragraph(text string) {
	d.line("%s", linux.Printable(text))
	d.line("")
}

func (d *markdownDoc) measure(*lab.Set, string) {}

func (d *markdownDoc) item(word, text, evidence, why string) {
	d.line("- **%s**: %s", word, linux.Printable(text))
	d.line("  (%s)", linux.Printable(evidence))
	if why != "" {
		d.line("  %s", linux.Printable(oneLine(why)))
	}
	d.line("")
}

func (d *markdownDoc) table(align []Align, rows [][]cell) {
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, c := range row {
			cells[j] = markdownText(c.Text)
		}
		d.line("| %s |", strings.Join(cells, " | "))
		if i == 0 {
			rules := make([]string, len(align))
			for j, a := range align {
				rules[j] = map[Align]string{Left: "---", Right: "---:"}[a]
			}
			d.line("|%s|", strings.Join(rules, "|"))
		}
	}
	d.line("")
}

// markdownText escapes what would end a cell.
func markdownText(text string) string {
	return strings.ReplaceAll(linux.Printable(text), "|", `\|`)
}

// LabPlan says what an experiment would run.
func LabPlan(w io.Writer, e *lab.Experiment, r *lab.Results, pending []lab.Job) error {
	p := &printer{w: w}
	cells := e.Cells()
	total, planned := len(cells)*e.Repeats, 0
	for _, j := range pending {
		if j.Round <= e.Repeats {
			planned++
		}
	}
	p.line("%s: %d cells, %d rounds: %d runs, of which %d have a result.", linux.Printable(e.Title), len(cells), e.Repeats, total, total-planned)
	if e.MostRepeats > e.Repeats {
		p.line("The cells of claims that are unclear then run up to %d rounds.", e.MostRepeats)
	}
	if e.Search != nil {
		p.line("Each run looks for the %s, by several trials.", linux.Printable(e.Search.String()))
	}
	if took := meanTook(r); took > 0 && len(pending) > 0 {
		p.line("By those that have run, these take about %s.", Duration(took*time.Duration(len(pending))))
	}
	p.line("")
	const shown = 20
	for i, j := range pending {
		if i == shown {
			p.line("  … and %d more", len(pending)-shown)
			break
		}
		p.line("  round %d  %s", j.Round, linux.Printable(e.Key(j.Cell)))
	}
	return p.err
}

func meanTook(r *lab.Results) time.Duration {
	var sum time.Duration
	for _, rec := range r.Records {
		sum += rec.Took
	}
	return sum / time.Duration(max(1, len(r.Records)))
}

// LabProgress writes a line for each run that ended.
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
