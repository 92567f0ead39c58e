package document

import (
	"image/color"
	"os"

	"charm.land/lipgloss/v2"
	"golang.org/x/sys/unix"
)

// Style colours text on a terminal; the zero Style leaves it plain.
type Style struct{ color bool }

// StyleFor is the style for a file: coloured when it is a terminal that can,
// and NO_COLOR is unset (https://no-color.org).
func StyleFor(f *os.File) Style {
	return Style{color: IsTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// IsTerminal tells whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	_, err = unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Strong makes text stand out.
func (s Style) Strong(text string) string { return s.render(text, lipgloss.NewStyle().Bold(true)) }

// Good is for what passed.
func (s Style) Good(text string) string { return s.foreground(text, lipgloss.Green) }

// Bad is for what failed.
func (s Style) Bad(text string) string { return s.foreground(text, lipgloss.Red) }

// Faint is for what matters less.
func (s Style) Faint(text string) string { return s.render(text, lipgloss.NewStyle().Faint(true)) }

func (s Style) tone(text string, t tone) string {
	switch t {
	case strong:
		return s.Strong(text)
	case good:
		return s.Good(text)
	case bad:
		return s.Bad(text)
	case faint:
		return s.Faint(text)
	}
	return text
}

func (s Style) foreground(text string, c color.Color) string {
	return s.render(text, lipgloss.NewStyle().Foreground(c))
}

func (s Style) render(text string, style lipgloss.Style) string {
	if !s.color || text == "" {
		return text
	}
	return style.Render(text)
}
