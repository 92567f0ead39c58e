package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

const (
	shownClasses = 10
	shownLoaders = 5
	// worthALine is 0.1 MiB, rounded.
	worthALine = MiB / 20
)

// addAsked adds what the JVM answered, apart from the rows: none of it is
// resident memory by page, and it says so.
func addAsked(d *document.Document, a *footprint.Asked) {
	if a == nil {
		return
	}
	addTracking(d, a.Tracking)
	addHistogram(d, a.Classes)
	if m := a.Metaspace; m != nil {
		d.Add(paragraph(fmt.Sprintf("metaspace: %s of %s committed hold nothing", inMiB(m.WasteBytes), Size(m.CommittedBytes))))
	}
	addLoaders(d, a.Loaders)
}

func subheading(format string, a ...any) document.Heading {
	return document.Heading{Text: document.Plain(fmt.Sprintf(format, a...)), Sub: true}
}

func addTracking(d *document.Document, t *footprint.Tracking) {
	if t == nil {
		return
	}
	table := document.Table{Columns: document.Columns("MiB", ">committed", ">reserved", ">by malloc")}
	add := func(c footprint.TrackedCategory) {
		table.Row(document.Cells(fitIn(c.Name, 26), inMiB(c.CommittedBytes), inMiB(c.ReservedBytes), inMiB(c.MallocBytes))...)
	}
	rows := slices.Clone(t.Categories)
	slices.SortStableFunc(rows, func(a, b footprint.TrackedCategory) int { return cmp.Compare(b.CommittedBytes, a.CommittedBytes) })
	rest := footprint.TrackedCategory{Name: "less than 1 MiB each"}
	for _, c := range rows {
		if c.CommittedBytes >= smallPart {
			add(c)
			continue
		}
		rest.CommittedBytes += c.CommittedBytes
		rest.ReservedBytes += c.ReservedBytes
		rest.MallocBytes += c.MallocBytes
	}
	add(rest)
	d.Add(subheading("native memory tracking (%s): what the JVM asked for, resident or not", linux.PrintableName(t.Level)), table)
}

func addHistogram(d *document.Document, h *footprint.ClassHistogram) {
	if h == nil {
		return
	}
	t := document.Table{Columns: document.Columns(">MiB", ">objects", "class")}
	for _, c := range h.Largest[:min(len(h.Largest), shownClasses)] {
		if c.Bytes < worthALine {
			break // they are in order
		}
		t.Row(document.Cells(inMiB(c.Bytes), fmt.Sprint(c.Instances), fitIn(className(c.Name), 55))...)
	}
	d.Add(subheading("objects in the heap, live or not: %d, %s", h.Instances, Size(h.Bytes)), t)
}

func addLoaders(d *document.Document, l *footprint.LoaderUse) {
	if l == nil {
		return
	}
	t := document.Table{Columns: document.Columns(">metaspace", ">classes", ">loaders", "type")}
	for _, c := range l.Largest[:min(len(l.Largest), shownLoaders)] {
		if c.MetaspaceBytes < worthALine {
			break
		}
		t.Row(document.Cells(inMiB(c.MetaspaceBytes), fmt.Sprint(c.Classes), fmt.Sprint(c.Loaders), fitIn(c.Type, 46))...)
	}
	d.Add(subheading("class loaders: %d with %d classes", l.Loaders, l.Classes), t)
}

// fitIn makes a text that a JVM wrote fit its column. Of one that is too long,
// the end stays: it tells more.
func fitIn(text string, width int) string {
	r := []rune(linux.Printable(text))
	if len(r) <= width {
		return string(r)
	}
	return "…" + string(r[len(r)-width+1:])
}

// primitives are the types of the elements of arrays by their letters (Java
// Virtual Machine Specification, 4.3.2).
var primitives = map[string]string{
	"B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean",
}

// className turns "[B" into "byte[]", and "[Ljava.lang.String;" into
// "java.lang.String[]".
func className(name string) string {
	element := strings.TrimLeft(name, "[")
	dimensions := len(name) - len(element)
	if dimensions == 0 {
		return name
	}
	if p, ok := primitives[element]; ok {
		element = p
	} else {
		element = strings.TrimSuffix(strings.TrimPrefix(element, "L"), ";")
	}
	return element + strings.Repeat("[]", dimensions)
}

// partRows are the rows below a row: its parts that are worth one, what of it is
// in huge pages or swapped out, and what the JVM says is in use.
func partRows(f *footprint.Footprint, r footprint.Row) []document.Row {
	var out []document.Row
	add := func(name string, bytes int64, known string) {
		out = append(out, document.Row{Cells: document.Cells(fitIn(name, 19), inMiB(bytes), "", "", known), Depth: 1})
	}
	for _, c := range shown(r) {
		known := ""
		if c.How != "" && c.How != r.How {
			known = string(c.How)
		}
		add(c.Name, c.ResidentBytes, known)
	}
	if r.HugeBytes >= smallPart {
		add("in huge pages", r.HugeBytes, "")
	}
	if r.SwapBytes >= smallPart/10 {
		add("swapped out", r.SwapBytes, "not resident")
	}
	if a := f.Asked; a != nil {
		if r.Owner == footprint.JavaHeap && a.HeapUsedBytes != nil {
			add("in use", *a.HeapUsedBytes, "asked")
		}
		if r.Owner == footprint.CodeCache && a.CodeUsedBytes != nil {
			add("in use", *a.CodeUsedBytes, "asked")
		}
	}
	return out
}
