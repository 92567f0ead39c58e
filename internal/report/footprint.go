package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/footprint"
	"tare/internal/hotspot"
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

// Footprint writes a footprint for people: the whole first, then its parts,
// largest first, and what the limit sees.
func Footprint(w io.Writer, f *footprint.Footprint) error {
	p := &printer{w: w}
	p.line("%s · pid %d · %s · %s", jvmOf(f), f.PID, f.Name, resident(f))
	p.line("")
	FootprintRows(w, f)
	p.line("  %s", weighedIn(f))
	for _, n := range limitLines(f.Cgroup) {
		p.line("%s", n)
	}
	p.asked(f.Asked)
	for _, n := range f.Warnings {
		p.note(n)
	}
	for _, s := range f.Sources {
		if s.Error != nil {
			p.note(s.Name + " could not be read: " + *s.Error)
		}
	}
	return p.err
}

// FootprintRows writes the table of a footprint in MiB, and its sum.
func FootprintRows(w io.Writer, f *footprint.Footprint) {
	p := &printer{w: w}
	p.line("  %-19s %8s %9s %9s  %s", "MiB", "resident", "committed", "reserved", "known by")
	for _, r := range byResident(f.Rows) {
		how := string(r.How)
		if r.Owner == footprint.Unattributed {
			how = ""
		}
		text := fmt.Sprintf("  %-19s %8s %9s %9s  %-9s  %s", ownerNames[r.Owner],
			inMiB(r.ResidentBytes), promised(r.CommittedBytes), promised(r.ReservedBytes), how, remark(f, r))
		p.line("%s", strings.TrimRight(text, " "))
		for _, l := range partLines(f, r) {
			p.line("%s", l)
		}
	}
	p.line("  %s", strings.Repeat("─", 28))
	p.line("  %-19s %8s", "= Rss", inMiB(f.RSSBytes))
}

// inMiB is a size in a table whose unit is named above it.
func inMiB(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/MiB) }

// shown are the parts of a row that its screen has room for: all are in the
// JSON.
func shown(r footprint.Row) []footprint.Child {
	parts := r.Children
	switch r.Owner {
	case footprint.ThreadStacks:
		parts = nestedIn(parts, footprint.LargestThreads)
		parts = parts[:min(len(parts), shownThreads)]
	case footprint.Malloc:
		tracked := nestedIn(parts, footprint.TrackedByJVM)
		parts = slices.DeleteFunc(slices.Clone(parts), func(c footprint.Child) bool { return c.Name == footprint.TrackedByJVM })
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
func nestedIn(parts []footprint.Child, name string) []footprint.Child {
	for _, c := range parts {
		if c.Name == name {
			return c.Children
		}
	}
	return nil
}

// smallPart is the size from which a part is worth a line.
const smallPart = MiB

// printer keeps the first error of a series of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

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

// note writes a remark, wrapped.
func (p *printer) note(text string) {
	for i, l := range Wrap("note: "+text, 72) {
		p.line("  %s%s", strings.Repeat(" ", 6*min(i, 1)), l)
	}
}

// jvmOf names the JVM: its version and collector, or its kind when it is none
// that tells them.
func jvmOf(f *footprint.Footprint) string {
	if f.VM != "" && f.VM != string(hotspot.HotSpot) {
		return f.VM
	}
	return fmt.Sprintf("java %s %s", known(f.JDK), known(f.Collector))
}

func known(s string) string {
	if s == "" {
		return "?"
	}
	return s
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

// limitLines say what the memory limit sees.
func limitLines(c *footprint.Cgroup) []string {
	if c == nil {
		return nil
	}
	if c.LimitBytes == nil {
		return []string{fmt.Sprintf("  the control group uses %s and has no memory limit (cgroup v%d)", Size(c.UsageBytes), c.Version)}
	}
	lines := []string{fmt.Sprintf("  the limit sees %s of %s (cgroup v%d)", Size(c.UsageBytes), Size(*c.LimitBytes), c.Version)}
	for _, part := range c.Parts {
		if part.Bytes >= smallPart || -part.Bytes >= smallPart {
			lines = append(lines, fmt.Sprintf("    %8s  %s", inMiB(part.Bytes), part.Name))
		}
	}
	return append(lines, fmt.Sprintf("  headroom %s before a kill, %s of it page cache, dropped first", Size(*c.HeadroomBytes), Size(c.ReclaimableBytes)))
}
