package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tare/internal/footprint"
)

const (
	shownClasses = 10
	shownLoaders = 5
	// worthALine is 0.1 MiB, rounded.
	worthALine = MiB / 20
)

// asked writes what the JVM answered beside the table: none of it is resident
// memory by page, and it says so.
func (p *printer) asked(a *footprint.Asked) {
	if a == nil {
		return
	}
	p.tracking(a.Tracking)
	p.histogram(a.Classes)
	if m := a.Metaspace; m != nil {
		p.line("")
		p.line("  metaspace: %s of %s committed hold nothing", inMiB(m.WasteBytes), Size(m.CommittedBytes))
	}
	p.loaders(a.Loaders)
}

func (p *printer) tracking(t *footprint.Tracking) {
	if t == nil {
		return
	}
	p.line("")
	p.line("  native memory tracking (%s): what the JVM asked for, resident or not", t.Level)
	p.line("  %-28s %9s %9s %9s", "MiB", "committed", "reserved", "by malloc")
	rows := slices.Clone(t.Categories)
	slices.SortStableFunc(rows, func(a, b footprint.TrackedCategory) int { return cmp.Compare(b.CommittedBytes, a.CommittedBytes) })
	var rest footprint.TrackedCategory
	for _, c := range rows {
		if c.CommittedBytes >= smallPart {
			p.category(c)
			continue
		}
		rest.CommittedBytes += c.CommittedBytes
		rest.ReservedBytes += c.ReservedBytes
		rest.MallocBytes += c.MallocBytes
	}
	rest.Name = "less than 1 MiB each"
	p.category(rest)
}

func (p *printer) category(c footprint.TrackedCategory) {
	p.line("    %-26s %9s %9s %9s", fitIn(c.Name, 26), inMiB(c.CommittedBytes), inMiB(c.ReservedBytes), inMiB(c.MallocBytes))
}

func (p *printer) histogram(h *footprint.ClassHistogram) {
	if h == nil {
		return
	}
	p.line("")
	p.line("  objects in the heap, live or not: %d, %s", h.Instances, Size(h.Bytes))
	p.line("  %10s %10s  %s", "MiB", "objects", "class")
	for _, c := range h.Largest[:min(len(h.Largest), shownClasses)] {
		if c.Bytes < worthALine {
			break // they are in order
		}
		p.line("  %10s %10d  %s", inMiB(c.Bytes), c.Instances, fitIn(className(c.Name), 55))
	}
}

func (p *printer) loaders(l *footprint.LoaderUse) {
	if l == nil {
		return
	}
	p.line("")
	p.line("  class loaders: %d with %d classes", l.Loaders, l.Classes)
	p.line("  %10s %10s %8s  %s", "metaspace", "classes", "loaders", "type")
	for _, t := range l.Largest[:min(len(l.Largest), shownLoaders)] {
		if t.MetaspaceBytes < worthALine {
			break
		}
		p.line("  %10s %10d %8d  %s", inMiB(t.MetaspaceBytes), t.Classes, t.Loaders, fitIn(t.Type, 46))
	}
}

// fitIn shortens text that is too long for its column: what it ends with tells
// more.
func fitIn(text string, width int) string {
	r := []rune(text)
	if len(r) <= width {
		return text
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

// partLines are the lines below a row: its parts that are worth one, what of it
// is in huge pages or swapped out, and what the JVM says is in use.
func partLines(f *footprint.Footprint, r footprint.Row) []string {
	var out []string
	add := func(name string, bytes int64, known string) {
		line := fmt.Sprintf("    %-19s %6s%22s%s", fitIn(name, 19), inMiB(bytes), "", known)
		out = append(out, strings.TrimRight(line, " "))
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
