package plot

import (
	"fmt"
	"math"
	"strings"
)

// Areas are layers that add up, one on top of the other, over time or numbers:
// resident memory by owner, and the limit as a rule above it.
type Areas struct {
	// Title and Desc are as in Chart.
	Title, Desc string
	X, Y        Axis
	// At are the moments, in order.
	At []float64
	// Layers are drawn from the bottom up.
	Layers []Layer
	Rules  []Rule
}

// Layer is one value for each moment.
type Layer struct {
	Name string
	Tone Tone
	// Values are by moment; one that is missing, not finite or negative was not
	// measured. A moment is drawn where all layers have one; others are gaps.
	Values []float64
}

// stack is one moment with the tops of its layers.
type stack struct {
	at   float64
	tops []float64
	from int // its index among the moments
}

// SVG is the plot for a width in pixels.
func (a Areas) SVG(width int) string {
	runs := a.runs(width)
	c := a.chart(runs)
	c = c.finite()
	l := c.layout(float64(width))
	var b canvas
	b.open(a.Title, a.Desc, l.w, l.h, "areas")
	l.axes(&b, c)
	for i, layer := range a.Layers {
		for _, run := range runs {
			l.area(&b, layer, run, i)
		}
	}
	for _, r := range c.Rules {
		l.rule(&b, r)
	}
	l.labels(&b, c)
	l.moments(&b, a, runs)
	return b.close()
}

// runs are the moments that are drawn, broken where some were not measured. Of
// several in one pixel the highest is kept.
func (a Areas) runs(width int) [][]stack {
	var runs [][]stack
	open := false
	span := a.span()
	for i, at := range a.At {
		s, ok := a.stack(i, at)
		if !ok {
			open = false
			continue
		}
		if !open {
			runs, open = append(runs, nil), true
		}
		run := &runs[len(runs)-1]
		if n := len(*run); n > 0 {
			last := &(*run)[n-1]
			if at < last.at {
				continue // not in order
			}
			if (at-last.at)*float64(width) < span {
				if s.top() > last.top() {
					last.tops, last.from = s.tops, s.from
				}
				continue
			}
		}
		*run = append(*run, s)
	}
	return runs
}

// span is from the first to the last moment.
func (a Areas) span() float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, at := range a.At {
		if a.X.drawn(at) {
			low, high = min(low, at), max(high, at)
		}
	}
	return high - low
}

func (s stack) top() float64 {
	if len(s.tops) == 0 {
		return 0
	}
	return s.tops[len(s.tops)-1]
}

func (a Areas) stack(i int, at float64) (stack, bool) {
	s := stack{at: at, from: i}
	sum := 0.0
	for _, layer := range a.Layers {
		if i >= len(layer.Values) || !(layer.Values[i] >= 0) {
			return s, false
		}
		sum += layer.Values[i]
		s.tops = append(s.tops, sum)
	}
	return s, a.X.drawn(at) && isFinite(sum)
}

// chart has the axes, the legend and the rules; its points are the tops, which
// labels keep clear of.
func (a Areas) chart(runs [][]stack) Chart {
	c := Chart{Title: a.Title, X: a.X, Y: a.Y, Rules: a.Rules}
	for i, layer := range a.Layers {
		s := Series{Name: layer.Name, Tone: layer.Tone, Shape: Square}
		for _, run := range runs {
			for _, m := range run {
				s.Points = append(s.Points, Point{X: m.at, Y: m.tops[i]})
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// area draws one layer of a run: along its tops, and back along those below.
func (l layout) area(b *canvas, layer Layer, run []stack, i int) {
	below := func(m stack) float64 {
		if i == 0 {
			return 0
		}
		return m.tops[i-1]
	}
	wide, class := 0.0, "area"
	if len(run) == 1 { // one moment alone is a line of two pixels
		wide, class = 1, "area alone"
	}
	var d strings.Builder
	for j, m := range run {
		d.WriteString(map[bool]string{true: "M", false: "L"}[j == 0] + num(l.px(m.at)-wide) + " " + num(l.py(m.tops[i])))
		if wide > 0 {
			d.WriteString("h2")
		}
	}
	for j := len(run) - 1; j >= 0; j-- {
		d.WriteString("L" + num(l.px(run[j].at)+wide) + " " + num(l.py(below(run[j]))))
		if wide > 0 {
			d.WriteString("h-2")
		}
	}
	b.addf(`<path class="%s %s" d="%sz"/>`, class, layer.Tone, d.String())
}

// maxMoments bounds the moments that tell their figures when pointed at.
const maxMoments = 180

// moments are strips that tell what they hold when pointed at.
func (l layout) moments(b *canvas, a Areas, runs [][]stack) {
	var all []stack
	for _, run := range runs {
		all = append(all, run...)
	}
	every := len(all)/maxMoments + 1
	left := l.left
	for j := 0; j < len(all); j += every {
		m := all[j]
		right := l.right
		if next := j + every; next < len(all) {
			right = (l.px(m.at) + l.px(all[next].at)) / 2
		}
		lines := []string{a.X.value(m.at) + a.X.Unit}
		for i := len(a.Layers) - 1; i >= 0; i-- {
			lines = append(lines, fmt.Sprintf("%s: %s%s", a.Layers[i].Name, short(a.Layers[i].Values[m.from]), a.Y.Unit))
		}
		lines = append(lines, fmt.Sprintf("together: %s%s", short(m.top()), a.Y.Unit))
		for i := range lines {
			lines[i] = escape(lines[i])
		}
		b.addf(`<rect class="moment" fill="none" pointer-events="all" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
			num(left), num(l.top), num(max(0, right-left)), num(l.bottom-l.top), strings.Join(lines, "\n"))
		left = right
	}
}
