package jvmopts

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Family is a choice that several options make, or contradict when it is made.
// Nothing may be added to a family that the user has settled.
type Family string

// The families that tare knows; a flag that is in none is a family of its own,
// under its name.
const (
	HeapMax     Family = "maximum heap"
	HeapInitial Family = "initial heap"
	YoungSize   Family = "young generation"
	Buffers     Family = "allocation buffers"
	HeapReturn  Family = "returning heap"
	Collector   Family = "collector"
	Compiler    Family = "compilers"
	CodeCache   Family = "code cache"
	Metaspace   Family = "metaspace"
	StackSize   Family = "thread stack size"
	Archive     Family = "class archive"
	Headers     Family = "object headers"
	Arenas      Family = "malloc arenas"
	Thresholds  Family = "malloc thresholds"
	HugePages   Family = "huge pages"
	OutOfMemory Family = "out of memory"
	HeapDump    Family = "heap dump"
	ErrorFile   Family = "error file"
	GCLog       Family = "log of collections"
	Processors  Family = "processors"
	Container   Family = "container support"
)

// CollectorFlags each select a collector. UseParallelOldGC and UseParNewGC, which go
// with others, are not among them.
var CollectorFlags = []string{"UseSerialGC", "UseParallelGC", "UseG1GC", "UseZGC", "UseShenandoahGC", "UseEpsilonGC", "UseConcMarkSweepGC"}

// rule says which flags settle a family. A name that ends in * is a prefix.
type rule struct {
	family Family
	flags  string
	// when decides by the value; nil is always.
	when func(value string) bool
}

// rules are in the order in which families are named for a flag of several.
//
// YoungSize: a fixed size takes from G1 what it keeps its pause goal by ("Garbage-First Garbage
// Collector Tuning" in HotSpot's guide): a user who wants G1, or a goal, wants it kept.
// Collector: the collectors, and the flags of one or some of them: a user who
// tunes G1 wants G1. Compiler: what chooses compilers or levels, and the flags
// of C2 and of the policy, which C1 alone would leave without effect.
// UseCompressedClassPointers and LockingMode stand in the way of compact
// headers (JEP 450). InitialRAMPercentage is a wish for a part of the memory
// that a smaller -Xmx would cut.
var rules = []rule{
	{HeapMax, "MaxHeapSize MaxRAM MaxRAMPercentage MaxRAMFraction MinRAMPercentage MinRAMFraction InitialRAMPercentage InitialRAMFraction ErgoHeapSizeLimit", nil},
	{HeapInitial, "InitialHeapSize MinHeapSize InitialRAMPercentage InitialRAMFraction", nil},
	{YoungSize, "NewSize MaxNewSize NewRatio G1NewSizePercent G1MaxNewSizePercent MaxGCPauseMillis GCPauseIntervalMillis", nil},
	{YoungSize, "UseG1GC", isTrue},
	{Buffers, "UseTLAB TLABSize MinTLABSize ResizeTLAB TLABWasteTargetPercent TLABAllocationWeight", nil},
	{HeapReturn, "MinHeapFreeRatio MaxHeapFreeRatio ShrinkHeapInSteps G1PeriodicGCInterval ShenandoahUncommit ZUncommit", nil},
	{HeapReturn, "AlwaysPreTouch", isTrue},
	{Collector, strings.Join(CollectorFlags, " ") + " UseParallelOldGC UseParNewGC", nil},
	{Collector, "G1* Z* Shenandoah* CMS* ParallelOld* ParallelGCThreads ConcGCThreads MaxGCPauseMillis GCPauseIntervalMillis GCTimeRatio " +
		"InitiatingHeapOccupancyPercent SoftMaxHeapSize UseAdaptiveSizePolicy UseDynamicNumberOfGCThreads ExplicitGCInvokesConcurrent UseStringDeduplication UseNUMA", nil},
	{Compiler, "TieredStopAtLevel TieredCompilation CompilationMode CICompilerCount CICompilerCountPerCPU UseDynamicNumberOfCompilerThreads " +
		"CompileThreshold CompileThresholdScaling EnableJVMCI UseJVMCICompiler", nil},
	{Compiler, "Tier0* Tier2* Tier3* Tier4* Opto* DoEscapeAnalysis EliminateAllocations UseSuperWord LoopUnrollLimit MaxVectorSize AutoBoxCacheMax", nil},
	{Compiler, "UseCompiler", isFalse},
	{Compiler, "UseInterpreter", isFalse},
	{Compiler, "java.compiler", func(v string) bool { return v == "" || strings.EqualFold(v, "none") }},
	{CodeCache, "ReservedCodeCacheSize InitialCodeCacheSize SegmentedCodeCache NonNMethodCodeHeapSize ProfiledCodeHeapSize NonProfiledCodeHeapSize", nil},
	{Metaspace, "MaxMetaspaceSize CompressedClassSpaceSize", nil},
	{StackSize, "ThreadStackSize", nil},
	{Archive, "SharedArchiveFile ArchiveClassesAtExit AutoCreateSharedArchive SharedClassListFile DumpLoadedClassList " +
		"UseSharedSpaces RequireSharedSpaces DumpSharedSpaces AOTCache AOTMode AOTConfiguration AOTCacheOutput", nil},
	{Headers, "UseCompactObjectHeaders UseCompressedClassPointers LockingMode UseObjectMonitorTable", nil},
	{Arenas, "MALLOC_ARENA_MAX MALLOC_ARENA_TEST glibc.malloc.arena_max glibc.malloc.arena_test", nil},
	{Thresholds, "MALLOC_TRIM_THRESHOLD_ MALLOC_MMAP_THRESHOLD_ MALLOC_TOP_PAD_ MALLOC_MMAP_MAX_ " +
		"glibc.malloc.trim_threshold glibc.malloc.mmap_threshold glibc.malloc.top_pad glibc.malloc.mmap_max", nil},
	{HugePages, "UseTransparentHugePages UseLargePages UseHugeTLBFS UseSHM", isTrue},
	{HugePages, "LargePageSizeInBytes", nil},
	{HugePages, "glibc.malloc.hugetlb", func(v string) bool { return v != "0" }},
	{OutOfMemory, "ExitOnOutOfMemoryError CrashOnOutOfMemoryError OnOutOfMemoryError", nil},
	{HeapDump, "HeapDumpOnOutOfMemoryError HeapDumpPath", nil},
	{ErrorFile, "ErrorFile ErrorFileToStdout ErrorFileToStderr", nil},
	{GCLog, "Xloggc verbose PrintGC PrintGCDetails", nil},
	{GCLog, "Xlog", logsCollections},
	{Processors, "ActiveProcessorCount", nil},
	{Container, "UseContainerSupport", nil},
	// -XX:+AggressiveHeap chooses a heap of half the memory, the parallel
	// collector and large pages; -XX:+NeverActAsServerClassMachine the serial
	// collector and C1, its opposite the others.
	{HeapMax, "AggressiveHeap", isTrue},
	{HeapInitial, "AggressiveHeap", isTrue},
	{YoungSize, "AggressiveHeap", isTrue},
	{Collector, "AggressiveHeap NeverActAsServerClassMachine AlwaysActAsServerClassMachine", isTrue},
	{Compiler, "NeverActAsServerClassMachine AlwaysActAsServerClassMachine", isTrue},
	{HugePages, "AggressiveHeap", isTrue},
}

func isTrue(v string) bool  { return v == "true" }
func isFalse(v string) bool { return v == "false" }

// logsCollections tells whether the selectors of -Xlog (JEP 158) include the
// collector: what, level, output, decorators, decorations.
func logsCollections(value string) bool {
	what, _, _ := strings.Cut(value, ":")
	return what == "" || what == "all" || strings.Contains(what, "gc")
}

// prefixRule is a rule for all flags that begin so.
type prefixRule struct {
	prefix string
	rule   rule
}

// index finds the rules for a flag: by name, and by prefix.
var index = sync.OnceValues(func() (names map[string][]rule, prefixes []prefixRule) {
	names = make(map[string][]rule)
	for _, r := range rules {
		for name := range strings.FieldsSeq(r.flags) {
			if prefix, many := strings.CutSuffix(name, "*"); many {
				prefixes = append(prefixes, prefixRule{prefix, r})
			} else {
				names[name] = append(names[name], r)
			}
		}
	}
	return names, prefixes
})

// families are those that a setting settles.
func (s Setting) families() []Family {
	names, prefixes := index()
	of := names[s.Flag]
	for _, p := range prefixes {
		// ZGC's flags are Z and a capital letter.
		if rest, ok := strings.CutPrefix(s.Flag, p.prefix); ok && rest != "" && (p.prefix != "Z" || rest[0] >= 'A' && rest[0] <= 'Z') {
			of = append(slices.Clip(of), p.rule)
		}
	}
	var found []Family
	for _, r := range of {
		if (r.when == nil || r.when(s.Value)) && !slices.Contains(found, r.family) {
			found = append(found, r.family)
		}
	}
	return found
}

// FamiliesOf are the families that an option, or a variable as NAME=value,
// settles; a flag that is in none is its own. None for options that nothing
// can contradict: -XX:+UnlockDiagnosticVMOptions and its like are harmless twice.
func FamiliesOf(text string) []Family {
	var found []Family
	for _, s := range optionOf(text, Release{}).Sets {
		if unlocks(s.Flag) {
			continue
		}
		f := s.families()
		if len(f) == 0 {
			f = []Family{Family(s.Flag)}
		}
		found = append(found, f...)
	}
	return found
}

func unlocks(flag string) bool { return strings.HasPrefix(flag, "Unlock") }

// optionOf is an option to be added.
func optionOf(text string, release Release) Option {
	if name, value, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "-") {
		return variable(name, value)
	}
	return Option{Text: text, Source: Source{Place: Added}, Sets: settings(text, release)}
}

// Settles returns the option of the user by which a family, or a flag of its own,
// is decided: of several the one that wins. ok is false when the user left it
// open. A source that could not be read settles everything.
func (o Options) Settles(f Family) (by Option, ok bool) {
	for _, options := range [][]Option{o.Environ, o.All} {
		for _, option := range options {
			if option.Source.Place != Added && (option.Unknown || slices.Contains(option.settles, f)) {
				by, ok = option, true
			}
		}
	}
	return by, ok
}

// settling are the families and flags that settings settle.
func settling(sets []Setting) []Family {
	var found []Family
	for _, s := range sets {
		found = append(append(found, Family(s.Flag)), s.families()...)
	}
	return found
}

// Conflict says why something cannot be added.
type Conflict struct {
	// Text is what was to be added, By the user's option that it would
	// contradict.
	Text string
	By   Option
}

// Conflict finds the first of some options, or variables as NAME=value, that
// would override or contradict what the user settled, or would make the JVM
// refuse to start beside it.
func (o Options) Conflict(texts ...string) (Conflict, bool) {
	for _, text := range texts {
		name, _, _ := strings.Cut(text, "=")
		if value, set := LookupEnv(o.in.Env, name); set && !strings.HasPrefix(text, "-") {
			return Conflict{text, variable(name, value)}, true
		}
		for _, s := range optionOf(text, o.in.Release).Sets {
			if by, found := o.contradicted(s); found {
				return Conflict{text, by}, true
			}
		}
	}
	return Conflict{}, false
}

func (o Options) contradicted(s Setting) (Option, bool) {
	if unlocks(s.Flag) {
		value, by, set := o.Value(s.Flag)
		return by, set && value != s.Value
	}
	for _, f := range settling([]Setting{s}) {
		if by, found := o.Settles(f); found {
			return by, true
		}
	}
	return o.outOfOrder(s)
}

// ordered are pairs of flags of which the JVM requires, or makes, the first not to
// exceed the second.
var ordered = [][2]string{
	{"InitialHeapSize", "MaxHeapSize"}, {"MinHeapSize", "MaxHeapSize"}, {"NewSize", "MaxHeapSize"}, {"MaxNewSize", "MaxHeapSize"},
	{"SoftMaxHeapSize", "MaxHeapSize"}, {"MinHeapSize", "InitialHeapSize"},
	{"InitialCodeCacheSize", "ReservedCodeCacheSize"}, {"MetaspaceSize", "MaxMetaspaceSize"},
	{"MinHeapFreeRatio", "MaxHeapFreeRatio"}, {"MinMetaspaceFreeRatio", "MaxMetaspaceFreeRatio"},
}

// outOfOrder finds a size of the user's that a setting would fall below, or
// exceed.
func (o Options) outOfOrder(s Setting) (Option, bool) {
	n, err := strconv.ParseUint(s.Value, 10, 64)
	if err != nil {
		return Option{}, false
	}
	for _, p := range ordered {
		low, high := s.Flag == p[0], s.Flag == p[1]
		if !low && !high {
			continue
		}
		other := p[0]
		if low {
			other = p[1]
		}
		value, by, set := o.Value(other)
		if !set || by.Source.Place == Added {
			continue
		}
		if m, err := strconv.ParseUint(value, 10, 64); err == nil && (low && n > m || high && n < m) {
			return by, true
		}
	}
	return Option{}, false
}

// Add adds options, and variables as NAME=value, all of them or none: none if
// one is in Conflict. They stand before the user's own on the command line.
func (o Options) Add(texts ...string) (Options, Conflict, bool) {
	if c, found := o.Conflict(texts...); found {
		return o, c, false
	}
	all, added, addedEnv := slices.Clone(o.All), slices.Clone(o.added), slices.Clone(o.addedEnv)
	at := slices.IndexFunc(all, func(p Option) bool { return p.Source.Place > Added })
	if at < 0 {
		at = len(all)
	}
	for _, text := range texts {
		if !strings.HasPrefix(text, "-") {
			addedEnv = append(addedEnv, text)
			continue
		}
		all = slices.Insert(all, at, optionOf(text, o.in.Release))
		added = append(added, text)
		at++
	}
	o.All, o.added, o.addedEnv = all, added, addedEnv
	return o, Conflict{}, true
}
