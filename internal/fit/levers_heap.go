package fit

import (
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

// breaksLayout is what an object of another layout may break: QuestDB 9 looks for where the
// field override of AccessibleObject is, does not find it, and ends.
const breaksLayout = "code that counts on where the fields of an object are, by sun.misc.Unsafe or in native code"

// Options of levers that size the heap.
const (
	sizedHeap       = "-Xmx{heap}m"
	exitWithoutHeap = "-XX:+ExitOnOutOfMemoryError"
	// largerBuffers have the buffers that threads allocate in (TLABs) filled five times between
	// two collections. By default it is fifty times (_target_refills in
	// threadLocalAllocBuffer.cpp): in a small young generation they are then so small that much
	// is allocated outside of them, by a call into the JVM.
	largerBuffers = "-XX:TLABWasteTargetPercent=10"
)

// heapLevers choose the collector, and what stays of the heap.
var heapLevers = []Lever{
	Lever{
		ID: "collector", Blind: true,
		Options: []string{"-XX:+UseSerialGC", sizedHeap, largerBuffers, directOption + "{direct}m", exitWithoutHeap},
		Parts: []Part{
			{Option: "-XX:+UseSerialGC", Name: "serial collector", Why: "the collector without remembered sets and threads", Cost: "pauses grow with the live set"},
			{Option: sizedHeap, Name: "heap by live set", Why: "a heap sized by what survives collections",
				Breaks: "a live set that outgrows the heap ends the application, which restarts"},
			{Option: largerBuffers, Why: "threads allocate in larger buffers, less often outside of them", Cost: "a tenth of the young generation for what buffers waste"},
		},
		Since: jvmopts.Release{Feature: 8, Update: 92},
		Rows:  []footprint.Owner{footprint.JavaHeap, footprint.GC},
		bound: boundCollector,
		Harms: []Harm{HarmHeap, HarmLatency},
	}.named(),
	{
		ID: "headers", Blind: true, Name: "compact object headers",
		Options: []string{"-XX:+UseCompactObjectHeaders"},
		Why:     "4 bytes less for each object (JEP 519)",
		Breaks:  breaksLayout,
		Since:   feature(25), Flag: "UseCompactObjectHeaders", Moot: "true",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeaders,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "headers", Blind: true, Name: "compact object headers",
		Options: []string{"-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders"},
		Why:     "4 bytes less for each object (JEP 450)",
		Breaks:  breaksLayout,
		Mark:    Experimental,
		Since:   feature(24), Before: feature(25),
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeaders,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "ratios", NothingBeside: []string{"collector"}, Name: "heap given back after collections",
		Options: []string{"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"},
		Why:     "a heap that grew shrinks again to what lives and 40 %",
		Cost:    "more collections",
		Slows:   true, Since: feature(8), Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundRatios,
		Harms: []Harm{HarmHeap},
	},
	{
		ID: "periodic", NothingBeside: []string{"collector"}, Name: "periodic collections",
		Options: []string{"-XX:G1PeriodicGCInterval=10000"},
		Why:     "G1 collects and gives memory back when the application idles (JEP 346)",
		Cost:    "a concurrent cycle every 10 s",
		Slows:   true, Since: feature(12), Flag: "G1PeriodicGCInterval",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundPeriodic,
		Harms: []Harm{HarmSpeed, HarmLatency},
	},
	{
		ID: "dedup", NothingBeside: []string{"collector"}, Name: "string deduplication",
		Options: []string{"-XX:+UseStringDeduplication"},
		Why:     "strings of one content share it (JEP 192; Serial since 18)",
		Cost:    "a thread, and a table of strings",
		Slows:   true, Since: feature(18), Flag: "UseStringDeduplication", Moot: "true",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundDedup,
		Harms: []Harm{HarmSpeed},
	},
}

// heapSizeLevers size the heap, and what else collections free, by the curve of what those cost.
var heapSizeLevers = []Lever{
	{
		ID: "heap", Blind: true, ByCurve: true, Name: "tighter heap",
		Options: []string{sizedHeap, "-Xmn{young}m"},
		Why:     "as little heap as collections allow before their cost rises, by the curve of the trials",
		Cost:    "less room for a larger live set than the load made",
		Breaks:  "as with the collector",
		Since:   feature(8), Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeap,
		Harms: []Harm{HarmHeap},
	},
	{
		ID: "direct", Blind: true, ByCurve: true, Name: "fewer direct buffers that wait",
		Options: []string{sizedHeap, "-Xmn{young}m", directOption + "{direct}m"},
		Why:     "direct buffers that nobody holds wait for a collection: with a smaller young generation it comes earlier, and fewer wait",
		Cost:    "more collections; less room for more of them than the load made",
		Breaks:  "buffers that are held beyond the bound end in OutOfMemoryError",
		Since:   feature(8), Rows: []footprint.Owner{footprint.Malloc}, bound: boundDirect,
		Harms: []Harm{HarmHeap},
	},
}

// grownHeap sizes the heap where what lives in a run of many times the load outgrew the heap that
// the JVM took by the limit: that is a part of it, so the limit would have to grow by several
// times as much.
var grownHeap = Lever{
	ID: "heap", Name: "heap by what lives in a long run",
	Options: []string{sizedHeap},
	Why:     "what lives grows with the load, and by itself the heap is only a part of the limit",
	Breaks:  "a live set that outgrows the heap ends in OutOfMemoryError",
	Since:   feature(8),
	Rows:    []footprint.Owner{footprint.JavaHeap},
	Harms:   []Harm{HarmHeap},
}
