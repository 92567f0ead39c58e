package report

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// Limit is a limit in MiB, without a decimal when it is whole: "166 MiB".
func Limit(n int64) string {
	if n%MiB == 0 {
		return strconv.FormatInt(n/MiB, 10) + " MiB"
	}
	return Size(n)
}

// Duration is a time with three digits or so: "812 ms", "2.7 s", "2 m 03 s".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 2, 64) + " ms"
	case d < 100*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	s := int64(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d m %02d s", s/60, s%60)
}

// Rate is a number of requests per second.
func Rate(perSecond float64) string {
	if perSecond < 100 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// Change is the change from a to b in percent: "-45 %", "+52 %"; "" when a is
// no base.
func Change(a, b float64) string {
	if a <= 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(b-a)/a)
}

// Style colours text; the zero Style leaves it plain. Nothing is said by
// colour alone.
type Style struct{ color bool }

// StyleFor is the style for a file: coloured when it is a terminal that can,
// and NO_COLOR is unset (https://no-color.org).
func StyleFor(f *os.File) Style {
	return Style{color: IsTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal tells whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && isTTY(f)
}

// Strong makes text stand out.
func (s Style) Strong(text string) string { return s.render(text, lipgloss.NewStyle().Bold(true)) }

// Good is for what passed.
func (s Style) Good(text string) string { return s.foreground(text, lipgloss.Green) }

// Bad is for what failed.
func (s Style) Bad(text string) string { return s.foreground(text, lipgloss.Red) }

// Faint is for what matters less.
func (s Style) Faint(text string) string { return s.render(text, lipgloss.NewStyle().Faint(true)) }

func (s Style) foreground(text string, c color.Color) string {
	return s.render(text, lipgloss.NewStyle().Foreground(c))
}

func (s Style) render(text string, style lipgloss.Style) string {
	if !s.color {
		return text
	}
	return style.Render(text)
}

// Align says where a column's text stands.
type Align bool

// The two alignments.
const (
	Left  Align = false
	Right Align = true
)

// Table writes rows as columns two spaces apart, each as wide as its widest
// cell. Cells may be styled. A row may be shorter than others; trailing space
// is cut.
func Table(w io.Writer, indent string, align []Align, rows [][]string) error {
	widths := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-lipgloss.Width(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if align[i] == Right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Wrap breaks text at spaces so that no line is wider than width, where words
// allow it.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// shellSafe needs no quotes in a POSIX shell.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// ShellQuote quotes a word for a POSIX shell.
func ShellQuote(word string) string {
	if word != "" && strings.Trim(word, shellSafe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ShellWords quotes and joins words.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellQuote(w)
	}
	return strings.Join(quoted, " ")
}
