package watch

import (
	"slices"
	"strings"
)

// blocks fill a cell from below, in eighths.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// chart draws the last width values as columns, height lines high, from the
// top line down. A value of lo or less shows as the lowest block, one of hi or
// more fills the column.
func chart(values []int64, lo, hi int64, width, height int) []string {
	if width < 1 || height < 1 {
		return nil
	}
	values = values[max(len(values)-width, 0):]
	lines := make([]string, height)
	for i := range lines {
		var b strings.Builder
		below := (height - 1 - i) * 8
		for _, v := range values {
			b.WriteRune(blocks[min(max(eighths(v, lo, hi, height)-below, 0), 8)])
		}
		lines[i] = b.String()
	}
	return lines
}

// eighths is how many eighths of a line a value is high: 1 to 8·height.
func eighths(v, lo, hi int64, height int) int {
	top := 8 * height
	switch {
	case v <= lo || hi <= lo:
		return 1
	case v >= hi:
		return top
	}
	return 1 + int((float64(v)-float64(lo))/(float64(hi)-float64(lo))*float64(top-1))
}

// extent is the range that the last width values take.
func extent(values []int64, width int) (lo, hi int64) {
	values = values[max(len(values)-max(width, 0), 0):]
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}

// flat is the smallest range that a chart spreads over its height: a smaller
// one is noise, and shows as a flat line in the middle.
const flat = 1 << 20

// scaled is a chart with the scale of its own values.
func scaled(values []int64, width, height int) []string {
	lo, hi := extent(values, width)
	pad := max(flat-(hi-lo), 0) / 2
	return chart(values, lo-pad, hi+pad, width, height)
}

// sparkline is a scaled chart of one line, or nothing where it would be too
// short to tell anything.
func sparkline(values []int64, width int) string {
	if width < 4 {
		return ""
	}
	return strings.Join(scaled(values, width, 1), "")
}
