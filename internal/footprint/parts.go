package footprint

import "strings"

// The ids of parts that rules and readers look for. An id stays the same between
// versions; the name that is shown for it may change.
const (
	PartEden           = "eden"
	PartFreeHeap       = "free"
	PartJVMCode        = "jvm-code"
	PartLargestThreads = "largest-threads" // lists the largest stacks, one child each
	PartGCThreads      = "gc-threads"
	PartMainArena      = "main-arena"
	PartArenas         = "arenas"
	PartLargeChunks    = "large-chunks"
	PartFreeMalloc     = "free-malloc"
	PartTracked        = "tracked" // what the JVM counts by its use, one child each
	PartDirectBuffers  = "direct-buffers"
)

const (
	partWritten      = "written"
	partClean        = "clean"
	partJavaThreads  = "java-threads"
	partVMThreads    = "vm-threads"
	partNative       = "native-threads"
	partNoThread     = "no-thread"
	partPrimordial   = "primordial-thread"
	partKernelPages  = "kernel-pages"
	partPerfData     = "perf-data"
	partShared       = "shared-memory"
	partText         = "text"
	partData         = "data"
	partReadOnly     = "read-only"
	partZero         = "zero-initialised"
	partCardTable    = "card-table"
	partSegmentMap   = "segment-map"
	partImageHeap    = "image-heap"
	partAllocated    = "allocated"
	partUnnamedTable = "other-tables"
	partMarkStacks   = "mark-stacks" // of ZGC: gigabytes, of which little is committed
	partFurther      = "further"     // what is beyond the parts that are told apart
)

// partNames are the names of parts by their ids, except for parts whose name is
// not ours to choose: see idOf.
var partNames = map[string]string{
	PartEden: "eden", PartFreeHeap: "free", "survivor": "survivor", "old": "old", "young": "young", "humongous": "humongous",
	partImageHeap: "image heap", partAllocated: "allocated",

	"all-code": "all code", "non-profiled-methods": "non-profiled methods", "profiled-methods": "profiled methods",
	PartJVMCode: "JVM's own code", partSegmentMap: "segment map",

	partJavaThreads: "Java and compiler threads", partVMThreads: "VM threads", PartGCThreads: "GC threads",
	partNative: "native threads", partNoThread: "running or ended threads", partPrimordial: "primordial thread",
	PartLargestThreads: "largest by thread",

	partCardTable: "card table", "block-offsets-and-card-counts": "block offsets and card counts",
	"block-offsets": "block offsets", "mark-bitmap": "mark bitmap", "mark-bitmaps": "mark bitmaps",
	"mark-stack": "mark stack", partMarkStacks: "mark stacks", "compaction-table": "compaction table",
	"region-table": "region table", "page-and-forwarding-tables": "page and forwarding tables", partUnnamedTable: "other tables",

	PartMainArena: "main arena", PartArenas: "arenas", PartLargeChunks: "large chunks",
	PartFreeMalloc: "free, kept by glibc", PartTracked: "tracked by the JVM", PartDirectBuffers: "direct buffers",

	partWritten: "written to, private", partClean: "as in the file, clean",
	partText: "text", partData: "data", partReadOnly: "read-only", partZero: "zero-initialised",
	partShared: "shared memory", partFurther: "further parts", partKernelPages: "kernel's pages (vdso)", partPerfData: "performance data",
}

// partIDs are the ids by the names.
var partIDs = func() map[string]string {
	ids := make(map[string]string, len(partNames))
	for id, name := range partNames {
		ids[name] = id
	}
	return ids
}()

// The kinds of parts whose names come from elsewhere. Their ids are the kind, a
// colon and the name.
const (
	kindFile      = "file"
	kindArena     = "arena"
	kindAllocator = "allocator"
	kindThread    = "thread" // followed by the thread's id, not its name
	kindTracked   = "tracked"
	kindOther     = "other"
)

// FilePart is the id of the part that a mapped file is, by its base name.
func FilePart(base string) string { return kindFile + ":" + base }

// FileOfPart is the base name of the mapped file that a part is.
func FileOfPart(id string) (base string, ok bool) { return strings.CutPrefix(id, kindFile+":") }

// partName is the name of a part.
func partName(id string) string {
	if name, ok := partNames[id]; ok {
		return name
	}
	kind, name, ok := strings.Cut(id, ":")
	switch {
	case !ok:
		return id
	case kind == kindArena:
		return "arena " + name
	}
	return name
}

// idOf is the id of a part that the JVM's reader names.
func idOf(name string) string {
	if id, ok := partIDs[name]; ok {
		return id
	}
	return kindOther + ":" + name
}

// under joins ids to a path of parts within parts.
func under(ids ...string) string { return strings.Join(ids, "/") }

// identify gives ids to the parts of a footprint that was saved without them.
func (f *Footprint) identify() {
	for i := range f.Rows {
		r := &f.Rows[i]
		files := r.Owner == MappedFiles || r.Owner == CDS
		for j := range r.Children {
			c := &r.Children[j]
			if c.ID == "" && files && partIDs[c.Name] == "" {
				c.ID = FilePart(c.Name)
			}
			c.identify(kindOther)
		}
	}
}

// identify gives a part its id, and those in it; kind is that of a name which is
// not known.
func (c *Child) identify(kind string) {
	if c.ID == "" {
		if c.ID = partIDs[c.Name]; c.ID == "" {
			c.ID = kind + ":" + c.Name
			if kind == kindArena {
				c.ID = kind + ":" + strings.TrimPrefix(c.Name, "arena ")
			}
		}
	}
	within := kindOther
	switch c.ID {
	case PartArenas:
		within = kindArena
	case PartTracked:
		within = kindTracked
	case PartLargestThreads:
		within = kindThread
	}
	for i := range c.Children {
		// The name of a thread or of a use may be that of a part.
		if k := &c.Children[i]; k.ID == "" && (within == kindTracked || within == kindThread) {
			k.ID = within + ":" + k.Name
		}
		c.Children[i].identify(within)
	}
}
