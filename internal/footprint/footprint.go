// Package footprint gives every resident page of a JVM one owner. It joins
// what the kernel says (smaps, the page map, thread stack pointers) with what
// the JVM says (vmStructs, and on request native memory tracking).
package footprint

import (
	"slices"
	"time"
)

// Schema names the JSON form of a Footprint. Owners and fields may be added;
// none changes its meaning.
const Schema = "tare.footprint/1"

// Owner is what a resident page belongs to.
type Owner string

// The owners, in the order of a report.
const (
	JavaHeap     Owner = "java-heap"     // the object heap, archived objects included
	ClassSpace   Owner = "class-space"   // compressed class space: Klass structures
	Metaspace    Owner = "metaspace"     // class metadata outside the class space
	CodeCache    Owner = "code-cache"    // compiled code, stubs, their segment maps
	ThreadStacks Owner = "thread-stacks" // stacks of all threads
	GC           Owner = "gc"            // card tables, mark bitmaps, region tables
	CDS          Owner = "cds"           // the CDS or AOT class archive
	Malloc       Owner = "malloc"        // the C library's heaps: arenas, brk, large chunks
	MappedFiles  Owner = "mapped-files"  // libraries, jars, the modules file; their data and bss
	JVMOther     Owner = "jvm-other"     // the JVM's own small regions: perf data, safepoint page, vdso
	Unattributed Owner = "unattributed"  // the remainder
)

// How says how a row is known.
type How string

// The ways, from sure to likely.
const (
	Exact     How = "exact"     // an address range that the JVM or the kernel names
	Layout    How = "layout"    // the known layout of a mapping: size, alignment, header
	Heuristic How = "heuristic" // neighbourhood and permissions
	// Counted is for children alone: the JVM counts so much as allocated, but which of
	// its pages are resident is not known. It is at most what the row has.
	Counted How = "counted"
)

// Row is one owner's part.
type Row struct {
	Owner         Owner `json:"owner"`
	ResidentBytes int64 `json:"residentBytes"`
	// CommittedBytes and ReservedBytes are what the JVM promised itself; nil
	// when it makes no such promise.
	CommittedBytes *int64 `json:"committedBytes"`
	ReservedBytes  *int64 `json:"reservedBytes"`
	How            How    `json:"how"`
	// AnonymousBytes is the part of the mappings of files that the process
	// has written to, so that it is private and cannot be dropped: data of
	// libraries, a class archive that was relocated.
	AnonymousBytes int64 `json:"anonymousBytes,omitempty"`
	// SharedMemoryBytes is the resident part in files that lie in memory alone:
	// tmpfs, /dev/shm, memfd. The process has not written to it privately, and
	// it cannot be dropped either.
	SharedMemoryBytes int64 `json:"sharedMemoryBytes,omitempty"`
	// UsedBytes is what the owner itself counts as in use: for malloc the
	// chunks of its arenas that are allocated.
	UsedBytes *int64 `json:"usedBytes,omitempty"`
	// Allocator names what malloc is where it is not that of glibc, such as "jemalloc".
	Allocator string `json:"allocator,omitempty"`
	// Arenas is the number of glibc's arenas.
	Arenas int `json:"arenas,omitempty"`
	// SwapBytes is the part that is swapped out, not resident.
	SwapBytes int64 `json:"swapBytes,omitempty"`
	// HugeBytes is the resident part in transparent huge pages.
	HugeBytes int64 `json:"hugeBytes,omitempty"`
	// HugetlbBytes is what the owner has in pages of hugetlbfs
	// (-XX:+UseLargePages). The kernel does not count them into Rss, nor charges
	// them to the memory controller, and they are not part of ResidentBytes.
	HugetlbBytes int64 `json:"hugetlbBytes,omitempty"`
	// RepeatedBytes is the part that the process has mapped once before: it maps the same
	// pages of a file several times. They are part of ResidentBytes, for Rss counts them so
	// often, and no memory of their own.
	RepeatedBytes int64 `json:"repeatedBytes,omitempty"`
	// Children are parts of the row. They need not add up to it: what has
	// no name of its own is not among them.
	Children []Child `json:"children,omitempty"`
}

// KeptBytes is the part of a row that the kernel cannot drop: all but the unchanged
// pages of files on disk. What is swapped out counts too.
func (r Row) KeptBytes() int64 {
	if r.Owner == MappedFiles || r.Owner == CDS {
		return r.AnonymousBytes + r.SharedMemoryBytes + r.SwapBytes
	}
	return r.ResidentBytes + r.SwapBytes - r.RepeatedBytes
}

// DroppableBytes is what the kernel can drop: the resident pages of files on disk
// that the process has not changed.
func (f *Footprint) DroppableBytes() (n int64) {
	for _, r := range f.Rows {
		n += max(0, r.ResidentBytes+r.SwapBytes-r.RepeatedBytes-r.KeptBytes())
	}
	return n
}

// RepeatedBytes is how much of Rss is counted again; see Row.
func (f *Footprint) RepeatedBytes() (n int64) {
	for _, r := range f.Rows {
		n += r.RepeatedBytes
	}
	return n
}

// Child is a named part of a row, such as a space of the heap, one mapped
// file, or the stack of one thread.
type Child struct {
	// ID names the part among its neighbours, and stays the same between
	// versions: "eden", or the kind and the name of what has a name of its own,
	// such as "file:libjvm.so". For a thread it has the thread's id.
	ID string `json:"id"`
	// Name is the part as it is shown.
	Name          string `json:"name"`
	ResidentBytes int64  `json:"residentBytes"`
	// How is empty where the part is known in the same way as its row.
	How How `json:"how,omitempty"`
	// CommittedBytes, ReservedBytes and UsedBytes are as in Row.
	CommittedBytes *int64  `json:"committedBytes,omitempty"`
	ReservedBytes  *int64  `json:"reservedBytes,omitempty"`
	UsedBytes      *int64  `json:"usedBytes,omitempty"`
	Children       []Child `json:"children,omitempty"`
}

// NewChild is the part that an id names, with what is resident of it.
func NewChild(id string, resident int64) Child {
	return Child{ID: id, Name: partName(id), ResidentBytes: resident}
}

// Cgroup is the memory side of the control group of the process.
type Cgroup struct {
	Version int    `json:"version"`
	Path    string `json:"path"`
	// LimitBytes is the smallest limit on the path to the root, nil without
	// one.
	LimitBytes *int64 `json:"limitBytes"`
	// UsageBytes is the usage of the group whose limit that is, else of the
	// process's own group.
	UsageBytes int64 `json:"usageBytes"`
	// HeadroomBytes is the limit less what cannot be reclaimed (usage less
	// file pages that are clean), nil without a limit.
	HeadroomBytes *int64 `json:"headroomBytes"`
	// HighBytes is the smallest memory.high on the path to the root (cgroup v2),
	// above which the kernel slows the group down; nil without one.
	// HighHeadroomBytes is what is left of it, reckoned as HeadroomBytes is.
	HighBytes         *int64 `json:"highBytes,omitempty"`
	HighHeadroomBytes *int64 `json:"highHeadroomBytes,omitempty"`
	// SwapLeftBytes is what can still be swapped out before the kernel kills:
	// what the group may, and the machine can; nil when that is not known.
	SwapLeftBytes *int64 `json:"swapLeftBytes,omitempty"`
	// ReclaimableBytes is page cache that the kernel can drop.
	ReclaimableBytes int64 `json:"reclaimableBytes"`
	// Parts is what the limit sees: they add up to UsageBytes.
	Parts []Part `json:"parts"`
	// CPUs is the smallest CPU quota on the path to the root, in processors;
	// nil without one.
	CPUs *float64 `json:"cpus"`
	// Events counts what befell the group since it was made, by the kernel's
	// names: "workingset_refault_file", pages of files that were dropped and
	// had to be read again; "max", how often usage was about to exceed the
	// limit; "oom_kill". What the kernel does not tell is not among them.
	Events map[string]int64 `json:"events,omitempty"`
	// PressureSome300 is the share of the last five minutes, in percent, in
	// which a task of the group waited for memory; nil when the kernel does
	// not tell.
	PressureSome300 *float64 `json:"pressureSome300"`
}

// Host is the machine that a JVM runs on.
type Host struct {
	MemTotalBytes int64 `json:"memTotalBytes"`
	// PageBytes is the size of a page.
	PageBytes int64 `json:"pageBytes,omitempty"`
	// MemAvailableBytes is the kernel's estimate of what can still be had
	// without swapping.
	MemAvailableBytes int64  `json:"memAvailableBytes"`
	Kernel            string `json:"kernel"`
	// THP says when the kernel takes transparent huge pages: "always",
	// "madvise", "never", or "" without them.
	THP string `json:"thp"`
}

// Part is a part of a control group's usage.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// SourceTracking is the name of the source that gives pages owners by asking
// the JVM for its regions.
const SourceTracking = "native memory tracking"

// Heap is what the JVM counts of its object heap. Sizes are bytes.
type Heap struct {
	MaxBytes      int64 `json:"maxBytes"`
	CapacityBytes int64 `json:"capacityBytes"`
	UsedBytes     int64 `json:"usedBytes"`
	// AfterGCBytes is what the last collection left, an upper bound of the
	// live set; 0 before the first.
	AfterGCBytes int64 `json:"afterGcBytes"`
	// Collections is their number so far, GCSeconds the time in pauses, of
	// UptimeSeconds.
	Collections int64   `json:"collections"`
	GCSeconds   float64 `json:"gcSeconds"`
}

// Source is one thing that was read, how long it took, and what went wrong.
type Source struct {
	Name   string  `json:"name"`
	Millis float64 `json:"millis"`
	Error  *string `json:"error"`
}

// Footprint is the resident memory of one JVM by owner at one moment. The
// resident bytes of the rows add up to RSSBytes exactly.
type Footprint struct {
	Schema string `json:"schema"`
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	// VM is the kind of JVM: "HotSpot", "OpenJ9" or "native image".
	VM        string    `json:"vm,omitempty"`
	JDK       string    `json:"jdk"`
	Threads   int       `json:"threads"`
	Collector string    `json:"collector"`
	Time      time.Time `json:"time"`
	RSSBytes  int64     `json:"rssBytes"`
	PSSBytes  int64     `json:"pssBytes"`
	// Heap is what the JVM says of its object heap; nil when it does not.
	Heap *Heap `json:"heap"`
	// Classes is the number of classes loaded, Flags the options that decide
	// on memory with their values, whoever set them.
	Classes int64             `json:"classes"`
	Flags   map[string]string `json:"flags"`
	// RollupRSSBytes is smaps_rollup's Rss, read beside the scan: on
	// a JVM at work it differs by the pages touched in between.
	RollupRSSBytes int64 `json:"rollupRssBytes"`
	// Millis is how long the weighing took.
	Millis float64 `json:"millis"`
	Cgroup *Cgroup `json:"cgroup"`
	// Host is nil when it could not be read.
	Host *Host `json:"host"`
	Rows []Row `json:"rows"`
	// Asked is what the JVM was asked for; nil when nothing was sent to it.
	Asked    *Asked   `json:"asked,omitempty"`
	Sources  []Source `json:"sources"`
	Warnings []string `json:"warnings"`
}

// Part is a part of an owner's row by its ID; nil without one.
func (f *Footprint) Part(o Owner, id string) *Child {
	r, _ := f.Row(o)
	for i := range r.Children {
		if r.Children[i].ID == id {
			return &r.Children[i]
		}
	}
	return nil
}

// DirectBytes is what direct buffers take, by the JVM's count; 0 where it does not tell, and
// without a footprint.
func (f *Footprint) DirectBytes() int64 {
	if f == nil {
		return 0
	}
	if direct := f.Part(Malloc, PartDirectBuffers); direct != nil {
		return direct.ResidentBytes
	}
	return 0
}

// Row returns the row of an owner, and whether there is one.
func (f *Footprint) Row(o Owner) (Row, bool) {
	if r := f.row(o); r != nil {
		return *r, true
	}
	return Row{}, false
}

func (f *Footprint) row(o Owner) *Row {
	if i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.Owner == o }); i >= 0 {
		return &f.Rows[i]
	}
	return nil
}
