// Package plot draws plots as SVG, for pages that need no network: points and
// lines over numbers or time, stacked areas, bars, heat maps and rankings. A
// plot has an accessible title and description, each mark tells its figures when
// pointed at, and what colours tell apart is named too. Colours follow the
// reader's light or dark scheme.
package plot

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tare.dev/tare/internal/linux"
)

// Widths of charts in pixels: for a page and for a phone. A chart is drawn for
// the width at which it is shown, so that its text keeps its size.
const (
	Wide   = 720
	Narrow = 350
)

// Plot is a picture for a width in pixels, as an SVG element of a page that has
// Style.
type Plot interface{ SVG(width int) string }

// Tone is a colour by its meaning.
type Tone string

// The tones.
const (
	Main  Tone = "main"  // what the chart is about
	Other Tone = "other" // what it is compared with
	Bad   Tone = "bad"   // what failed
	Muted Tone = "muted" // the rest
)

// Palette is tones for things of equal standing.
var Palette = []Tone{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}

// Shape is how a point is drawn.
type Shape int

// The shapes.
const (
	Dot Shape = iota
	Diamond
	Cross
	Ring
	Square // stands for an area in a legend
)

// Axis is one axis of a chart. It starts at zero unless Loose.
type Axis struct {
	// Label names the quantity and its unit.
	Label string
	Loose bool
	// Marks are the values that get a tick, and their names; an axis that has
	// them is logarithmic. Without, ticks are even.
	Marks []Mark
	// Unit stands behind a value in tooltips.
	Unit string
	// Zone makes the axis one of time: values are seconds since 1970 (Unix),
	// shown in this zone. Nil: values are numbers.
	Zone *time.Location
}

// Mark is a named value of a logarithmic axis; it must be above 0.
type Mark struct {
	At   float64
	Name string
}

// Point is a measured point. Low and High bound the interval of Y; both are zero
// where there is none.
type Point struct {
	X, Y, Low, High float64
	// Label is written beside the point; empty for none.
	Label string
	// Title tells of the point when it is pointed at; empty gives its figures.
	Title string
}

// Series is points of one kind, or a line.
type Series struct {
	// Name stands in the legend; empty leaves it out.
	Name   string
	Tone   Tone
	Shape  Shape
	Points []Point
	// Line draws a line through the points instead of the points. Steps draws it
	// with right angles: each value holds until the next.
	Line, Steps bool
}

// Rule is a line across the chart at one value.
type Rule struct {
	// Vertical rules stand at an X, others at a Y.
	Vertical bool
	At       float64
	Label    string
	Tone     Tone
}

// Chart is points and lines over two axes.
type Chart struct {
	// Title names the chart and Desc says what it shows, for readers who do
	// not see it.
	Title, Desc string
	X, Y        Axis
	Series      []Series
	Rules       []Rule
}

const (
	fontSize  = 12
	charWidth = 6.6 // of fontSize, on average and rather more
	// boldness is how much wider labels are.
	boldness = 1.1
	height   = 300
)

// SVG is the chart for a width in pixels. Values that are not finite are left
// out.
func (c Chart) SVG(width int) string {
	c = c.finite()
	l := c.layout(float64(width))
	var b canvas
	b.open(c.Title, c.Desc, l.w, l.h, "chart")
	l.axes(&b, c)
	for _, r := range c.Rules {
		l.rule(&b, r)
	}
	for _, s := range c.Series {
		if s.Line {
			l.line(&b, s)
		}
	}
	for _, s := range c.Series {
		if !s.Line {
			l.points(&b, s, c)
		}
	}
	l.labels(&b, c)
	return b.close()
}

func (c Chart) finite() Chart {
	series := make([]Series, len(c.Series))
	for i, s := range c.Series {
		series[i] = s
		series[i].Points = nil
		for _, p := range s.Points {
			if c.X.drawn(p.X) && isFinite(p.Y) && isFinite(p.Low) && isFinite(p.High) {
				series[i].Points = append(series[i].Points, p)
			}
		}
	}
	c.Series = series
	var rules []Rule
	for _, r := range c.Rules {
		if !r.Vertical && isFinite(r.At) || r.Vertical && c.X.drawn(r.At) {
			rules = append(rules, r)
		}
	}
	c.Rules = rules
	return c
}

// maxValue bounds what is drawn: beyond it the arithmetic of scales would
// overflow.
const maxValue = 1e15

func isFinite(v float64) bool { return math.Abs(v) <= maxValue }

// layout is where things are: the plot area, and the scales.
type layout struct {
	w, h                     float64
	left, right, top, bottom float64
	x, y                     scale
	legend                   [][]Series
}

func (c Chart) layout(width float64) layout {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.Low != 0 || p.High != 0 {
				ys = append(ys, p.Low, p.High)
			}
		}
	}
	for _, r := range c.Rules {
		if r.Vertical {
			xs = append(xs, r.At)
		} else {
			ys = append(ys, r.At)
		}
	}
	l := layout{w: width, right: width - 14, x: c.X.scale(xs, int(width/90)), y: newScale(ys, c.Y.Loose, 5)}
	l.legend = legendLines(c.Series, width)
	l.top = 30 + 18*float64(len(l.legend))
	l.bottom = l.top + height - 70
	l.h = l.bottom + 44
	widest := 0
	for _, t := range l.y.ticks() {
		widest = max(widest, utf8.RuneCountInString(l.y.format(t)))
	}
	l.left = 12 + charWidth*float64(widest)
	return l
}

// legendLines breaks the legend into lines that fit.
func legendLines(series []Series, width float64) [][]Series {
	var lines [][]Series
	left := 0.0
	for _, s := range series {
		if s.Name == "" || len(s.Points) == 0 {
			continue
		}
		w := legendWidth(s)
		if len(lines) == 0 || left < w {
			lines, left = append(lines, nil), width
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], s)
		left -= w
	}
	return lines
}

func legendWidth(s Series) float64 { return 34 + textWidth(s.Name) }

func textWidth(s string) float64 { return charWidth * float64(utf8.RuneCountInString(s)) }

func (l layout) px(x float64) float64 { return l.left + (l.right-l.left)*l.x.share(x) }
func (l layout) py(y float64) float64 { return l.bottom - (l.bottom-l.top)*l.y.share(y) }

func (l layout) axes(b *canvas, c Chart) {
	for i, line := range l.legend {
		x, y := 4.0, 12+18*float64(i)
		for _, s := range line {
			if s.Line {
				b.addf(`<path class="line %s" d="M%s %sh16"/>`, s.Tone, num(x), num(y-4))
			} else {
				b.mark(s.Shape, s.Tone, x+8, y-4, "")
			}
			b.text(x+21, y, "start", "", s.Name)
			x += legendWidth(s)
		}
	}
	b.text(2, l.top-12, "start", "axis", c.Y.Label)
	for _, t := range l.y.ticks() {
		b.addf(`<path class="grid" d="M%s %sH%s"/>`, num(l.left), num(l.py(t)), num(l.right))
		b.text(l.left-6, l.py(t)+4, "end", "tick", l.y.format(t))
	}
	end := 0.0
	for _, t := range l.x.marks() {
		x, half := l.px(t.At), textWidth(t.Name)/2
		b.addf(`<path class="grid" d="M%s %sv5"/>`, num(x), num(l.bottom))
		if x-half < end || x+half > l.w+1 {
			continue // its name would meet the one before, or be cut
		}
		end = x + half + 4
		b.text(x, l.bottom+18, "middle", "tick", t.Name)
	}
	b.addf(`<path class="base" d="M%s %sH%s"/>`, num(l.left), num(l.bottom), num(l.right))
	b.text(l.right, l.bottom+36, "end", "axis", c.X.label(l.x))
}

func (l layout) rule(b *canvas, r Rule) {
	if r.Vertical {
		b.addf(`<path class="rule %s" d="M%s %sV%s"/>`, r.Tone, num(l.px(r.At)), num(l.top), num(l.bottom))
		return
	}
	b.addf(`<path class="rule %s" d="M%s %sH%s"/>`, r.Tone, num(l.left), num(l.py(r.At)), num(l.right))
}

func (l layout) line(b *canvas, s Series) {
	if len(s.Points) == 0 {
		return
	}
	var d strings.Builder
	for i, p := range s.Points {
		x, y := num(l.px(p.X)), num(l.py(p.Y))
		switch {
		case i == 0:
			d.WriteString("M" + x + " " + y)
		case s.Steps:
			d.WriteString("H" + x + "V" + y)
		default:
			d.WriteString("L" + x + " " + y)
		}
	}
	b.addf(`<path class="line %s" d="%s"/>`, s.Tone, d.String())
}

func (l layout) points(b *canvas, s Series, c Chart) {
	for _, p := range s.Points {
		title := p.Title
		if title == "" {
			title = fmt.Sprintf("%s: %s%s, %s%s", s.Name, c.X.value(p.X), c.X.Unit, short(p.Y), c.Y.Unit)
		}
		if p.Low != 0 || p.High != 0 {
			x := num(l.px(p.X))
			b.addf(`<path class="interval %s" d="M%s %sV%s"/>`, s.Tone, x, num(l.py(p.Low)), num(l.py(p.High)))
		}
		b.mark(s.Shape, s.Tone, l.px(p.X), l.py(p.Y), title)
	}
}

// box is a rectangle that is taken.
type box struct{ x0, y0, x1, y1 float64 }

func (a box) meets(o box) bool { return a.x0 < o.x1 && o.x0 < a.x1 && a.y0 < o.y1 && o.y0 < a.y1 }

// labels writes labels where they meet neither marks nor each other, as far as
// there is such a place.
func (l layout) labels(b *canvas, c Chart) {
	taken := l.taken(c)
	place := func(text string, x, y float64, class string) {
		at := l.free(text, x, y, taken)
		taken = append(taken, at)
		b.text(at.x0+2, at.y1-4, "start", class, text)
	}
	for _, s := range c.Series {
		for _, p := range s.Points {
			if p.Label != "" {
				place(p.Label, l.px(p.X), l.py(p.Y), "label")
			}
		}
	}
	for _, r := range c.Rules {
		switch {
		case r.Label == "":
		case r.Vertical:
			place(r.Label, l.px(r.At), l.top+8, "label")
		default:
			place(r.Label, l.right-boldness*textWidth(r.Label)/2, l.py(r.At), "label")
		}
	}
}

// taken is where marks, lines and rules are.
func (l layout) taken(c Chart) []box {
	var out []box
	around := func(x, y, r float64) { out = append(out, box{x - r, y - r, x + r, y + r}) }
	for _, s := range c.Series {
		for i, p := range s.Points {
			x, y := l.px(p.X), l.py(p.Y)
			switch {
			case !s.Line:
				around(x, y, 6)
			case i > 0:
				x0, y0 := l.px(s.Points[i-1].X), l.py(s.Points[i-1].Y)
				if s.Steps {
					out = append(out, box{min(x0, x), y0 - 2, max(x0, x), y0 + 2}, box{x - 2, min(y0, y), x + 2, max(y0, y)})
					continue
				}
				for n := 0.0; n <= 40; n++ {
					around(x0+(x-x0)*n/40, y0+(y-y0)*n/40, 2)
				}
			}
		}
	}
	for _, r := range c.Rules {
		if r.Vertical {
			out = append(out, box{l.px(r.At) - 2, l.top, l.px(r.At) + 2, l.bottom})
		} else {
			out = append(out, box{l.left, l.py(r.At) - 2, l.right, l.py(r.At) + 2})
		}
	}
	return out
}

// free is the first place around a point, inside the chart, that meets nothing;
// the first inside the chart where there is none.
func (l layout) free(text string, x, y float64, taken []box) box {
	w, h := boldness*textWidth(text)+4, 17.0
	var first *box
	for _, d := range [][2]float64{{8, -h / 2}, {-w - 8, -h / 2}, {-w / 2, -h - 8}, {-w / 2, 8}, {8, -h - 8}, {8, 8}, {-w - 8, -h - 8}, {-w - 8, 8}, {-w / 2, -2*h - 8}, {-w / 2, h + 8}, {14, -2*h - 8}, {14, h + 8}, {-w - 14, h + 8}} {
		at := box{x + d[0], y + d[1], x + d[0] + w, y + d[1] + h}
		if at.x0 < l.left || at.x1 > l.w || at.y0 < l.top-10 || at.y1 > l.bottom {
			continue
		}
		if first == nil {
			first = &at
		}
		meets := false
		for _, o := range taken {
			meets = meets || at.meets(o)
		}
		if !meets {
			return at
		}
	}
	if first != nil {
		return *first
	}
	x0 := max(0, min(x-w/2, l.w-w))
	return box{x0, y - h, x0 + w, y}
}

// canvas collects the elements of an SVG.
type canvas struct{ strings.Builder }

func (b *canvas) open(title, desc string, w, h float64, kind string) {
	b.addf(`<svg class="plot" data-plot="%s" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" width="%s" height="%s" font-size="%d">`,
		kind, num(w), num(h), num(w), num(h), fontSize)
	b.addf(`<title>%s</title><desc>%s</desc>`, escape(title), escape(desc))
}

func (b *canvas) close() string {
	b.WriteString("</svg>\n")
	return b.String()
}

func (b *canvas) addf(format string, a ...any) { fmt.Fprintf(b, format, a...) }

func (b *canvas) text(x, y float64, anchor, class, text string) {
	b.addf(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, num(x), num(y), anchor, class, escape(text))
}

// mark draws a point, which tells title when it is pointed at.
func (b *canvas) mark(s Shape, t Tone, x, y float64, title string) {
	end := "/>"
	if title != "" {
		end = "><title>" + escape(title) + "</title>"
	}
	tag := "path"
	switch s {
	case Dot, Ring:
		tag = "circle"
		class, r := "dot", 4.5
		if s == Ring {
			class, r = "ring", 6
		}
		b.addf(`<circle class="%s %s" cx="%s" cy="%s" r="%s"%s`, class, t, num(x), num(y), num(r), end)
	case Diamond:
		b.addf(`<path class="dot %s" d="M%s %sl6 6l-6 6l-6 -6z"%s`, t, num(x), num(y-6), end)
	case Square:
		tag = "rect"
		b.addf(`<rect class="bar %s" x="%s" y="%s" width="12" height="12"%s`, t, num(x-6), num(y-6), end)
	case Cross:
		b.addf(`<path class="cross %s" d="M%s %sl8 8m0 -8l-8 8"%s`, t, num(x-4), num(y-4), end)
	}
	if title != "" {
		b.WriteString("</" + tag + ">")
	}
}

// escape makes text from anywhere safe in an SVG.
func escape(text string) string { return html.EscapeString(linux.Printable(text)) }

// num is a coordinate, to a tenth of a pixel.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// short is a value with three digits or so.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

//go:embed palette.css
var palette string

// Colours is the colours of all pages, as properties of CSS: for light and dark screens,
// and for paper.
var Colours = palette

//go:embed plot.css
var rules string

// Style is the style sheet of all plots, which the page that shows them must
// have. It begins with the palette, for light and dark screens and for paper;
// a page takes its own colours from there.
var Style = palette + rules

// File is a plot as a file of its own, which has the style sheet and a ground.
func File(svg string) string {
	head, body, _ := strings.Cut(svg, ">")
	return head + "><style>" + Style + ".plot{background:var(--paper)}</style>" + body
}
