package plot

import (
	"fmt"
	"math"
)

// Heat is a heat map: a value for each pair of a row and a column. The more, the
// darker; the value itself stands in each field.
type Heat struct {
	// Title and Desc are as in Chart.
	Title, Desc string
	// Columns and Rows name what they stand for, ColumnNames and RowNames
	// their values.
	Columns, Rows         string
	ColumnNames, RowNames []string
	// Fields are the values by row and column.
	Fields [][]Field
}

// Field is one value; Text is how it is written, empty where there is none.
type Field struct {
	Value float64
	Text  string
}

const (
	fieldHeight = 34
	// darkest is the opacity of the largest value, on which ink can be read.
	darkest = 0.6
)

// SVG is the map for a width in pixels.
func (h Heat) SVG(width int) string {
	w := float64(width)
	left := textWidth(h.Rows)
	for _, n := range h.RowNames {
		left = max(left, textWidth(n))
	}
	left = min(left+18, w/3)
	const top = 42
	columnWidth := (w - left) / float64(max(1, len(h.ColumnNames)))
	var b canvas
	b.open(h.Title, h.Desc, w, top+fieldHeight*float64(len(h.RowNames))+6, "heat")
	b.text(w, 12, "end", "axis", h.Columns)
	b.text(0, 32, "start", "axis", h.Rows)
	for j, n := range h.ColumnNames {
		b.text(left+columnWidth*(float64(j)+0.5), 32, "middle", "tick", fitting(n, columnWidth))
	}
	low, high := h.bounds()
	for i, row := range h.Fields[:min(len(h.Fields), len(h.RowNames))] {
		y := top + fieldHeight*float64(i)
		b.text(left-8, y+fieldHeight/2+4, "end", "tick", fitting(h.RowNames[i], left-8))
		for j, f := range row[:min(len(row), len(h.ColumnNames))] {
			x := left + columnWidth*float64(j)
			if f.Text == "" || !isFinite(f.Value) {
				continue
			}
			title := escape(fmt.Sprintf("%s %s, %s %s: %s", h.Rows, h.RowNames[i], h.Columns, h.ColumnNames[j], f.Text))
			b.addf(`<rect class="heat" x="%s" y="%s" width="%s" height="%d" fill-opacity="%s"><title>%s</title></rect>`,
				num(x+1), num(y+1), num(columnWidth-2), fieldHeight-2, opacity(f.Value, low, high), title)
			b.text(x+columnWidth/2, y+fieldHeight/2+4, "middle", "field", fitting(f.Text, columnWidth))
		}
	}
	return b.close()
}

// bounds are the least and the largest value that is drawn.
func (h Heat) bounds() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, row := range h.Fields {
		for _, f := range row {
			if f.Text != "" && isFinite(f.Value) {
				low, high = min(low, f.Value), max(high, f.Value)
			}
		}
	}
	return low, high
}

func opacity(v, low, high float64) string {
	share := 1.0
	if high > low {
		share = (v - low) / (high - low)
	}
	return fmt.Sprintf("%.2f", 0.06+(darkest-0.06)*share)
}

// fitting cuts a text to a width.
func fitting(text string, width float64) string {
	runes := []rune(text)
	if most := int(width / charWidth); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}
