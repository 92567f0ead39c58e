package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
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

// Compare finds what changed from a to b. fromA and fromB name what they were
// read from: a file or a JVM.
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

// partial says that the parts of a part are a choice of the largest: one that is
// missing there is not gone.
func partial(c footprint.Child) bool { return c.ID == footprint.PartLargestThreads }

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
	for _, c := range slices.DeleteFunc(slices.Clone(a), partial) {
		p := at(c.Name)
		p.a += c.ResidentBytes
		p.inA = append(p.inA, c.Children...)
	}
	for _, c := range slices.DeleteFunc(slices.Clone(b), partial) {
		p := at(c.Name)
		p.b += c.ResidentBytes
		p.inB = append(p.inB, c.Children...)
	}
	var out []DiffRow
	for name, p := range pairs {
		if p.a != p.b {
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

// Large says that a part changed by at least 256 KiB: enough to be shown.
func (r DiffRow) Large() bool { return magnitude(r.ChangeBytes) >= 256<<10 }

// Document shows a diff: what was compared, what changed in MiB, and the sum.
func (d *Diff) Document() *document.Document {
	doc := &document.Document{}
	doc.Add(document.Items{Items: []document.Item{sideItem("A", d.A, d.A.Time.Format(time.DateTime)), sideItem("B", d.B, apart(d.ApartSeconds))}})
	for _, n := range d.Warnings {
		doc.Add(note(n))
	}
	t := document.Table{Columns: document.Columns("MiB", ">A", ">B", ">change")}
	for _, r := range d.Rows {
		if r.ABytes != 0 || r.BBytes != 0 {
			addChange(&t, 0, OwnerName(footprint.Owner(r.Name)), r)
		}
	}
	addChange(&t, 0, "= Rss", DiffRow{ABytes: d.A.RSSBytes, BBytes: d.B.RSSBytes, ChangeBytes: d.ChangeBytes})
	t.Rows[len(t.Rows)-1].Total = true
	addLimitChange(&t, d.A.Cgroup, d.B.Cgroup)
	doc.Add(t)
	return doc
}

// sideItem says what was compared.
func sideItem(letter string, s Side, when string) document.Item {
	jvm := fmt.Sprintf("java %s %s · pid %d · %s · %d threads", known(s.JDK), known(s.Collector), s.PID, linux.PrintableName(s.Name), s.Threads)
	return document.Item{Marks: []document.Text{document.Plain(letter)}, Title: document.Plain(s.From + ", " + when), Details: []document.Detail{{Text: document.Plain(jvm)}}}
}

func apart(seconds float64) string {
	const longest = float64(math.MaxInt64 / int64(time.Second))
	d := time.Duration(max(min(seconds, longest), -longest) * float64(time.Second))
	if d < 0 {
		return Duration(-d) + " earlier"
	}
	return Duration(d) + " later"
}

// addLimitChange says what the memory limit saw in A and in B.
func addLimitChange(t *document.Table, a, b *footprint.Cgroup) {
	if a == nil || b == nil {
		return
	}
	between := func(name string, inA, inB int64) {
		addChange(t, 0, name, DiffRow{ABytes: inA, BBytes: inB, ChangeBytes: inB - inA})
	}
	between("the limit sees", a.UsageBytes, b.UsageBytes)
	if a.LimitBytes != nil && b.LimitBytes != nil {
		between("headroom", *a.HeadroomBytes, *b.HeadroomBytes)
		if *a.LimitBytes != *b.LimitBytes {
			between("limit", *a.LimitBytes, *b.LimitBytes)
		}
	}
}

// addChange adds a row, and below it its parts.
func addChange(t *document.Table, depth int, name string, c DiffRow) {
	const nameWidth, deepest = 33, 3 // names with their indent fit a terminal
	name = middleCut(linux.Printable(name), nameWidth-2*depth)
	t.Rows = append(t.Rows, document.Row{Cells: document.Cells(name, inMiB(c.ABytes), inMiB(c.BBytes), Signed(c.ChangeBytes)), Depth: depth})
	if depth == deepest {
		return
	}
	for _, child := range c.Children {
		if child.Large() {
			addChange(t, depth+1, child.Name, child)
		}
	}
}

// OwnerName is what people call an owner. An owner that this version does not
// know, of a file that a later one wrote, keeps its name in JSON.
func OwnerName(o footprint.Owner) string {
	if name, ok := ownerNames[o]; ok {
		return name
	}
	return string(o)
}

// Signed is a change of so many bytes in MiB, with its sign and without the
// unit: "+3.0". A change that rounds to nothing is "0.0".
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
