package plot

import (
	"fmt"
	"strconv"
)

// Bars is horizontal bars in groups: one bar of each group for each of Names.
type Bars struct {
	// Title and Desc are as in Chart.
	Title, Desc string
	// Unit stands behind the values.
	Unit string
	// Names are those of the bars of a group, Tones their colours.
	Names  []string
	Tones  []Tone
	Groups []Group
}

// Group is one group of bars.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one value. Low and High are its interval, both zero for none.
type Bar struct {
	Value, Low, High float64
	// Text is how the value is written; empty gives its figure and unit.
	Text string
	// Tone is the bar's own colour; empty gives that of its place in the group.
	Tone Tone
}

const (
	barHeight = 13
	groupGap  = 11
)

// SVG is the chart for a width in pixels. Bars whose values are not finite, or
// are negative, are left out.
func (c Bars) SVG(width int) string {
	w := float64(width)
	names := c.names(w)
	most := c.most()
	room := w - names - c.values() - 8
	var b canvas
	body := &canvas{}
	y := c.legend(body, w)
	for _, g := range c.Groups {
		if names == 0 {
			body.text(0, y+11, "start", "", g.Name)
			y += 17
		}
		top := y
		for i, bar := range g.Bars {
			if bar.drawn() {
				c.bar(body, g, i, bar, names, y, room/most)
				y += barHeight + 2
			}
		}
		if names > 0 {
			y = max(y, top+barHeight+2) // the name of a group without bars
			body.text(names-8, (top+y)/2+3, "end", "", g.Name)
		}
		y += groupGap
	}
	b.open(c.Title, c.Desc, w, y, "bars")
	b.WriteString(body.String())
	return b.close()
}

// names is the width of the groups' names, at the left of the bars; 0 where they
// stand above them, because they would leave the bars too little of the width.
func (c Bars) names(width float64) float64 {
	if width <= Narrow {
		return 0
	}
	names := 0.3 * width
	for _, g := range c.Groups {
		names = max(names, textWidth(g.Name)+8)
	}
	if names > 0.45*width {
		return 0
	}
	return names
}

// values is the width of the widest value behind a bar.
func (c Bars) values() float64 {
	const digits = 1.17 // they are wider than letters
	widest := textWidth("0000.0 " + c.Unit)
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			widest = max(widest, digits*textWidth(bar.Text))
		}
	}
	return widest
}

// text is how the value of a bar is written.
func (c Bars) text(b Bar) string {
	if b.Text != "" {
		return b.Text
	}
	return decimal(b.Value) + " " + c.Unit
}

// most is the largest value to be drawn, 1 where there is none.
func (c Bars) most() float64 {
	most := 0.0
	for _, g := range c.Groups {
		for _, bar := range g.Bars {
			if bar.drawn() {
				most = max(most, bar.Value, bar.High)
			}
		}
	}
	if most == 0 {
		return 1
	}
	return most
}

func (b Bar) drawn() bool {
	return isFinite(b.Value) && isFinite(b.Low) && isFinite(b.High) && b.Value >= 0 && b.Low >= 0 && b.High >= 0
}

// legend names the bars where a group has several, and returns its height.
func (c Bars) legend(b *canvas, width float64) float64 {
	if len(c.Names) < 2 {
		return 4
	}
	x, y := 0.0, 12.0
	for i, name := range c.Names {
		if w := 30 + textWidth(name); x > 0 && x+w > width {
			x, y = 0, y+18
		}
		b.addf(`<rect class="bar %s" x="%s" y="%s" width="12" height="12"/>`, c.tone(i), num(x), num(y-10))
		b.text(x+17, y, "start", "", name)
		x += 30 + textWidth(name)
	}
	return y + 14
}

func (c Bars) tone(i int) Tone {
	if i < len(c.Tones) {
		return c.Tones[i]
	}
	return Main
}

func (c Bars) bar(b *canvas, g Group, i int, bar Bar, x, y, scale float64) {
	name := ""
	if i < len(c.Names) {
		name = ", " + c.Names[i]
	}
	title := escape(fmt.Sprintf("%s%s: %s", g.Name, name, c.text(bar)))
	tone := bar.Tone
	if tone == "" {
		tone = c.tone(i)
	}
	b.addf(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%d" rx="1.5"><title>%s</title></rect>`, tone, num(x), num(y), num(max(0.5, bar.Value*scale)), barHeight, title)
	end := bar.Value
	if bar.Low != 0 || bar.High != 0 {
		end = max(end, bar.High)
		b.addf(`<path class="spread" d="M%s %sH%s"/>`, num(x+bar.Low*scale), num(y+barHeight/2), num(x+bar.High*scale))
	}
	b.text(x+end*scale+5, y+11, "start", "value", c.text(bar))
}

// decimal is a value with one decimal, as its neighbours have.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
