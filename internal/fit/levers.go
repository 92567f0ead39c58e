package fit

import (
	"fmt"
	"slices"
	"strings"

	"tare/internal/jvmopts"
)

const mib = 1 << 20

// Setup is what is added to the command as given.
type Setup struct {
	Options []string
	Env     []string // "NAME=value"
}

// with is the setup with more added; an option of the same family replaces the
// earlier one.
func (s Setup) with(options, env []string) Setup {
	out := Setup{Options: slices.Clone(s.Options), Env: slices.Clone(s.Env)}
	for _, o := range options {
		families := jvmopts.FamiliesOf(o)
		out.Options = slices.DeleteFunc(out.Options, func(old string) bool {
			return old == o || slices.ContainsFunc(jvmopts.FamiliesOf(old), func(f jvmopts.Family) bool { return slices.Contains(families, f) })
		})
		out.Options = append(out.Options, o)
	}
	for _, e := range env {
		if !slices.Contains(out.Env, e) {
			out.Env = append(out.Env, e)
		}
	}
	return out
}

// empty says that nothing is added to what was given.
func (s Setup) empty() bool { return len(s.Options) == 0 && len(s.Env) == 0 }

// heapBytes is the -Xmx of the setup, 0 without one.
func (s Setup) heapBytes() int64 {
	for _, o := range s.Options {
		var n int64
		if _, err := fmt.Sscanf(o, "-Xmx%dm", &n); err == nil {
			return n * mib
		}
	}
	return 0
}

// Lever is one way to get by on less memory: options and environment that are
// tried together.
type Lever struct {
	Name string
	// Options and Env are added; "{heap}" becomes the heap in MiB and
	// "{archive}" the file of the class archive.
	Options []string
	Env     []string
	// HeapFactors are heap sizes to try, in live sets; the first that works
	// is taken.
	HeapFactors []float64
	// TrainOption makes the class archive in a training run, which ends
	// before the lever is tried; empty where none is needed.
	TrainOption string
	// Why says what is saved, Cost what is given up; Cost may be empty.
	Why, Cost string
	// Since is the first release that has the options, Before the first that
	// no longer needs them; zero is no bound.
	Since, Before jvmopts.Release
}

// Levers are the built-in ones, in the order in which they are tried: each on
// top of those before it that helped.
//
// Not among them, for they cost or save nothing resident: -Xss and
// -XX:ReservedCodeCacheSize reserve address space, which is not memory;
// -XX:-UsePerfData saves 32 KiB and takes away the evidence of collections.
var Levers = []Lever{
	{
		Name:        "serial collector, heap by live set",
		Options:     []string{"-XX:+UseSerialGC", "-Xmx{heap}m", "-XX:+ExitOnOutOfMemoryError"},
		HeapFactors: []float64{2.5, 4},
		Why:         "the collector without remembered sets and threads; a heap sized by what survives collections",
		Cost:        "pauses grow with the live set",
		Since:       jvmopts.Release{Feature: 8, Update: 92},
	},
	{
		Name:    "C1 alone",
		Options: []string{"-XX:TieredStopAtLevel=1"},
		Why:     "without C2: none of its working memory, smaller code, no profiles",
		Cost:    "hot code runs slower once warm",
		Since:   jvmopts.Release{Feature: 8},
	},
	{
		Name:  "one malloc arena",
		Env:   []string{"MALLOC_ARENA_MAX=1"},
		Why:   "glibc keeps freed memory per arena, and makes one per thread up to 8 per processor",
		Cost:  "threads that call malloc at the same time wait for each other",
		Since: jvmopts.Release{Feature: 8},
	},
	{
		Name:    "class archive not relocated",
		Options: []string{"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"},
		Why:     "its pages stay clean and backed by the file: shared, and free to be dropped",
		Cost:    "the archive's address is predictable; the option is a diagnostic one",
		Since:   jvmopts.Release{Feature: 17},
	},
	{
		Name:    "compact object headers",
		Options: []string{"-XX:+UseCompactObjectHeaders"},
		Why:     "8 bytes less for each object (JEP 519)",
		Since:   jvmopts.Release{Feature: 25},
		Before:  jvmopts.Release{Feature: 27}, // the default from there on
	},
	{
		Name:        "application class archive",
		Options:     []string{"-XX:SharedArchiveFile={archive}"},
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file instead of metaspace (JEP 350)",
		Cost:        "a file to be made anew for each build of the application and each JDK",
		Since:       jvmopts.Release{Feature: 13},
		Before:      jvmopts.Release{Feature: 17},
	},
	{
		Name:        "application class archive",
		Options:     []string{"-XX:SharedArchiveFile={archive}", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"},
		TrainOption: "-XX:ArchiveClassesAtExit={archive}",
		Why:         "classes come parsed and ready from a file, as clean pages instead of metaspace (JEP 350); not relocated, or they were dirty",
		Cost:        "a file to be made anew for each build of the application and each JDK; its address is predictable",
		Since:       jvmopts.Release{Feature: 17},
		Before:      jvmopts.Release{Feature: 25},
	},
	{
		Name:        "AOT cache",
		Options:     []string{"-XX:AOTCache={archive}", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"},
		TrainOption: "-XX:AOTCacheOutput={archive}",
		Why:         "classes come loaded and linked from a file, as clean pages instead of metaspace (JEP 514); not relocated, or they were dirty",
		Cost:        "a file to be made anew for each build of the application and each JDK; its address is predictable",
		Since:       jvmopts.Release{Feature: 25},
	},
	{
		Name:        "tighter heap",
		Options:     []string{"-Xmx{heap}m"},
		HeapFactors: []float64{1.5},
		Why:         "collects more often in less memory",
		Cost:        "less room for a larger live set than the load made",
		Since:       jvmopts.Release{Feature: 8},
	},
}

// minHeap is the smallest heap that is tried.
const minHeap = 6 * mib

// heapFor is the heap for a live set, in whole MiB.
func heapFor(live int64, factor float64) int64 {
	return max(minHeap, (int64(float64(live)*factor)+mib-1)/mib*mib)
}

// variants are the settings of a lever, to be tried in turn.
func (l Lever) variants(live int64, archive string) []Setup {
	factors := l.HeapFactors
	if len(factors) == 0 {
		factors = []float64{0}
	}
	var out []Setup
	for _, f := range factors {
		heap := fmt.Sprint(heapFor(live, f) / mib)
		r := strings.NewReplacer("{heap}", heap, "{archive}", archive)
		var s Setup
		for _, o := range l.Options {
			s.Options = append(s.Options, r.Replace(o))
		}
		s.Env = slices.Clone(l.Env)
		out = append(out, s)
	}
	return out
}

// Facts is what decides which levers are open.
type Facts struct {
	Release jvmopts.Release
	Given   jvmopts.Options
}

// open is the lever without the options that the user has decided already, and
// whether anything is left of it; reason says why not.
func (l Lever) open(f Facts) (left Lever, ok bool, reason string) {
	if !f.Release.AtLeast(l.Since) {
		return l, false, fmt.Sprintf("needs JDK %d", l.Since.Feature)
	}
	if l.Before.Feature > 0 && f.Release.AtLeast(l.Before) {
		return l, false, fmt.Sprintf("up to JDK %d", l.Before.Feature-1)
	}
	left = l
	left.Options, left.Env = nil, nil
	for _, o := range l.Options {
		if c, taken := f.Given.Conflict(o); taken {
			reason = "yours: " + c.By.String()
			if strings.Contains(o, "{archive}") || strings.HasPrefix(o, "-XX:+Unlock") {
				return l, false, reason
			}
			if strings.Contains(o, "{heap}") {
				left.HeapFactors = nil
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
	decides := slices.ContainsFunc(left.Options, func(o string) bool {
		f := jvmopts.FamiliesOf(o)
		return len(f) > 0 && !slices.Contains(f, jvmopts.OutOfMemory)
	})
	return left, decides || len(left.Env) > 0, reason
}
