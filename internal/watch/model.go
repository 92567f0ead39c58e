package watch

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

// maxPoints bounds the history: more than any screen is wide.
const maxPoints = 1024

// point is one footprint of the history, in bytes.
type point struct {
	rss, usage int64
	rows       map[footprint.Owner]int64
}

// picture is what a screen shows.
type picture struct {
	first, before, last *footprint.Footprint
	history             []point // the newest last
	count               int     // footprints so far
}

// add is the picture with one more footprint.
func (p picture) add(f *footprint.Footprint) picture {
	if p.first == nil {
		p.first, p.last = f, f
	}
	pt := point{rss: f.RSSBytes, rows: make(map[footprint.Owner]int64, len(f.Rows))}
	if f.Cgroup != nil {
		pt.usage = f.Cgroup.UsageBytes
	}
	for _, r := range f.Rows {
		pt.rows[r.Owner] = r.ResidentBytes
	}
	if len(p.history) == 2*maxPoints {
		p.history = slices.Clone(p.history[maxPoints:])
	}
	p.history = append(p.history, pt)
	p.before, p.last = p.last, f
	p.count++
	return p
}

// values is one number of each point of the history.
func (p picture) values(of func(point) int64) []int64 {
	out := make([]int64, len(p.history))
	for i, pt := range p.history {
		out[i] = of(pt)
	}
	return out
}

// Model is the state of the live screen. It is a value: Update returns the
// next one.
type Model struct {
	live, shown   picture // shown stays behind while paused
	paused        bool
	width, height int
	style         document.Style
	record        string // name of the record, "" is none
	interval      time.Duration
	next          tea.Cmd
	// done says that this is the last picture, ended how it came to that when
	// nobody asked for it, err why when it should not have.
	done  bool
	ended string
	err   error
}

// weighed is the message that a footprint was taken, or why not.
type weighed struct {
	footprint *footprint.Footprint
	err       error
}

// NewModel is a screen that shows a first footprint; next waits for the one
// after it. The record is the name of the file that the session records to,
// or empty.
func NewModel(first *footprint.Footprint, next func() (*footprint.Footprint, error), interval time.Duration, record string, style document.Style) Model {
	m := Model{
		live: picture{}.add(first), width: 80, height: 24,
		style: style, record: record, interval: interval,
		next: func() tea.Msg {
			f, err := next()
			return weighed{f, err}
		},
	}
	m.shown = m.live
	return m
}

// Init asks for the second footprint.
func (m Model) Init() tea.Cmd { return m.next }

// Update takes a footprint, a key or a new size of the terminal.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case weighed:
		return m.weighed(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m.end("", nil)
		case "ctrl+z":
			return m, tea.Suspend
		case "p", "space":
			m.paused = !m.paused
			m.shown = m.live
		}
	}
	return m, nil
}

func (m Model) weighed(msg weighed) (tea.Model, tea.Cmd) {
	switch {
	case msg.err == nil:
		m.live = m.live.add(msg.footprint)
		if !m.paused {
			m.shown = m.live
		}
		return m, m.next
	case errors.Is(msg.err, ErrEnded):
		return m.end("the JVM has ended", nil)
	case errors.Is(msg.err, io.EOF), errors.Is(msg.err, context.Canceled):
		return m.end("", nil)
	}
	return m.end("stopped by an error", msg.err)
}

// end leaves the last picture on the screen.
func (m Model) end(how string, err error) (tea.Model, tea.Cmd) {
	m.ended, m.err = how, err
	return m.last(), tea.Quit
}

// last is the model when nothing more will change.
func (m Model) last() Model {
	m.shown, m.paused, m.done = m.live, false, true
	return m
}

// View is the whole screen.
func (m Model) View() tea.View {
	v := tea.NewView(m.Picture())
	v.AltScreen = true
	v.WindowTitle = "tare watch " + linux.Printable(m.live.last.Name)
	return v
}
