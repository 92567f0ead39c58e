package jmhreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"tare/internal/jmh"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"letter": letter, "quantity": jmh.Quantity, "f": coordinate,
	"sum": func(a, b float64) float64 { return a + b },
}).Parse(page))

// HTML writes a report as one page that needs nothing else: plots are inline
// SVG, and its small script only sorts tables.
func HTML(w io.Writer, r *Report) error {
	view := pageView{Common: r.Common, Explanation: upperFirst(explanation)}
	for _, g := range r.Groups {
		view.Groups = append(view.Groups, g.view())
	}
	return pageTemplate.Execute(w, view)
}

type pageView struct {
	Common      []string
	Explanation string
	Groups      []groupView
}

type groupView struct {
	Group
	Winners []string
	Bars    []barChart
	Ranks   *rankChart
}

func (g Group) view() groupView {
	v := groupView{Group: g, Winners: g.winners()}
	for _, r := range g.Rankings {
		v.Bars = append(v.Bars, g.bars(r))
	}
	if len(g.Contenders) > 1 && len(g.Rankings) > 1 {
		v.Ranks = g.ranks()
	}
	return v
}

// Cell is what a table shows of a contender by a metric.
func (g groupView) Cell(r Ranking, contender int) cellView {
	e, ok := g.Contenders[contender].Estimates[r.Metric]
	if !ok {
		return cellView{Text: "–"}
	}
	place, _ := r.Place(contender)
	return cellView{Text: jmh.Quantity(e.Center), Margin: e.Interval(), Place: r.place(contender), First: place == 1, Value: coordinate(e.Center), Known: true}
}

type cellView struct {
	Text, Margin, Place, Value string
	First, Known               bool
}

// coordinate is a number in SVG or an attribute.
func coordinate(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.4f", v), ".0000") }

// Geometry of the bar charts, in SVG units, which are pixels on a phone.
const (
	barWidth, barNames, barValues = 360.0, 26.0, 136.0
	barRow                        = 22.0
)

// barChart has a bar with its interval for each contender, the best on top.
type barChart struct {
	Ranking
	Direction     string
	Width, Height float64
	Bars          []bar
}

type bar struct {
	Contender             int
	Name                  string
	Y, X, Length          float64
	Low, High             float64
	HasInterval           bool
	Text, Margin          string
	Middle, Baseline, End float64
}

func (g Group) bars(r Ranking) barChart {
	c := barChart{Ranking: r, Direction: r.direction(), Width: barWidth, Height: barRow*float64(len(r.Order)) + 4}
	most := 0.0
	for _, i := range r.Order {
		_, high := g.Contenders[i].Estimates[r.Metric].Bounds()
		most = max(most, high)
	}
	if most <= 0 || math.IsInf(most, 0) {
		most = 1
	}
	scale := func(v float64) float64 {
		return barNames + (barWidth-barNames-barValues)*min(max(v/most, 0), 1)
	}
	for row, i := range r.Order {
		e := g.Contenders[i].Estimates[r.Metric]
		low, high := e.Bounds()
		y := 2 + barRow*float64(row)
		c.Bars = append(c.Bars, bar{
			Contender: i, Name: g.Contenders[i].Name, Y: y + 3, X: barNames, Length: scale(e.Center) - barNames,
			Low: scale(low), High: scale(high), HasInterval: e.Low != nil, Text: jmh.Quantity(e.Center), Margin: e.Interval(),
			Middle: y + barRow/2, Baseline: y + barRow/2 + 4, End: scale(max(high, e.Center)) + 6,
		})
	}
	return c
}

// Geometry of the chart of ranks.
const rankColumn, rankRow, rankMargin, rankHead = 92.0, 34.0, 44.0, 96.0

// rankChart has a line for each contender through its places by each metric:
// lines that cross are metrics that disagree.
type rankChart struct {
	Width, Height float64
	Columns       []rankColumnView
	Lines         []rankLine
}

type rankColumnView struct {
	X    float64
	Name string
}

type rankLine struct {
	Contender int
	Name      string
	Points    string
	Dots      []rankDot
}

type rankDot struct {
	X, Y   float64
	Place  string
	Metric string
}

func (g Group) ranks() *rankChart {
	c := &rankChart{
		Width:  2*rankMargin + rankColumn*float64(len(g.Rankings)-1) + 60,
		Height: rankHead + rankRow*float64(len(g.Contenders)),
	}
	for i, r := range g.Rankings {
		c.Columns = append(c.Columns, rankColumnView{rankMargin + rankColumn*float64(i), r.Metric})
	}
	for i, contender := range g.Contenders {
		line := rankLine{Contender: i, Name: contender.Name}
		var points []string
		for column, r := range g.Rankings {
			place, _ := r.Place(i)
			if place == 0 {
				continue
			}
			dot := rankDot{c.Columns[column].X, rankHead + rankRow*(float64(place)-0.5), r.place(i), r.Metric}
			line.Dots = append(line.Dots, dot)
			points = append(points, coordinate(dot.X)+","+coordinate(dot.Y))
		}
		line.Points = strings.Join(points, " ")
		c.Lines = append(c.Lines, line)
	}
	return c
}

// Class is the colour of a contender, by the order of contenders.
func (b bar) Class() string { return colorClass(b.Contender) }

// Class is as of a bar.
func (l rankLine) Class() string { return colorClass(l.Contender) }

// ColorClass is as of a bar.
func (g groupView) ColorClass(contender int) string { return colorClass(contender) }

func colorClass(i int) string { return fmt.Sprintf("c%d", i%8) }
