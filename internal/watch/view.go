package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
)

const (
	nameWidth = 20 // of an owner or a part
	rowWidth  = 2 + nameWidth + 10 + 13 + 11
	maxParts  = 12 // lines for parts of rows
	maxChart  = 5  // lines of one chart
)

// Picture is the screen as text, of at most as many lines and columns as the
// terminal has: the JVM, its rows, the history of its Rss and of what the
// limit sees. Where there is little room, first the charts give way, then the
// smallest rows; where there is much, rows show the parts that changed, and
// charts grow.
func (m Model) Picture() string {
	head, table, foot := m.head(), m.table(), m.foot()
	room := m.height - len(head) - len(foot)
	spare := room - table.least() - len(m.charts(1))
	parts := table.keepParts(max(min(spare, maxParts), 0))
	var charts []string
	if spare >= 0 {
		charts = m.charts(min(1+(spare-parts)/2, maxChart))
	}
	lines := slices.Concat(head, table.lines(room-len(charts)), charts, foot)
	lines = lines[:min(len(lines), max(m.height, 1))]
	for i, l := range lines {
		lines[i] = ansi.Truncate(strings.TrimRight(l, " "), max(m.width, 1), "…")
	}
	return strings.Join(lines, "\n")
}

// head says which JVM it is, and how it is watched.
func (m Model) head() []string {
	f := m.shown.last
	state := fmt.Sprintf("%d threads · watched for %s", f.Threads, f.Time.Sub(m.shown.first.Time).Round(time.Second))
	if m.interval > 0 {
		state += fmt.Sprintf(", every %s", m.interval)
	}
	switch {
	case m.ended != "":
		state += " · " + m.style.Strong(m.ended)
	case m.paused:
		state += " · " + m.style.Strong("paused")
	}
	now := f.Time.Format("15:04:05")
	name := ansi.Truncate(title(f), max(m.width-len(now)-2, 1), "…")
	gap := max(m.width-ansi.StringWidth(name)-len(now), 2)
	return []string{m.style.Strong(name) + strings.Repeat(" ", gap) + now, state, ""}
}

// foot says where the record is, and the keys.
func (m Model) foot() []string {
	var parts []string
	if m.record != "" {
		parts = append(parts, fmt.Sprintf("%d lines recorded in %s", m.live.count, linux.Printable(m.record)))
	}
	if !m.done {
		parts = append(parts, "q quit · p pause")
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{m.style.Faint(strings.Join(parts, " · "))}
}

// table is the rows with their header and their sum.
type table struct {
	header, sum string
	rows        []tableRow // the largest first
}

type tableRow struct {
	text  string
	parts []string
}

// table shows the rows, and the parts of rows that changed.
func (m Model) table() table {
	p := m.shown
	start := report.Compare("", p.first, "", p.last)
	last := report.Compare("", p.before, "", p.last)
	t := table{
		header: m.style.Faint(fmt.Sprintf("  %-*s%10s%13s%11s", nameWidth, "MiB", "resident", "since start", "last tick")),
		sum:    m.style.Strong(row("= Rss", p.last.RSSBytes, start.ChangeBytes, last.ChangeBytes)),
	}
	slices.SortFunc(start.Rows, func(a, b report.DiffRow) int {
		return cmp.Or(cmp.Compare(b.BBytes, a.BBytes), cmp.Compare(a.Name, b.Name))
	})
	for _, r := range start.Rows {
		o := footprint.Owner(r.Name)
		tick := named(last.Rows, r.Name)
		history := p.values(func(pt point) int64 { return pt.rows[o] })
		tr := tableRow{text: row(report.OwnerName(o), r.BBytes, r.ChangeBytes, tick.ChangeBytes) +
			"  " + sparkline(history, m.width-rowWidth-2)}
		for _, c := range r.Children {
			if c.Large() {
				tr.parts = append(tr.parts, row("  "+c.Name, c.BBytes, c.ChangeBytes, named(tick.Children, c.Name).ChangeBytes))
			}
		}
		t.rows = append(t.rows, tr)
	}
	return t
}

// row is a line of the table.
func row(name string, now, sinceStart, lastTick int64) string {
	name = ansi.Truncate(linux.Printable(name), nameWidth, "…")
	name += strings.Repeat(" ", nameWidth-ansi.StringWidth(name))
	return fmt.Sprintf("  %s%10s%13s%11s", name, mib(now), changed(sinceStart), changed(lastTick))
}

// changed is a change, or a dot where it rounds to nothing.
func changed(bytes int64) string {
	if text := report.Signed(bytes); text != "0.0" {
		return text
	}
	return "·"
}

// named is the change of a name; what is not listed did not change.
func named(rows []report.DiffRow, name string) report.DiffRow {
	for _, r := range rows {
		if r.Name == name {
			return r
		}
	}
	return report.DiffRow{}
}

// least is how many lines the table takes without any parts.
func (t *table) least() int { return len(t.rows) + 2 }

// keepParts keeps the first n parts and returns how many there are.
func (t *table) keepParts(n int) (kept int) {
	for i := range t.rows {
		r := &t.rows[i]
		r.parts = r.parts[:min(len(r.parts), n-kept)]
		kept += len(r.parts)
	}
	return kept
}

// lines are at most n lines; rows that find no place are counted.
func (t *table) lines(n int) []string {
	out := []string{t.header}
	for i, r := range t.rows {
		if t.least() > n && len(out) >= n-2 {
			out = append(out, fmt.Sprintf("  … %d smaller rows", len(t.rows)-i))
			break
		}
		out = append(append(out, r.text), r.parts...)
	}
	return append(out, t.sum)
}

// charts show the Rss and what the limit sees, each in so many lines.
func (m Model) charts(height int) []string {
	p := m.shown
	width := m.width - 4
	rss := p.values(func(pt point) int64 { return pt.rss })
	lo, hi := extent(rss, width)
	out := []string{"", fmt.Sprintf("  Rss       %s to %s", mib(lo), mib(hi))}
	out = append(out, indented(scaled(rss, width, height))...)
	c := p.last.Cgroup
	if c == nil {
		return out
	}
	usage := p.values(func(pt point) int64 { return pt.usage })
	if c.LimitBytes == nil {
		out = append(out, fmt.Sprintf("  group     %s used, no limit", mib(c.UsageBytes)))
		return append(out, indented(scaled(usage, width, height))...)
	}
	out = append(out, m.limit(c))
	return append(out, indented(chart(usage, 0, *c.LimitBytes, width, height))...)
}

// tight is the share of the limit below which the headroom is shown in red.
const tight = 0.1

func (m Model) limit(c *footprint.Cgroup) string {
	headroom := "headroom " + mib(*c.HeadroomBytes)
	if float64(*c.HeadroomBytes) < tight*float64(*c.LimitBytes) {
		headroom = m.style.Bad(headroom)
	}
	return fmt.Sprintf("  limit     %s of %s used, %s, of it %s page cache",
		mib(c.UsageBytes), mib(*c.LimitBytes), headroom, mib(c.ReclaimableBytes))
}

func indented(lines []string) []string {
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}
