package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tare/internal/footprint"
	"tare/internal/linux"
)

// DiffSchema names the JSON form of a Diff. Fields may be added; none changes
// its meaning.
const DiffSchema = "tare.diff/1"

// Diff is what changed from footprint A to footprint B. The changes of the
// rows add up to ChangeBytes exactly.
type Diff struct {
	Schema string `json:"schema"`
	A      Side   `json:"a"`
	B      Side   `json:"b"`
	// ApartSeconds is how much later B was weighed; negative when earlier.
	ApartSeconds float64 `json:"apartSeconds"`
	// ChangeBytes is the difference of the Rss.
	ChangeBytes int64 `json:"changeBytes"`
	// Rows are the owners that A or B has, the largest change first.
	Rows []DiffRow `json:"rows"`
	// Warnings say why the two may not be comparable.
	Warnings []string `json:"warnings"`
}

// Side is one of the two footprints, without its rows.
type Side struct {
	From      string            `json:"from"` // file, or the name of a live JVM
	PID       int               `json:"pid"`
	Name      string            `json:"name"`
	JDK       string            `json:"jdk"`
	Collector string            `json:"collector"`
	Threads   int               `json:"threads"`
	Classes   int64             `json:"classes"`
	Time      time.Time         `json:"time"`
	RSSBytes  int64             `json:"rssBytes"`
	Cgroup    *footprint.Cgroup `json:"cgroup"`
}

// DiffRow is what an owner, or a part of one, has in A and in B.
type DiffRow struct {
	// Name is the owner, or the name of the part.
	Name        string `json:"name"`
	ABytes      int64  `json:"aBytes"`
	BBytes      int64  `json:"bBytes"`
	ChangeBytes int64  `json:"changeBytes"`
	// Children are the parts that changed, the largest change first; they
	// need not add up.
	Children []DiffRow `json:"children,omitempty"`
}

// Compare finds what changed from a to b; fromA and fromB say where they come
// from.
func Compare(fromA string, a *footprint.Footprint, fromB string, b *footprint.Footprint) *Diff {
	d := &Diff{
		Schema: DiffSchema, A: side(fromA, a), B: side(fromB, b),
		ApartSeconds: b.Time.Sub(a.Time).Round(time.Millisecond).Seconds(),
		ChangeBytes:  b.RSSBytes - a.RSSBytes,
		Rows:         compareRows(a, b), Warnings: doubts(a, b),
	}
	return d
}

func side(from string, f *footprint.Footprint) Side {
	return Side{
		From: from, PID: f.PID, Name: f.Name, JDK: f.JDK, Collector: f.Collector,
		Threads: f.Threads, Classes: f.Classes, Time: f.Time, RSSBytes: f.RSSBytes, Cgroup: f.Cgroup,
	}
}

func compareRows(a, b *footprint.Footprint) []DiffRow {
	rows := []DiffRow{}
	add := func(o footprint.Owner) {
		inA, _ := a.Row(o)
		inB, _ := b.Row(o)
		c := DiffRow{Name: string(o), ABytes: inA.ResidentBytes, BBytes: inB.ResidentBytes}
		c.ChangeBytes = c.BBytes - c.ABytes
		c.Children = compareChildren(inA.Children, inB.Children)
		rows = append(rows, c)
	}
	for _, r := range a.Rows {
		add(r.Owner)
	}
	for _, r := range b.Rows {
		if _, ok := a.Row(r.Owner); !ok {
			add(r.Owner)
		}
	}
	largestFirst(rows)
	return rows
}

// partial are parts whose own parts are a choice of the largest: one that is
// missing there is not gone.
var partial = map[string]bool{"largest by thread": true}

// compareChildren compares parts by name. Parts of one name are added up.
func compareChildren(a, b []footprint.Child) []DiffRow {
	type pair struct {
		a, b     int64
		inA, inB []footprint.Child
	}
	pairs := map[string]*pair{}
	at := func(name string) *pair {
		if pairs[name] == nil {
			pairs[name] = &pair{}
		}
		return pairs[name]
	}
	for _, c := range a {
		p := at(c.Name)
		p.a += c.ResidentBytes
		p.inA = append(p.inA, c.Children...)
	}
	for _, c := range b {
		p := at(c.Name)
		p.b += c.ResidentBytes
		p.inB = append(p.inB, c.Children...)
	}
	var out []DiffRow
	for name, p := range pairs {
		if p.a != p.b && !partial[name] {
			out = append(out, DiffRow{name, p.a, p.b, p.b - p.a, compareChildren(p.inA, p.inB)})
		}
	}
	largestFirst(out)
	return out
}

func largestFirst(c []DiffRow) {
	slices.SortStableFunc(c, func(a, b DiffRow) int {
		return cmp.Or(cmp.Compare(magnitude(b.ChangeBytes), magnitude(a.ChangeBytes)),
			cmp.Compare(b.BBytes, a.BBytes), cmp.Compare(a.Name, b.Name))
	})
}

func magnitude(n int64) int64 {
	if n < 0 {
		return -max(n, -math.MaxInt64)
	}
	return n
}

// doubts are reasons why a difference may not mean what it seems to.
func doubts(a, b *footprint.Footprint) []string {
	out := []string{}
	differ := func(what, inA, inB string) {
		if inA != inB {
			out = append(out, fmt.Sprintf("different %s: %s and %s", what, known(inA), known(inB)))
		}
	}
	if a.PID != b.PID || a.Name != b.Name {
		out = append(out, fmt.Sprintf("different JVMs: process %d (%s) and process %d (%s)", a.PID, a.Name, b.PID, b.Name))
	}
	differ("JDKs", a.JDK, b.JDK)
	differ("collectors", a.Collector, b.Collector)
	if asked(a) != asked(b) {
		out = append(out, "only one of them was weighed with --attach: rows are told apart in different ways")
	}
	if b.Time.Before(a.Time) {
		out = append(out, "B was weighed before A")
	}
	for _, s := range []struct {
		name string
		f    *footprint.Footprint
	}{{"A", a}, {"B", b}} {
		for _, w := range s.f.Warnings {
			out = append(out, s.name+": "+w)
		}
	}
	return out
}

// asked says whether the JVM was asked for its native memory tracking.
func asked(f *footprint.Footprint) bool {
	return slices.ContainsFunc(f.Sources, func(s footprint.Source) bool {
		return s.Name == footprint.SourceTracking && s.Error == nil
	})
}

// Large says that a part changed enough to be shown to people.
func (r DiffRow) Large() bool { return magnitude(r.ChangeBytes) >= 256<<10 }

// DiffText writes a diff for people: what was compared, what changed in MiB,
// and the sum.
func DiffText(w io.Writer, d *Diff) error {
	p := &printer{w: w}
	p.side("A", d.A, d.A.Time.Format(time.DateTime))
	p.side("B", d.B, apart(d.ApartSeconds))
	for _, n := range d.Warnings {
		p.note(linux.Printable(n))
	}
	p.line("")
	p.line("  %-33s %10s %10s %10s", "MiB", "A", "B", "change")
	for _, r := range d.Rows {
		if r.ABytes != 0 || r.BBytes != 0 {
			p.change(1, OwnerName(footprint.Owner(r.Name)), r)
		}
	}
	p.line("  %s", strings.Repeat("─", 66))
	p.change(1, "= Rss", DiffRow{ABytes: d.A.RSSBytes, BBytes: d.B.RSSBytes, ChangeBytes: d.ChangeBytes})
	p.limitChange(d.A.Cgroup, d.B.Cgroup)
	return p.err
}

// side says what was compared.
func (p *printer) side(letter string, s Side, when string) {
	p.line("%s  %s, %s", letter, linux.Printable(s.From), when)
	p.line("   java %s %s · pid %d · %s · %d threads", linux.PrintableName(known(s.JDK)), linux.PrintableName(known(s.Collector)),
		s.PID, linux.PrintableName(s.Name), s.Threads)
}

func apart(seconds float64) string {
	const longest = float64(math.MaxInt64 / int64(time.Second))
	d := time.Duration(max(min(seconds, longest), -longest) * float64(time.Second))
	if d < 0 {
		return Duration(-d) + " earlier"
	}
	return Duration(d) + " later"
}

// limitChange says what the memory limit saw in A and in B.
func (p *printer) limitChange(a, b *footprint.Cgroup) {
	if a == nil || b == nil {
		return
	}
	between := func(name string, inA, inB int64) {
		p.change(1, name, DiffRow{ABytes: inA, BBytes: inB, ChangeBytes: inB - inA})
	}
	p.line("")
	between("the limit sees", a.UsageBytes, b.UsageBytes)
	if a.LimitBytes != nil && b.LimitBytes != nil {
		between("headroom", *a.HeadroomBytes, *b.HeadroomBytes)
		if *a.LimitBytes != *b.LimitBytes {
			between("limit", *a.LimitBytes, *b.LimitBytes)
		}
	}
}

// change writes a row, and below it its parts.
func (p *printer) change(depth int, name string, c DiffRow) {
	const nameWidth = 35 // with the indent
	indent := strings.Repeat("  ", depth)
	name = pad(middleCut(linux.Printable(name), nameWidth-len(indent)), nameWidth-len(indent))
	p.line("%s%s %10s %10s %10s", indent, name, inMiB(c.ABytes), inMiB(c.BBytes), Signed(c.ChangeBytes))
	if depth == 4 {
		return
	}
	for _, child := range c.Children {
		if child.Large() {
			p.change(depth+1, child.Name, child)
		}
	}
}

// OwnerName is what people call an owner; one of a later version is called by
// its name in JSON.
func OwnerName(o footprint.Owner) string {
	if name, ok := ownerNames[o]; ok {
		return name
	}
	return string(o)
}

// Signed is a change in MiB, with its sign and without the unit: "+3.0". One
// that rounds to nothing is "0.0".
func Signed(bytes int64) string {
	text := inMiB(magnitude(bytes))
	switch {
	case text == "0.0":
		return text
	case bytes < 0:
		return "-" + text
	}
	return "+" + text
}

// middleCut cuts a text to so many characters; the end of a name, such as that
// of a file with its version, tells more than its middle.
func middleCut(text string, width int) string {
	r := []rune(text)
	if len(r) <= width || width < 3 {
		return text
	}
	head := (width - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(width-1-head):])
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-len([]rune(text)), 0))
}
