package fit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

// Mark says what HotSpot thinks of the options of a lever.
type Mark string

// The marks. Options without one are for production.
const (
	Diagnostic   Mark = "diagnostic"
	Experimental Mark = "experimental"
)

// Lever is one way to get by on less memory: options, environment or another
// form of the application, that are tried together.
type Lever struct {
	// ID is what --levers names it by.
	ID, Name string
	// Options and Env are added; "{heap}", "{young}" and "{initial}" become sizes of the
	// heap in MiB, "{code}" that of the code cache, "{scale}" how many times as
	// often code runs before it is compiled, "{scale*2}" twice as many, and
	// "{archive}" the file of the class archive.
	Options []string
	Env     []string
	// TrainOption makes the class archive in a training run, which ends
	// before the lever is tried; empty where none is needed.
	TrainOption string
	// Extract unpacks the jars inside the application's jar; NoHugePages is
	// as in Setup.
	Extract, NoHugePages bool

	// Why says what is saved and Cost what is given up. Breaks is what may
	// stop working, and Undo how to go back where that is more than leaving
	// the options out. Cost, Breaks and Undo may be empty.
	Why, Cost, Breaks, Undo string
	// Mark says that the options are not for production; Placement that they
	// change nothing but where things are, so that they are tried anyway.
	Mark      Mark
	Placement bool
	// Slows says that it may cost speed: it is tried by itself.
	Slows bool
	// Waits says that it may have threads wait for each other: processor time does
	// not tell what it costs.
	Waits bool
	// Last says that what it saves depends on all others: it is tried after them.
	Last bool
	// ByCurve says that it sizes the heap by what collections were seen to cost: it
	// is tried at the very end.
	ByCurve bool
	// NothingBeside are the IDs of levers beside which it does nothing.
	NothingBeside []string
	// Since is the first release that has the options, Before the first that
	// no longer needs them; zero is no bound. Flag is one that the JVM must be
	// seen to have, as far as its flags can be seen: builds differ.
	Since, Before jvmopts.Release
	Flag          string
	// Moot is the value of Flag with which nothing is left to do.
	Moot string
	// Rows are the rows of a footprint that it can make smaller.
	Rows []footprint.Owner

	// Scales are how many times as often code may run before it is compiled, the
	// most first; empty where the lever does not set that.
	Scales []Scale

	// Own says that it is the user's: what it adds is taken as it stands, and it is
	// tried before others that may cost speed.
	Own bool
	// Blind says that it is tried where no footprint tells what it could save.
	Blind bool

	// bound is the most that it could save, by a ledger.
	bound func(Ledger) int64
}

// Scale is how many times as often code runs before it is compiled, and the share
// of its speed that an application which has just started is expected to keep: about
// what a service with Camel keeps with C1 alone (docs/results/hot-code.md; with an
// AOT cache, by hand, 0.77 and 0.91 of 1719 requests a second). Others keep more.
type Scale struct {
	Times int
	Keeps float64
}

func feature(n int) jvmopts.Release { return jvmopts.Release{Feature: n} }

const archiveCost = "a file to be made anew for each build of the application and each JDK; its address is predictable"

// hotCode completes a form of the lever that has hot code alone compiled.
func hotCode(l Lever) Lever {
	l.ID, l.Name, l.Blind, l.Slows = "hot", "hot code alone compiled", true, true
	l.Why = "what runs a few hundred times, most of it at the start, stays interpreted: less code, and less of what HotSpot keeps in malloc for each method compiled"
	l.Cost = "code runs 10 to 30 times as often before it is compiled: a slower start, without an AOT cache, and a slower warm-up"
	l.Rows, l.bound = []footprint.Owner{footprint.CodeCache, footprint.Malloc}, boundHot
	return l
}

var unlockRelocation = []string{"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"}

// Levers are the built-in ones. Those that cost no speed are tried together,
// first; then those that may, one by one; then class archives, which fit one
// set of options alone, with hot code alone compiled; and the heap at the end.
var Levers = []Lever{
	{
		ID: "collector", Blind: true, Name: "serial collector, heap by live set",
		Options: []string{"-XX:+UseSerialGC", "-Xmx{heap}m", "-XX:+ExitOnOutOfMemoryError"},
		Why:     "the collector without remembered sets and threads; a heap sized by what survives collections",
		Cost:    "pauses grow with the live set",
		Breaks:  "a live set that outgrows the heap ends the application, which restarts",
		Since:   jvmopts.Release{Feature: 8, Update: 92},
		Rows:    []footprint.Owner{footprint.JavaHeap, footprint.GC},
		bound:   boundCollector,
	},
	{
		ID: "arenas", Blind: true, Waits: true, Name: "one malloc arena",
		Env:   []string{"MALLOC_ARENA_MAX=1"},
		Why:   "glibc keeps freed memory per arena, and makes one per thread up to 8 per processor",
		Cost:  "threads that call malloc at the same time wait for each other",
		Since: feature(8), Rows: []footprint.Owner{footprint.Malloc}, bound: boundArenas,
	},
	{
		ID: "trim", NothingBeside: []string{"arenas"}, Name: "native heap trimmed",
		Options: []string{"-XX:TrimNativeHeapInterval=5000"},
		Why:     "gives back what glibc keeps of freed memory, every 5 s (JDK-8293114)",
		Cost:    "a short lock on each arena",
		Since:   jvmopts.Release{Feature: 17, Update: 12}, Flag: "TrimNativeHeapInterval",
		Rows: []footprint.Owner{footprint.Malloc}, bound: boundTrim,
	},
	{
		ID: "relocation", Blind: true, Name: "class archive not relocated",
		Options: unlockRelocation,
		Why:     "its pages stay clean and backed by the file: shared, and free to be dropped",
		Cost:    "the archive's address is predictable",
		Mark:    Diagnostic, Placement: true,
		Since: feature(17), Flag: "ArchiveRelocationMode", Moot: "0", Rows: []footprint.Owner{footprint.CDS}, bound: boundRelocation,
	},
	{
		ID: "headers", Blind: true, Name: "compact object headers",
		Options: []string{"-XX:+UseCompactObjectHeaders"},
		Why:     "4 bytes less for each object (JEP 519)",
		Since:   feature(25), Flag: "UseCompactObjectHeaders", Moot: "true",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeaders,
	},
	{
		ID: "headers", Blind: true, Name: "compact object headers",
		Options: []string{"-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders"},
		Why:     "4 bytes less for each object (JEP 450)",
		Mark:    Experimental,
		Since:   feature(24), Before: feature(25),
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeaders,
	},
	{
		ID: "stacks", Name: "thread stacks of 512 KiB",
		Options: []string{"-Xss512k"},
		Why:     "what a thread can touch; -Xss reserves address space, so that only stacks that grew beyond count",
		Breaks:  "deep recursion ends in StackOverflowError",
		Since:   feature(8), Rows: []footprint.Owner{footprint.ThreadStacks}, bound: boundStacks,
	},
	{
		ID: "perfdata", Name: "no performance data",
		Options: []string{"-XX:-UsePerfData"},
		Why:     "32 KiB of counters in a file that is mapped",
		Breaks:  "jps, jstat and tare find the JVM less easily; the time in collections is in its log alone (-Xlog:gc)",
		Since:   feature(8), Flag: "UsePerfData", Moot: "false", Rows: []footprint.Owner{footprint.JVMOther}, bound: boundPerfData,
	},
	{
		ID: "hugepages", Name: "no transparent huge pages", NoHugePages: true,
		Why:    "a page of 2 MiB is resident as a whole (JDK-8312182)",
		Cost:   "more misses of the processor's address cache in large heaps",
		Undo:   "start it without the prctl: tare exec makes it where stacks would become huge",
		Since:  feature(8),
		Breaks: "nothing: -XX:+UseTransparentHugePages is left without effect",
		Rows:   []footprint.Owner{footprint.ThreadStacks, footprint.Malloc, footprint.JavaHeap}, bound: boundHugePages,
	},
	{
		ID: "c1", Blind: true, Name: "C1 alone",
		Options: []string{"-XX:TieredStopAtLevel=1"},
		Why:     "without C2: none of its working memory, smaller code, no profiles",
		Cost:    "hot code runs slower once warm",
		Slows:   true, Since: feature(8), Before: feature(22), Flag: "TieredStopAtLevel", Moot: "1",
		Rows: []footprint.Owner{footprint.Malloc, footprint.CodeCache, footprint.Metaspace}, bound: boundC1,
	},
	{
		ID: "c1", Blind: true, Name: "C1 alone, its compilations bounded",
		Options: []string{"-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=MemLimit,*.*,3m"},
		Why:     "without C2: none of its working memory, smaller code, no profiles; nor more than 3 MiB for one compilation (JDK-8318016)",
		Cost:    "hot code runs slower once warm; the few methods whose compilation would need more stay interpreted",
		Slows:   true, Since: feature(22), Flag: "TieredStopAtLevel", Moot: "1",
		Rows: []footprint.Owner{footprint.Malloc, footprint.CodeCache, footprint.Metaspace}, bound: boundC1,
	},
	hotCode(Lever{
		Options: []string{"-XX:Tier3InvocationThreshold={scale*2}00", "-XX:Tier3MinInvocationThreshold={scale}00", "-XX:Tier3CompileThreshold={scale*2}000", "-XX:Tier3BackEdgeThreshold={scale*6}0000"},
		Scales:  []Scale{{30, 0.65}},
		Since:   feature(8), Before: feature(9), Flag: "Tier3InvocationThreshold",
	}),
	hotCode(Lever{
		Options: []string{"-XX:CompileThresholdScaling={scale}"},
		Scales:  []Scale{{30, 0.4}, {10, 0.5}},
		Since:   feature(9), Before: feature(25), Flag: "CompileThresholdScaling",
	}),
	hotCode(Lever{
		Options: []string{"-XX:CompileThresholdScaling={scale}"},
		// The AOT cache tells what was hot in training, which is compiled sooner (JEP 515).
		Scales: []Scale{{30, 0.65}, {10, 0.85}},
		Since:  feature(25), Flag: "CompileThresholdScaling",
	}),
	{
		ID: "ratios", NothingBeside: []string{"collector"}, Name: "heap given back after collections",
		Options: []string{"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"},
		Why:     "a heap that grew shrinks again to what lives and 40 %",
		Cost:    "more collections",
		Slows:   true, Since: feature(8), Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundRatios,
	},
	{
		ID: "periodic", NothingBeside: []string{"collector"}, Name: "periodic collections",
		Options: []string{"-XX:G1PeriodicGCInterval=10000"},
		Why:     "G1 collects and gives memory back when the application idles (JEP 346)",
		Cost:    "a concurrent cycle every 10 s",
		Slows:   true, Since: feature(12), Flag: "G1PeriodicGCInterval",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundPeriodic,
	},
	{
		ID: "dedup", NothingBeside: []string{"collector"}, Name: "string deduplication",
		Options: []string{"-XX:+UseStringDeduplication"},
		Why:     "strings of one content share it (JEP 192; Serial since 18)",
		Cost:    "a thread, and a table of strings",
		Slows:   true, Since: feature(18), Flag: "UseStringDeduplication", Moot: "true",
		Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundDedup,
	},
	{
		ID: "processors", Name: "sized for the processors it may use",
		Options: []string{"-XX:ActiveProcessorCount={cpus}"},
		Why:     "threads of collector, compilers and pools go by the processors that the JVM sees",
		Cost:    "idle processors stay idle",
		Slows:   true, Since: jvmopts.Release{Feature: 8, Update: 191}, Flag: "ActiveProcessorCount",
		Rows: []footprint.Owner{footprint.ThreadStacks, footprint.Malloc, footprint.GC}, bound: boundProcessors,
	},
	{
		ID: "compilers", NothingBeside: []string{"c1"}, Name: "two compiler threads",
		Options: []string{"-XX:CICompilerCount=2"},
		Why:     "each thread has a working memory of its own; their number goes by the processors",
		Cost:    "a slower warm-up",
		Slows:   true, Since: feature(8), Flag: "CICompilerCount", Moot: "2",
		Rows: []footprint.Owner{footprint.Malloc, footprint.ThreadStacks}, bound: boundCompilers,
	},
	{
		ID: "jars", Blind: true, Name: "nested jars extracted", Extract: true,
		Why:    "classes come from plain jars: no unpacking in memory, and class archives hold them",
		Cost:   "another layout in the image",
		Undo:   "start the jar as built",
		Since:  feature(8),
		Breaks: "what looks for its own jar finds a folder of jars beside it",
		Rows:   []footprint.Owner{footprint.JavaHeap, footprint.Malloc}, bound: boundJars,
	},
	{
		ID: "archive", Blind: true, Name: "application class archive",
		Options:     []string{"-XX:SharedArchiveFile={archive}"},
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file instead of metaspace (JEP 350)",
		Cost:        "a file to be made anew for each build of the application and each JDK",
		Undo:        "leave the option out, and remove the file",
		Since:       feature(13), Before: feature(17), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.MappedFiles}, bound: boundArchive,
	},
	{
		ID: "archive", Blind: true, Name: "application class archive",
		Options:     append([]string{"-XX:SharedArchiveFile={archive}"}, unlockRelocation...),
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file, as clean pages instead of metaspace (JEP 350); not relocated, or they were dirty",
		Cost:        archiveCost, Undo: "leave the option out, and remove the file",
		Mark: Diagnostic, Placement: true,
		Since: feature(17), Before: feature(25), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.CDS}, bound: boundArchive,
	},
	{
		ID: "archive", Blind: true, Name: "AOT cache",
		// The cache has objects of the heap. Where they do not fit into the heap that the
		// JVM begins with, by default a 64th of the limit, it does not start: "Try increasing
		// your heap size" (aotMetaspace.cpp). It must not depend on the limit.
		Options:     append([]string{"-XX:AOTCache={archive}", "-XX:InitialHeapSize={initial}m"}, unlockRelocation...),
		TrainOption: "-XX:AOTCacheOutput={archive}",
		Why:         "classes come loaded and linked from a file, as clean pages instead of metaspace (JEP 514); not relocated, or they were dirty",
		Cost:        archiveCost, Undo: "leave the option out, and remove the file",
		Mark: Diagnostic, Placement: true,
		Since: feature(25), Rows: []footprint.Owner{footprint.Metaspace, footprint.ClassSpace, footprint.CDS}, bound: boundArchive,
	},
	{
		ID: "code", Last: true, Name: "smaller code cache",
		Options: []string{"-XX:ReservedCodeCacheSize={code}m"},
		Why:     "code that is rarely used is dropped",
		Cost:    "it is compiled again when it is needed",
		Breaks:  "code for longer or other load than the trials' may fill it, and is interpreted then",
		Slows:   true, Since: feature(8), Flag: "ReservedCodeCacheSize", Rows: []footprint.Owner{footprint.CodeCache}, bound: boundCode,
	},
	{
		ID: "heap", Blind: true, ByCurve: true, Name: "tighter heap",
		Options: []string{"-Xmx{heap}m", "-Xmn{young}m"},
		Why:     "as little heap as collections allow before their cost rises, by the curve of the trials",
		Cost:    "less room for a larger live set than the load made",
		Breaks:  "as with the collector",
		Since:   feature(8), Rows: []footprint.Owner{footprint.JavaHeap}, bound: boundHeap,
	},
}

// sizes are the values of a lever's placeholders. Bytes.
type sizes struct {
	heap, young, initial, code int64
	cpus, scale                int
	archive, jar               string
}

// setup is what the lever adds.
func (l Lever) setup(v sizes) Setup {
	n := func(bytes int64) string { return strconv.FormatInt((bytes+mib-1)/mib, 10) }
	r := strings.NewReplacer("{heap}", n(v.heap), "{young}", n(v.young), "{initial}", n(v.initial), "{code}", n(v.code), "{cpus}", strconv.Itoa(v.cpus), "{archive}", v.archive,
		"{scale}", strconv.Itoa(v.scale), "{scale*2}", strconv.Itoa(2*v.scale), "{scale*6}", strconv.Itoa(6*v.scale))
	s := Setup{Env: slices.Clone(l.Env), NoHugePages: l.NoHugePages}
	if l.Own {
		s.Options = slices.Clone(l.Options)
		return s
	}
	for _, o := range l.Options {
		s.Options = append(s.Options, r.Replace(o))
	}
	if l.Extract {
		s.Jar = v.jar
	}
	return s
}

// TrainingOf is the option of a training run that makes the class archive which an
// option of a lever uses, and the archive's file; ok says that it uses one.
func TrainingOf(option string) (train, file string, ok bool) {
	for _, l := range Levers {
		for _, o := range l.Options {
			if file, found := strings.CutPrefix(option, strings.TrimSuffix(o, "{archive}")); found && strings.HasSuffix(o, "{archive}") {
				return strings.ReplaceAll(l.TrainOption, "{archive}", file), file, true
			}
		}
	}
	return "", "", false
}

// same says that two are forms of one lever.
func (l Lever) same(o Lever) bool { return l.ID == o.ID }

// needless says that it does nothing beside another lever: in a heap of a fixed size,
// say, fewer strings leave more of it free, and as much resident.
func (l Lever) needless(beside Lever) bool { return slices.Contains(l.NothingBeside, beside.ID) }

// sizesHeap says that the lever sets the heap.
func (l Lever) sizesHeap() bool { return slices.Contains(l.Options, "-Xmx{heap}m") }

// Facts is what decides which levers are open.
type Facts struct {
	Release jvmopts.Release
	Given   jvmopts.Options
	// Flags are those that the JVM was seen to have; nil where none could be
	// seen.
	Flags map[string]string
	// CPUs are the processors that the application may use, 0 for no quota.
	CPUs float64
	// Nested says that the application's jar holds jars.
	Nested bool
	// Inherits says that the application inherits what its starter sets of a
	// process.
	Inherits bool
	// ReadAheadBytes is how much the disk of the JDK reads at once.
	ReadAheadBytes int64
	// Allow are the marks whose levers are tried; Placement needs none.
	Allow []Mark
}

// open is the lever without the options that the user has decided already, and
// whether anything is left of it; reason says why not.
func (l Lever) open(f Facts) (left Lever, ok bool, reason string) {
	if reason := l.closed(f); reason != "" {
		return l, false, reason
	}
	left = l
	left.Options, left.Env = nil, nil
	for _, o := range l.Options {
		if c, taken := f.Given.Conflict(o); taken {
			reason = "yours: " + c.By.String()
			if strings.Contains(o, "{archive}") || strings.HasPrefix(o, "-XX:+Unlock") {
				return l, false, reason
			}
			continue
		}
		left.Options = append(left.Options, o)
	}
	for _, e := range l.Env {
		if c, taken := f.Given.Conflict(e); taken {
			reason = "yours: " + c.By.String()
			continue
		}
		left.Env = append(left.Env, e)
	}
	if l.ByCurve && !left.sizesHeap() {
		return l, false, reason
	}
	decides := slices.ContainsFunc(left.Options, func(o string) bool {
		f := jvmopts.FamiliesOf(o)
		return len(f) > 0 && !slices.Contains(f, jvmopts.OutOfMemory)
	})
	return left, decides || l.Own && len(left.Options) > 0 || len(left.Env) > 0 || l.Extract || l.NoHugePages, reason
}

// isFor says that the release has the lever's options, and needs them.
func (l Lever) isFor(r jvmopts.Release) bool {
	return r.AtLeast(l.Since) && (l.Before.Feature == 0 || !r.AtLeast(l.Before))
}

// closed says why this JVM or application cannot have the lever, or "".
func (l Lever) closed(f Facts) string {
	value, seen := f.Flags[l.Flag]
	switch {
	case !f.Release.AtLeast(l.Since):
		return fmt.Sprintf("needs JDK %d", l.Since.Feature)
	case !l.isFor(f.Release):
		return fmt.Sprintf("up to JDK %d", l.Before.Feature-1)
	case seen && l.Moot != "" && value == l.Moot:
		return "the JVM has it so already"
	case !seen && l.Flag != "" && f.Flags != nil:
		return fmt.Sprintf("this JVM has no %s", l.Flag)
	case l.Extract && !f.Nested:
		return "the application's jar holds no jars"
	case l.NoHugePages && !f.Inherits:
		return "the application is not started by this process"
	case l.Mark != "" && !l.Placement && !slices.Contains(f.Allow, l.Mark):
		return fmt.Sprintf("its options are %s: --allow %s", l.Mark, l.Mark)
	}
	return ""
}

// ParseAllow reads a list of marks, or none.
func ParseAllow(list string) ([]Mark, error) {
	var out []Mark
	for word := range strings.FieldsFuncSeq(list, isComma) {
		m := Mark(word)
		if m != Diagnostic && m != Experimental {
			return nil, fmt.Errorf("%q is neither %s nor %s", word, Diagnostic, Experimental)
		}
		out = append(out, m)
	}
	return out, nil
}

func isComma(r rune) bool { return r == ',' || r == ' ' }

// SelectLevers reads a list such as "c1,heap" or "-archive,-c1": the levers
// named, or all but those with a minus.
func SelectLevers(all []Lever, list string) ([]Lever, error) {
	wanted, unwanted := map[string]bool{}, map[string]bool{}
	for word := range strings.FieldsFuncSeq(list, isComma) {
		id, without := strings.CutPrefix(word, "-")
		if !slices.ContainsFunc(all, func(l Lever) bool { return l.ID == id }) {
			return nil, fmt.Errorf("%q is no lever: there are %s", word, strings.Join(leverIDs(all), ", "))
		}
		if without {
			unwanted[id] = true
		} else {
			wanted[id] = true
		}
	}
	var out []Lever
	for _, l := range all {
		if (len(wanted) == 0 || wanted[l.ID]) && !unwanted[l.ID] {
			out = append(out, l)
		}
	}
	return out, nil
}

func leverIDs(all []Lever) []string {
	var ids []string
	for _, l := range all {
		if !slices.Contains(ids, l.ID) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
