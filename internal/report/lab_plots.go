package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/plot"
)

// level is the number that a factor's value is, such as 8, 0.5, 512k or 2g.
func level(label string) (float64, bool) {
	scale := 1.0
	if n := len(label); n > 1 {
		switch label[n-1] {
		case 'k', 'K':
			scale = 1 << 10
		case 'm', 'M':
			scale = 1 << 20
		case 'g', 'G':
			scale = 1 << 30
		}
		if scale > 1 {
			label = label[:n-1]
		}
	}
	v, err := strconv.ParseFloat(label, 64)
	return v * scale, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// varied is a factor with more than one value among the results.
type varied struct {
	index  int // among the factors
	name   string
	labels []string
}

// scaled says that the values are numbers on a scale: all above 0, and at
// least so many. Versions of the JDK are names.
func (v varied) scaled(least int) bool {
	return len(v.labels) >= least && v.name != "jdk" && !slices.ContainsFunc(v.labels, func(l string) bool { n, ok := level(l); return !ok || n <= 0 })
}

func variedFactors(s *lab.Set) []varied {
	var out []varied
	for i, f := range s.Experiment.Factors {
		v := varied{index: i, name: f.Name}
		for _, c := range s.Cells {
			if l := c.Cell.Labels[i]; !slices.Contains(v.labels, l) {
				v.labels = append(v.labels, l)
			}
		}
		if len(v.labels) > 1 {
			out = append(out, v)
		}
	}
	return out
}

// labPlot is one measure, to be drawn.
type labPlot struct {
	set     *lab.Set
	measure lab.Measure
	scale   float64 // what values are divided by
	unit    string
}

// labPlots are the plots of a measure: curves over a factor that is a number,
// a heat map over two, else bars.
func labPlots(s *lab.Set, name string) []document.Figure {
	m, _ := lab.MeasureNamed(name)
	p := labPlot{set: s, measure: m, scale: 1}
	most := 0.0
	for _, c := range s.Cells {
		if _, _, high, ok := c.Sample(name).Median(); ok {
			most = max(most, high)
		}
	}
	if most == 0 {
		return nil
	}
	switch m.Unit {
	case lab.Bytes:
		p.scale, p.unit = MiB, "MiB"
	case lab.Share:
		p.scale, p.unit = 0.01, "%"
	case lab.PerSecond:
		p.unit = "/s"
	case lab.Seconds:
		p.unit = "s"
		if most < 10 {
			p.scale, p.unit = 0.001, "ms"
		}
	}
	factors := variedFactors(s)
	i := slices.IndexFunc(factors, func(v varied) bool { return v.scaled(4) })
	if i < 0 {
		return []document.Figure{p.bars(factors)}
	}
	over, rest := factors[i], slices.Delete(slices.Clone(factors), i, i+1)
	if j := slices.IndexFunc(rest, func(v varied) bool { return v.scaled(3) }); j >= 0 {
		return p.heats(over, rest[j], slices.Delete(slices.Clone(rest), j, j+1))
	}
	return p.curves(over, rest)
}

// value is the median of a cell with its range, in the plot's unit.
func (p labPlot) value(c lab.CellResults) (at, low, high float64, ok bool) {
	at, low, high, ok = c.Sample(p.measure.Name).Median()
	if at == low && at == high {
		low, high = 0, 0 // no interval to draw
	}
	return at / p.scale, low / p.scale, high / p.scale, ok
}

// group is the cells with the same values of some factors.
type group struct {
	name  string
	cells []lab.CellResults
}

// groups splits cells by factors, in the order of the file.
func groups(cells []lab.CellResults, by []varied) []group {
	var out []group
	for _, c := range cells {
		var parts []string
		for _, f := range by {
			parts = append(parts, f.name+" "+c.Cell.Labels[f.index])
		}
		name := strings.Join(parts, ", ")
		i := slices.IndexFunc(out, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(out)
			out = append(out, group{name: name})
		}
		out[i].cells = append(out[i].cells, c)
	}
	return out
}

func (p labPlot) title(g group) string {
	if g.name == "" {
		return p.measure.Name
	}
	return p.measure.Name + ": " + g.name
}

// bars has a bar for each value of the factor that tables have their columns
// from, in a group for each combination of the others.
func (p labPlot) bars(factors []varied) document.Figure {
	e := p.set.Experiment
	by := slices.Clone(factors)
	column := slices.IndexFunc(by, func(v varied) bool { return v.name == e.Columns })
	if column < 0 {
		column = len(by) - 1
	}
	b := plot.Bars{Title: p.measure.Name, Desc: p.measure.Help, Unit: p.unit}
	index, labels := -1, []string{""}
	if len(by) > 1 { // of one factor each value is a group of its own
		index, labels = by[column].index, by[column].labels
		b.Names = labels
		by = slices.Delete(by, column, column+1)
		for i := range labels {
			b.Names[i], b.Tones = e.Factors[index].Name+" "+labels[i], append(b.Tones, plot.Palette[i%len(plot.Palette)])
		}
	}
	for _, g := range groups(p.set.Cells, by) {
		bars := make([]plot.Bar, len(labels))
		for i := range bars {
			bars[i].Value = math.NaN()
		}
		for _, c := range g.cells {
			i := 0
			if index >= 0 {
				i = slices.Index(labels, e.Factors[index].Name+" "+c.Cell.Labels[index])
			}
			if at, low, high, ok := p.value(c); ok {
				bars[i] = plot.Bar{Value: at, Low: low, High: high}
			}
		}
		b.Groups = append(b.Groups, plot.Group{Name: g.name, Bars: bars})
	}
	return document.Figure{Plot: b}
}

// maxSeries is how many curves a chart can have that are still told apart.
const maxSeries = 6

// curves has a chart with a curve for each combination of the other factors;
// where these are too many, a chart for each value of the first.
func (p labPlot) curves(over varied, rest []varied) []document.Figure {
	facets := []group{{cells: p.set.Cells}}
	if len(rest) > 1 && len(groups(p.set.Cells, rest)) > maxSeries {
		facets, rest = groups(p.set.Cells, rest[:1]), rest[1:]
	}
	var out []document.Figure
	for _, facet := range facets {
		c := plot.Chart{Title: p.title(facet), Desc: p.measure.Help + " over " + over.name,
			X: plot.Axis{Label: over.name, Marks: marks(over)}, Y: plot.Axis{Label: strings.TrimSpace(p.measure.Name + " " + p.unit), Unit: " " + p.unit}}
		for i, g := range groups(facet.cells, rest) {
			line, dots := p.curve(over, g, i)
			c.Series = append(c.Series, line, dots)
		}
		out = append(out, document.Figure{Heading: document.Plain(facet.name), Plot: c})
	}
	return out
}

func marks(v varied) []plot.Mark {
	var out []plot.Mark
	for _, l := range v.labels {
		n, _ := level(l)
		out = append(out, plot.Mark{At: n, Name: l})
	}
	return out
}

func (p labPlot) curve(over varied, g group, number int) (line, dots plot.Series) {
	tone := plot.Palette[number%len(plot.Palette)]
	shapes := []plot.Shape{plot.Dot, plot.Diamond, plot.Ring, plot.Cross}
	line = plot.Series{Name: g.name, Tone: tone, Line: true}
	dots = plot.Series{Tone: tone, Shape: shapes[number%len(shapes)]}
	for _, c := range g.cells {
		at, low, high, ok := p.value(c)
		if !ok {
			continue
		}
		label := c.Cell.Labels[over.index]
		x, _ := level(label)
		sample := c.Sample(p.measure.Name)
		title := strings.TrimPrefix(fmt.Sprintf("%s, %s %s: %s", g.name, over.name, label, sampleText(sample, p.measure.Unit)), ", ")
		dots.Points = append(dots.Points, plot.Point{X: x, Y: at, Low: low, High: high, Title: title})
	}
	slices.SortFunc(dots.Points, func(a, b plot.Point) int { return cmp.Compare(a.X, b.X) })
	for _, d := range dots.Points {
		line.Points = append(line.Points, plot.Point{X: d.X, Y: d.Y})
	}
	return line, dots
}

// heats has a heat map for each combination of the other factors.
func (p labPlot) heats(columns, rows varied, rest []varied) []document.Figure {
	var out []document.Figure
	for _, facet := range groups(p.set.Cells, rest) {
		h := plot.Heat{Title: p.title(facet), Desc: p.measure.Help + " over " + columns.name + " and " + rows.name,
			Columns: columns.name, Rows: rows.name, ColumnNames: columns.labels, RowNames: rows.labels, Fields: make([][]plot.Field, len(rows.labels))}
		for i := range h.Fields {
			h.Fields[i] = make([]plot.Field, len(columns.labels))
		}
		for _, c := range facet.cells {
			if at, _, _, ok := p.value(c); ok {
				i, j := slices.Index(rows.labels, c.Cell.Labels[rows.index]), slices.Index(columns.labels, c.Cell.Labels[columns.index])
				h.Fields[i][j] = plot.Field{Value: at, Text: p.measure.Unit.Format(at * p.scale)}
			}
		}
		out = append(out, document.Figure{Heading: document.Plain(facet.name), Plot: h})
	}
	return out
}
