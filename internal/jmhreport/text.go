package jmhreport

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"tare/internal/jmh"
	"tare/internal/linux"
	"tare/internal/report"
)

// explanation of the intervals, below every table.
const explanation = "mean ± 99.9 % interval, of one value per fork (peaks: its largest), or per iteration with fewer than 3 forks"

// letter names a contender in a narrow column.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return strconv.Itoa(i + 1)
}

// direction says which way a metric is good.
func (r Ranking) direction() string {
	if r.HigherIsBetter {
		return "more is better"
	}
	return "less is better"
}

// place is a rank in a table: "1", "2=" when its interval overlaps with a
// neighbour's, "" when unknown.
func (r Ranking) place(contender int) string {
	place, tied := r.Place(contender)
	switch {
	case place == 0:
		return "–"
	case tied:
		return strconv.Itoa(place) + "="
	}
	return strconv.Itoa(place)
}

// winners says which contender is first by which metrics; by those with a =
// that is not sure.
func (g Group) winners() []string {
	var lines []string
	by := map[int][]string{}
	var order []int
	for _, r := range g.Rankings {
		if len(r.Order) < 2 {
			continue
		}
		if _, ok := by[r.Order[0]]; !ok {
			order = append(order, r.Order[0])
		}
		metric := r.Metric
		if r.Tied[1] {
			metric += "="
		}
		by[r.Order[0]] = append(by[r.Order[0]], metric)
	}
	for _, i := range order {
		lines = append(lines, g.Contenders[i].Name+" is first by "+strings.Join(by[i], ", "))
	}
	return lines
}

// Text writes a report for a terminal.
func Text(w io.Writer, r *Report) error {
	p := &printer{w: w}
	for _, line := range report.Wrap(linux.Printable(strings.Join(r.Common, " · ")), 78) {
		p.line("%s", line)
	}
	p.line("%s", strings.Join(report.Wrap(explanation, 78), "\n"))
	for _, g := range r.Groups {
		p.group(g)
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) table(indent string, align []report.Align, rows [][]string) {
	if p.err == nil {
		p.err = report.Table(p.w, indent, align, rows)
	}
}

func (p *printer) group(g Group) {
	if g.Name != "" {
		p.line("\n%s", linux.Printable(g.Name))
	}
	for _, r := range g.Rankings {
		p.line("\n%s  %s, %s", linux.Printable(r.Metric), linux.Printable(r.Unit), r.direction())
		p.table("  ", []report.Align{report.Right, report.Left, report.Right, report.Left, report.Right}, g.rankingRows(r))
	}
	if len(g.Contenders) > 1 {
		p.line("\nranking by metric")
		p.table("  ", g.matrixAlign(), g.matrix())
		for i, c := range g.Contenders {
			p.line("  %s  %s", letter(i), linux.Printable(c.Name))
		}
		for _, line := range g.winners() {
			p.line("%s", strings.Join(report.Wrap(linux.Printable(line), 78), "\n  "))
		}
	}
}

func (g Group) rankingRows(r Ranking) [][]string {
	var rows [][]string
	for _, i := range r.Order {
		e := g.Contenders[i].Estimates[r.Metric]
		first := g.Contenders[r.Order[0]].Estimates[r.Metric]
		change := ""
		if i != r.Order[0] {
			change = report.Change(first.Center, e.Center)
		}
		rows = append(rows, []string{r.place(i), linux.Printable(g.Contenders[i].Name), jmh.Quantity(e.Center), e.Interval(), change})
	}
	return rows
}

func (g Group) matrixAlign() []report.Align {
	align := []report.Align{report.Left}
	for range g.Contenders {
		align = append(align, report.Right)
	}
	return align
}

// matrix are the places of contenders by metric, with a heading.
func (g Group) matrix() [][]string {
	heading := []string{""}
	for i := range g.Contenders {
		heading = append(heading, letter(i))
	}
	rows := [][]string{heading}
	for _, r := range g.Rankings {
		row := []string{linux.Printable(r.Metric)}
		for i := range g.Contenders {
			row = append(row, r.place(i))
		}
		rows = append(rows, row)
	}
	return rows
}

// Markdown writes a report as text of a pull request: one table for each group,
// contenders by metrics.
func Markdown(w io.Writer, r *Report) error {
	p := &printer{w: w}
	for _, g := range r.Groups {
		if g.Name != "" {
			p.line("**%s**\n", cell(g.Name))
		}
		heading, rule := "| |", "|---|"
		for _, ranking := range g.Rankings {
			heading += " " + cell(ranking.Metric) + " (" + cell(ranking.Unit) + ") |"
			rule += "---:|"
		}
		p.line("%s\n%s", heading, rule)
		for i, c := range g.Contenders {
			row := "| " + cell(c.Name) + " |"
			for _, ranking := range g.Rankings {
				row += " " + g.markdownCell(ranking, i) + " |"
			}
			p.line("%s", row)
		}
		p.line("")
	}
	p.line("%s. Bold: first by this metric; =: its interval overlaps that of a neighbour.", upperFirst(explanation))
	return p.err
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (g Group) markdownCell(r Ranking, contender int) string {
	e, ok := g.Contenders[contender].Estimates[r.Metric]
	if !ok {
		return "–"
	}
	text := jmh.Quantity(e.Center)
	if margin := e.Interval(); margin != "" {
		text += " " + margin
	}
	place, tied := r.Place(contender)
	if place == 1 {
		text = "**" + text + "**"
	}
	if tied {
		text += " ="
	}
	return text
}

// cell makes text safe in a Markdown table: what a result file says is nobody's
// markup.
func cell(s string) string {
	s = linux.Printable(s)
	for _, special := range []string{`\`, "`", "*", "_", "[", "]", "<", ">", "|", "~", "#", "@", "!"} {
		s = strings.ReplaceAll(s, special, `\`+special)
	}
	return s
}
