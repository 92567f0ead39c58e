package fit

import (
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

// mallocLevers have the C library keep less of what is freed.
var mallocLevers = []Lever{
	{
		ID: "arenas", Blind: true, Waits: true, Name: "one malloc arena",
		Env:   []string{"MALLOC_ARENA_MAX=1"},
		Why:   "glibc keeps freed memory per arena, and makes one per thread up to 8 per processor",
		Cost:  "threads that call malloc at the same time wait for each other",
		Since: feature(8), Rows: []footprint.Owner{footprint.Malloc}, bound: boundArenas,
		Harms: []Harm{HarmLatency},
	},
	{
		ID: "trim", NothingBeside: []string{"arenas"}, Name: "native heap trimmed",
		Options: []string{"-XX:TrimNativeHeapInterval=5000"},
		Why:     "gives back what glibc keeps of freed memory, every 5 s (JDK-8293114)",
		Cost:    "a short lock on each arena",
		Since:   jvmopts.Release{Feature: 17, Update: 12}, Flag: "TrimNativeHeapInterval",
		Rows: []footprint.Owner{footprint.Malloc}, bound: boundTrim,
		Harms: []Harm{HarmLatency},
	},
	{
		ID: "thresholds", NothingBeside: []string{"arenas"}, Name: "fixed thresholds of malloc",
		// 128 KiB are what glibc begins with (mallopt(3)). Unless one is set it raises the
		// second to the size of a mapped block that is freed, up to 32 MiB, and the first
		// to twice that.
		Env:   []string{"MALLOC_TRIM_THRESHOLD_=131072", "MALLOC_MMAP_THRESHOLD_=131072"},
		Why:   "large blocks, such as those of compilers, are given back when they are freed, and what is free at an arena's end as well",
		Cost:  "a block of 128 KiB or more is mapped anew, and its pages are cleared, each time",
		Slows: true, Since: feature(8), Rows: []footprint.Owner{footprint.Malloc}, bound: boundTrim,
		Harms: []Harm{HarmSpeed},
	},
}

// threadLevers have fewer threads, or smaller stacks.
var threadLevers = []Lever{
	{
		ID: "stacks", Name: "thread stacks of 512 KiB",
		Options: []string{"-Xss512k"},
		Why:     "what a thread can touch; -Xss reserves address space, so that only stacks that grew beyond count",
		Breaks:  "deep recursion ends in StackOverflowError",
		Since:   feature(8), Rows: []footprint.Owner{footprint.ThreadStacks}, bound: boundStacks,
		Harms: []Harm{HarmRun},
	},
	{
		ID: "hugepages", Name: "no transparent huge pages", NoHugePages: true,
		Why:    "a page of 2 MiB is resident as a whole (JDK-8312182)",
		Cost:   "more misses of the processor's address cache in large heaps",
		Undo:   "start it without the prctl: tare exec makes it where stacks would become huge",
		Since:  feature(8),
		Breaks: "nothing: -XX:+UseTransparentHugePages is left without effect",
		Rows:   []footprint.Owner{footprint.ThreadStacks, footprint.Malloc, footprint.JavaHeap}, bound: boundHugePages,
		Harms: []Harm{HarmSpeed},
	},
	{
		ID: "processors", Name: "sized for the processors it may use",
		Options: []string{"-XX:ActiveProcessorCount={cpus}"},
		Why:     "threads of collector, compilers and pools go by the processors that the JVM sees",
		Cost:    "idle processors stay idle",
		Slows:   true, Since: jvmopts.Release{Feature: 8, Update: 191}, Flag: "ActiveProcessorCount",
		Rows: []footprint.Owner{footprint.ThreadStacks, footprint.Malloc, footprint.GC}, bound: boundProcessors,
		Harms: []Harm{HarmLatency, HarmStart},
	},
}

// evidenceLevers hide what trials are judged by: they come last.
var evidenceLevers = []Lever{
	{
		ID: "perfdata", Name: "no performance data",
		Options: []string{"-XX:-UsePerfData"},
		Why:     "32 KiB of counters in a file that is mapped",
		Breaks:  "jps, jstat and tare find the JVM less easily; the time in collections is in its log alone (-Xlog:gc)",
		Last:    true, Slows: true, // tried by itself, after all that its evidence is needed for
		Since: feature(8), Flag: "UsePerfData", Moot: "false", Rows: []footprint.Owner{footprint.JVMOther}, bound: boundPerfData,
	},
}
