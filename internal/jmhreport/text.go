package jmhreport

import (
	"io"
	"math"
	"strconv"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/plot"
	"tare.dev/tare/internal/report"
)

// explanation of the intervals, with every table.
const explanation = "mean ± 99.9 % interval, of one value per fork (peaks: its largest), or per iteration with fewer than 3 forks"

// Text writes a report for a terminal: a short table for each metric.
func Text(w io.Writer, r *Report) error {
	d := &document.Document{}
	d.Add(document.Paragraph{Text: document.Plain(strings.Join(r.Common, " · "))}, aside(explanation))
	for _, g := range r.Groups {
		d.Add(g.name()...)
		for _, ranking := range g.Rankings {
			d.Add(document.Heading{Text: ranking.title(), Sub: true}, g.ranked(ranking))
		}
		if len(g.Contenders) > 1 {
			d.Add(document.Heading{Text: document.Plain("ranking by metric"), Sub: true}, g.matrix(), g.letters(), g.winners())
		}
	}
	return document.WriteText(w, d, document.Style{})
}

// Markdown writes a report as text of a pull request: one table for each group,
// contenders by metrics.
func Markdown(w io.Writer, r *Report) error {
	d := page(r)
	d.Title = "" // the pull request has one
	return document.WriteMarkdown(w, d)
}

// HTML writes a report as one page that needs no network.
func HTML(w io.Writer, r *Report) error { return document.WriteHTML(w, page(r)) }

// page is the report where tables can be wide.
func page(r *Report) *document.Document {
	d := &document.Document{Title: "Benchmarks by speed and memory"}
	d.Add(document.Paragraph{Text: document.Plain(strings.Join(r.Common, " · "))})
	for _, g := range r.Groups {
		d.Add(g.name()...)
		d.Add(g.winners(), g.all())
		if len(g.Contenders) > 1 && len(g.Rankings) > 1 {
			d.Add(document.Figure{Heading: document.Plain("Ranking by metric"), Plot: g.ranks()})
		}
		bars := document.Gallery{Heading: document.Plain("Metric by metric")}
		for _, ranking := range g.Rankings {
			bars.Figures = append(bars.Figures, document.Figure{Heading: document.Plain(ranking.Metric),
				Caption: document.Plain(ranking.Unit + ", " + ranking.direction()), Plot: g.bars(ranking)})
		}
		d.Add(bars)
	}
	d.Add(aside(upperFirst(explanation) + ". Bold: first by this metric; =: its interval overlaps that of a neighbour."))
	return d
}

func aside(text string) document.Paragraph {
	return document.Paragraph{Text: document.Plain(text), Role: document.Aside}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// name is the heading of a group that has one.
func (g Group) name() []document.Block {
	if g.Name == "" {
		return nil
	}
	return []document.Block{document.Heading{Text: document.Plain(g.Name)}}
}

// letter names a contender in a narrow column.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return strconv.Itoa(i + 1)
}

// title names a metric, its unit, and which way it is good.
func (r Ranking) title() document.Text {
	return document.Join(document.Strong(r.Metric), document.Faint(" in "+r.Unit+", "+r.direction()))
}

// direction says which way a metric is good.
func (r Ranking) direction() string {
	if r.HigherIsBetter {
		return "more is better"
	}
	return "less is better"
}

// place is a rank in a table: "1", "2=" when its interval overlaps with a
// neighbour's, "–" when unknown.
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
func (g Group) winners() document.List {
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
	var l document.List
	for _, i := range order {
		l.Items = append(l.Items, document.Plain(g.Contenders[i].Name+" is first by "+strings.Join(by[i], ", ")))
	}
	return l
}

// ranked is the contenders by one metric, the best first.
func (g Group) ranked(r Ranking) document.Table {
	t := document.Table{Columns: document.Columns(">", "", ">", "", ">")}
	for _, i := range r.Order {
		e := g.Contenders[i].Estimates[r.Metric]
		first := g.Contenders[r.Order[0]].Estimates[r.Metric]
		change := ""
		if i != r.Order[0] {
			change = report.Change(first.Center, e.Center)
		}
		t.Row(document.Cells(r.place(i), g.Contenders[i].Name, jmh.Quantity(e.Center), e.Interval(), change)...)
	}
	return t
}

// matrix is the places of contenders by metric.
func (g Group) matrix() document.Table {
	t := document.Table{Columns: document.Columns("")}
	for i := range g.Contenders {
		t.Columns = append(t.Columns, document.Column{Name: letter(i), Number: true})
	}
	for _, r := range g.Rankings {
		row := document.Cells(r.Metric)
		for i := range g.Contenders {
			row = append(row, document.Cells(r.place(i))...)
		}
		t.Row(row...)
	}
	return t
}

// letters says which letter is whose.
func (g Group) letters() document.Table {
	t := document.Table{Columns: document.Columns("", "")}
	for i, c := range g.Contenders {
		t.Row(document.Cells(letter(i), c.Name)...)
	}
	return t
}

// all is the contenders by all metrics.
func (g Group) all() document.Table {
	t := document.Table{Columns: document.Columns("contender"), Sortable: true}
	for _, r := range g.Rankings {
		t.Columns = append(t.Columns, document.Column{Name: r.Metric + " (" + r.Unit + ")", Number: true})
	}
	for i, c := range g.Contenders {
		row := []document.Cell{{Text: document.Plain(c.Name)}}
		for _, r := range g.Rankings {
			row = append(row, g.cell(r, i))
		}
		t.Row(row...)
	}
	return t
}

// cell is a contender by a metric. One without the metric is sorted last.
func (g Group) cell(r Ranking, contender int) document.Cell {
	e, ok := g.Contenders[contender].Estimates[r.Metric]
	if !ok {
		return document.Number("–", math.MaxFloat64)
	}
	c := document.Number(jmh.Quantity(e.Center), e.Center)
	place, tied := r.Place(contender)
	if place == 1 {
		c.Text = document.Strong(c.Text.String())
	}
	note := e.Interval()
	if tied {
		note += " ="
	}
	c.Note = document.Plain(note)
	return c
}

// bars has a bar with its interval for each contender, the best on top.
func (g Group) bars(r Ranking) plot.Bars {
	b := plot.Bars{Title: r.Metric + " by contender", Desc: r.direction(), Unit: r.Unit}
	for _, i := range r.Order {
		e := g.Contenders[i].Estimates[r.Metric]
		bar := plot.Bar{Value: e.Center, Text: strings.TrimSpace(jmh.Quantity(e.Center) + " " + e.Interval()), Tone: toneOf(i)}
		if e.Low != nil && e.High != nil {
			bar.Low, bar.High = max(*e.Low, 0), max(*e.High, 0)
		}
		b.Groups = append(b.Groups, plot.Group{Name: letter(i) + " · " + g.Contenders[i].Name, Bars: []plot.Bar{bar}})
	}
	return b
}

// ranks has a line for each contender through its places.
func (g Group) ranks() plot.Ranks {
	p := plot.Ranks{Title: "Ranking by metric", Desc: "The place of each contender by each metric."}
	for _, r := range g.Rankings {
		p.Measures = append(p.Measures, r.Metric)
	}
	for i, c := range g.Contenders {
		line := plot.RankLine{Name: c.Name, Mark: letter(i), Tone: toneOf(i)}
		for _, r := range g.Rankings {
			place, _ := r.Place(i)
			line.Places, line.Texts = append(line.Places, place), append(line.Texts, r.place(i))
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}

// toneOf is the colour of a contender in all plots.
func toneOf(contender int) plot.Tone { return plot.Palette[contender%len(plot.Palette)] }
