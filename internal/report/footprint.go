package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/footprint"
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
	p.line("java %s %s · pid %d · %s · %s", known(f.JDK), known(f.Collector), f.PID, f.Name, resident(f))
	p.line("")
	FootprintRows(w, f)
	p.line("  %s", weighedIn(f))
	for _, n := range limitLines(f.Cgroup) {
		p.line("%s", n)
	}
	for _, n := range f.Warnings {
		p.line("  note: %s", n)
	}
	for _, s := range f.Sources {
		if s.Error != nil {
			p.line("  note: %s could not be read: %s", s.Name, *s.Error)
		}
	}
	return p.err
}

// FootprintRows writes the table of a footprint, and its sum.
func FootprintRows(w io.Writer, f *footprint.Footprint) {
	p := &printer{w: w}
	p.line("  %-14s %11s %11s %11s  %s", "owner", "resident", "committed", "reserved", "known by")
	for _, r := range byResident(f.Rows) {
		how := string(r.How)
		if r.Owner == footprint.Unattributed {
			how = ""
		}
		text := fmt.Sprintf("  %-14s %11s %11s %11s  %-9s  %s", ownerNames[r.Owner],
			Size(r.ResidentBytes), promised(r.CommittedBytes), promised(r.ReservedBytes), how, remark(f, r))
		p.line("%s", strings.TrimRight(text, " "))
	}
	p.line("  %s", strings.Repeat("─", 26))
	p.line("  %-14s %11s  the rows add up to it exactly", "= Rss", Size(f.RSSBytes))
}

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
	var ms float64
	sent := "nothing was sent to the JVM"
	for _, s := range f.Sources {
		ms += s.Millis
		if s.Name == footprint.SourceTracking {
			sent = "the JVM was asked for its native memory tracking"
		}
	}
	return fmt.Sprintf("weighed in %.0f ms, %s", ms, sent)
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
	return Size(*bytes)
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
	case footprint.ThreadStacks:
		return fmt.Sprintf("%d threads", f.Threads)
	case footprint.CDS:
		if r.AnonymousBytes > 0 {
			return Size(r.AnonymousBytes) + " of it private"
		}
	case footprint.MappedFiles:
		return files(r.Children)
	case footprint.Unattributed:
		return fmt.Sprintf("%.2f %%", 100*float64(r.ResidentBytes)/float64(max(f.RSSBytes, 1)))
	}
	return ""
}

// files names the largest files.
func files(children []footprint.Child) string {
	const show = 1
	var parts []string
	for i, c := range children {
		if i == show {
			parts = append(parts, fmt.Sprintf("%d more", len(children)-show))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %.1f", c.Name, float64(c.ResidentBytes)/MiB))
	}
	return strings.Join(parts, ", ")
}

// limitLines say what the memory limit sees.
func limitLines(c *footprint.Cgroup) []string {
	if c == nil {
		return nil
	}
	if c.LimitBytes == nil {
		return []string{fmt.Sprintf("  the control group uses %s and has no memory limit (cgroup v%d)", Size(c.UsageBytes), c.Version)}
	}
	return []string{
		fmt.Sprintf("  the limit sees %10s of %s (cgroup v%d %s)", Size(c.UsageBytes), Size(*c.LimitBytes), c.Version, c.Path),
		fmt.Sprintf("  headroom       %10s before a kill, %s of it page cache that the kernel drops first", Size(*c.HeadroomBytes), Size(c.ReclaimableBytes)),
	}
}
