package plot

import "strconv"

// Ranks has a line for each contender through its places by several measures:
// lines that cross are measures that disagree.
type Ranks struct {
	// Title and Desc are as in Chart.
	Title, Desc string
	// Measures are the rows, from above.
	Measures []string
	Lines    []RankLine
}

// RankLine is the places of one contender.
type RankLine struct {
	Name string
	// Mark stands in the circles: a letter or a number.
	Mark string
	Tone Tone
	// Places are by measure, from 1; 0 where there is none.
	Places []int
	// Texts are how the places are written, such as "2=".
	Texts []string
}

const (
	rankRow    = 40
	rankRadius = 11
)

// SVG is the plot for a width in pixels.
func (r Ranks) SVG(width int) string {
	w := float64(width)
	left := 0.0
	if width > Narrow {
		for _, m := range r.Measures {
			left = max(left, textWidth(m)+10)
		}
		left = min(left, w/3)
	}
	most := 1
	for _, line := range r.Lines {
		for _, p := range line.Places {
			most = max(most, p)
		}
	}
	column := (w - left) / float64(most)
	at := func(row, place int) (x, y float64) {
		return left + column*(float64(place)-0.5), 38 + rankRow*(float64(row)+0.5)
	}
	var b canvas
	b.open(r.Title, r.Desc, w, 44+rankRow*float64(len(r.Measures)), "ranks")
	for p := 1; p <= most; p++ {
		if x, _ := at(0, p); column >= 20 || p%5 == 1 {
			b.text(x, 12, "middle", "tick", strconv.Itoa(p)+".")
		}
	}
	for i, m := range r.Measures {
		_, y := at(i, 1)
		b.addf(`<path class="grid" d="M%s %sH%s"/>`, num(left), num(y), num(w))
		if left > 0 {
			b.text(0, y+4, "start", "", fitting(m, left-6))
		}
	}
	for _, line := range r.Lines {
		r.line(&b, line, at)
	}
	for i, m := range r.Measures {
		if _, y := at(i, 1); left == 0 {
			b.text(0, y-14, "start", "over", fitting(m, w))
		}
	}
	return b.close()
}

func (r Ranks) line(b *canvas, line RankLine, at func(row, place int) (x, y float64)) {
	d := ""
	for i, p := range line.Places[:min(len(line.Places), len(r.Measures))] {
		if p > 0 {
			x, y := at(i, p)
			d += map[bool]string{true: "M", false: "L"}[d == ""] + num(x) + " " + num(y)
		}
	}
	if d == "" {
		return
	}
	b.addf(`<path class="line %s" d="%s"/>`, line.Tone, d)
	for i, p := range line.Places[:min(len(line.Places), len(r.Measures))] {
		if p <= 0 {
			continue
		}
		x, y := at(i, p)
		text := strconv.Itoa(p)
		if i < len(line.Texts) {
			text = line.Texts[i]
		}
		b.addf(`<circle class="place %s" cx="%s" cy="%s" r="%d"><title>%s</title></circle>`, line.Tone, num(x), num(y), rankRadius,
			escape(line.Name+": "+text+" by "+r.Measures[i]))
		b.text(x, y+4, "middle", "in", line.Mark)
	}
}
