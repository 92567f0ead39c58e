package report

import (
	"cmp"
	"fmt"
	"slices"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// ownerNames are what people call the owners.
var ownerNames = map[footprint.Owner]string{
	footprint.JavaHeap:     "Java heap",
	footprint.ClassSpace:   "Class space",
	footprint.Metaspace:    "Metaspace",
	footprint.CodeCache:    "Code cache",
	footprint.ThreadStacks: "Thread stacks",
	footprint.GC:           "GC",
	footprint.CDS:          "CDS archive",
	footprint.Malloc:       "malloc",
	footprint.MappedFiles:  "Mapped files",
	footprint.JVMOther:     "JVM, other",
	footprint.Unattributed: "unattributed",
}

// Footprint shows a footprint: the whole first, then its parts, largest first,
// and what the limit sees.
func Footprint(f *footprint.Footprint) *document.Document {
	d := &document.Document{Title: fmt.Sprintf("%s · pid %d · %s · %s", jvmOf(f), f.PID, linux.PrintableName(f.Name), resident(f))}
	d.Add(footprintTable(f), paragraph(weighedIn(f)))
	addLimit(d, f.Cgroup)
	addAsked(d, f.Asked)
	for _, n := range f.Warnings {
		d.Add(note(n))
	}
	for _, s := range f.Sources {
		if s.Error != nil {
			d.Add(note(s.Name + " could not be read: " + *s.Error))
		}
	}
	return d
}

func paragraph(text string) document.Paragraph {
	return document.Paragraph{Text: document.Plain(text)}
}

func note(text string) document.Paragraph {
	return document.Paragraph{Text: document.Plain(text), Role: document.Note}
}

// footprintTable is the rows of a footprint in MiB, their parts, and the sum.
func footprintTable(f *footprint.Footprint) document.Table {
	t := document.Table{Columns: document.Columns("MiB", ">resident", ">committed", ">reserved", "known by")}
	for _, r := range byResident(f.Rows) {
		known := knownBy(r, cmp.Or(repeated(r, inMiB), remark(f, r)))
		t.Row(document.Cells(OwnerName(r.Owner), inMiB(r.ResidentBytes), promised(r.CommittedBytes), promised(r.ReservedBytes), known)...)
		t.Rows = append(t.Rows, partRows(f, r)...)
	}
	t.Rows = append(t.Rows, document.Row{Cells: document.Cells("= Rss", inMiB(f.RSSBytes)), Total: true})
	return t
}

// inMiB is a size in a table whose unit is named above it.
func inMiB(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/MiB) }

// shown are the parts of a row that its screen has room for: all are in the
// JSON.
func shown(r footprint.Row) []footprint.Child {
	parts := r.Children
	switch r.Owner {
	case footprint.ThreadStacks:
		parts = nestedIn(parts, footprint.PartLargestThreads)
		parts = parts[:min(len(parts), shownThreads)]
	case footprint.Malloc:
		tracked := nestedIn(parts, footprint.PartTracked)
		parts = slices.DeleteFunc(slices.Clone(parts), func(c footprint.Child) bool { return c.ID == footprint.PartTracked })
		parts = append(parts, tracked...)
	case footprint.CDS:
		if len(parts) == 1 { // the row says it already
			parts = nil
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(c footprint.Child) bool { return c.ResidentBytes < smallPart })
}

// shownThreads is how many of the largest stacks are shown.
const shownThreads = 3

// nestedIn are the parts of a part.
func nestedIn(parts []footprint.Child, id string) []footprint.Child {
	for _, c := range parts {
		if c.ID == id {
			return c.Children
		}
	}
	return nil
}

// smallPart is the size from which a part is worth a line.
const smallPart = MiB

// weighedIn says how long the weighing took, and what it did to the JVM.
func weighedIn(f *footprint.Footprint) string {
	sent := "nothing was sent to the JVM"
	if a := f.Asked; a != nil {
		sent = "the JVM was asked"
		if a.Classes != nil || a.Metaspace != nil || a.Loaders != nil {
			sent += ", and stopped meanwhile"
		}
	}
	return fmt.Sprintf("weighed in %.0f ms, %s", f.Millis, sent)
}

// jvmOf names the JVM: its version and collector, or its kind when it is none
// that tells them.
func jvmOf(f *footprint.Footprint) string {
	if f.VM != "" && f.VM != string(process.HotSpot) {
		return linux.PrintableName(f.VM)
	}
	return fmt.Sprintf("java %s %s", known(f.JDK), known(f.Collector))
}

func known(s string) string {
	if s == "" {
		return "?"
	}
	return linux.PrintableName(s)
}

func resident(f *footprint.Footprint) string {
	if f.Cgroup != nil && f.Cgroup.LimitBytes != nil {
		return Size(f.RSSBytes) + " resident, limit " + Size(*f.Cgroup.LimitBytes)
	}
	return Size(f.RSSBytes) + " resident"
}

func promised(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return inMiB(*bytes)
}

// byResident sorts the rows, largest first; the remainder stays last.
func byResident(rows []footprint.Row) []footprint.Row {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b footprint.Row) int {
		if a.Owner == footprint.Unattributed {
			return 1
		}
		if b.Owner == footprint.Unattributed {
			return -1
		}
		return cmp.Compare(b.ResidentBytes, a.ResidentBytes)
	})
	return out
}

// remark is what else a row says.
func remark(f *footprint.Footprint, r footprint.Row) string {
	switch r.Owner {
	case footprint.JavaHeap:
		if f.Heap != nil && f.Heap.AfterGCBytes > 0 {
			return inMiB(f.Heap.AfterGCBytes) + " after a GC"
		}
	case footprint.Malloc:
		if r.Allocator != "" {
			return "by " + r.Allocator
		}
		if r.Arenas > 0 {
			return fmt.Sprintf("%d arenas", r.Arenas)
		}
	case footprint.ThreadStacks:
		return fmt.Sprintf("%d threads", f.Threads)
	case footprint.CDS:
		if r.AnonymousBytes > 0 {
			return inMiB(r.AnonymousBytes) + " private"
		}
	case footprint.MappedFiles:
		return fmt.Sprintf("%d files", len(r.Children))
	case footprint.Unattributed:
		return fmt.Sprintf("%.2f %%", 100*float64(r.ResidentBytes)/float64(max(f.RSSBytes, 1)))
	}
	return ""
}

// leastRepeated is what is worth a word: parts of a library may meet in a page.
const leastRepeated = MiB

// repeated is what of a row Rss counts more than once.
func repeated(r footprint.Row, size func(bytes int64) string) string {
	if r.RepeatedBytes < leastRepeated {
		return ""
	}
	return size(r.RepeatedBytes) + " repeated"
}

// knownBy is how a row is known, and a remark, where there is one.
func knownBy(r footprint.Row, remark string) string {
	switch {
	case r.Owner == footprint.Unattributed:
		return remark
	case remark == "":
		return string(r.How)
	}
	return string(r.How) + " · " + remark
}

// addLimit says what the memory limit sees.
func addLimit(d *document.Document, c *footprint.Cgroup) {
	if c == nil {
		return
	}
	if c.LimitBytes == nil {
		d.Add(paragraph(fmt.Sprintf("the control group uses %s and has no memory limit (cgroup v%d)", Size(c.UsageBytes), c.Version)))
		return
	}
	t := document.Table{Columns: document.Columns(">", "")}
	for _, part := range c.Parts {
		if part.Bytes >= smallPart || -part.Bytes >= smallPart {
			t.Row(document.Cells(inMiB(part.Bytes), part.Name)...)
		}
	}
	d.Add(document.Heading{Text: document.Plain(fmt.Sprintf("the limit sees %s of %s (cgroup v%d)", Size(c.UsageBytes), Size(*c.LimitBytes), c.Version)), Sub: true}, t,
		paragraph(fmt.Sprintf("headroom %s before a kill, %s of it page cache, dropped first", Size(*c.HeadroomBytes), Size(c.ReclaimableBytes))))
}
