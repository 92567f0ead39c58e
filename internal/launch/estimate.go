package launch

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Part is one part of what a JVM needs beside its heap: resident bytes that a
// limit counts and that cannot be dropped, and files that run often.
type Part struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
}

// shape is what the estimate depends on.
type shape struct {
	// classes is how many will be loaded, archived those of them that come
	// from the class archive instead of their jars.
	classes, archived int64
	threads           int64
	archiveBytes      int64
	relocated         bool
	compilers         compilers
	collector         string // "Serial", "G1", …, "" is the JVM's choice
	cpus              int
	directBytes       int64
	othersBytes       int64 // of other processes, on a machine without limit
}

// compilers says how bytecode is run.
type compilers int

const (
	tiered compilers = iota // C1 and C2
	c1Only
	interpreter
)

// What the estimate is made of. The figures were measured on HotSpot 8 to 27 on
// amd64 with the demo service (docs/exec.md has them), rounded up.
const (
	// librariesBytes is the data of the JVM's and the C library, and the pages
	// of their code that run often; up to 25 MiB are mapped.
	librariesBytes = 14 * mib
	// classBytes is metaspace for one class that is loaded from a jar.
	classBytes = 6656
	// A relocated archive becomes private up to 72 %, another up to 31 %.
	relocatedPercent, unrelocatedPercent = 75, 32
	// compiledBytes and c1Bytes are code of a class, codeBytes the interpreter's
	// and stubs.
	codeBytes, compiledBytes, c1Bytes = 2 * mib, 2 * kib, 1 * kib
	// profileBytes is what C1 counts for C2 in a class (MethodData).
	profileBytes = 1 * kib
	// mallocBytes is the JVM's own, symbolBytes that of a class.
	mallocBytes, symbolBytes = 7 * mib, 1536
	// c2Bytes is what C2 works in, for each of its threads.
	c2Bytes = 18 * mib
	// threadBytes is the touched part of a stack, with 16 KiB in the kernel.
	threadBytes = 96 * kib
	// kernelBytes is page tables, socket buffers and so on.
	kernelBytes = 2 * mib
)

// rest is what the JVM needs beside the heap and what grows with it.
func (s shape) rest() []Part {
	parts := []Part{
		{"JVM and libraries", librariesBytes},
		{fmt.Sprintf("%d classes", s.classes), max(0, s.classes-s.archived) * classBytes},
		{"class archive", s.archiveDirty()},
		{"compiled code", s.code()},
		{"malloc", s.malloc()},
		{fmt.Sprintf("%d threads", s.threads), s.threads * threadBytes},
		{"collector", collectorFixed(s.collector)},
		{"kernel", kernelBytes},
	}
	if s.directBytes > 0 {
		parts = append(parts, Part{"direct buffers", s.directBytes})
	}
	if s.othersBytes > 0 {
		parts = append(parts, Part{"others on this machine", s.othersBytes})
	}
	return parts
}

func (s shape) archiveDirty() int64 {
	percent := int64(unrelocatedPercent)
	if s.relocated {
		percent = relocatedPercent
	}
	return s.archiveBytes / 100 * percent
}

func (s shape) code() int64 {
	switch s.compilers {
	case tiered:
		return codeBytes + s.classes*(compiledBytes+profileBytes)
	case c1Only:
		return codeBytes + s.classes*c1Bytes
	}
	return codeBytes
}

func (s shape) malloc() int64 {
	n := int64(mallocBytes) + s.classes*symbolBytes
	if s.compilers == tiered {
		n += c2Bytes * c2Threads(s.cpus)
	}
	return n
}

// c2Threads is how many C2 threads are busy at once: of the count that HotSpot
// makes of the processors, log2 n · log2 log2 n · 3/2, two thirds are C2's
// (JDK: CompilationPolicy::initialize), and they rarely work together.
func c2Threads(cpus int) int64 {
	if cpus < 8 {
		return 1
	}
	return 2
}

// collectorFixed is what a collector needs whatever the heap's size, and
// collectorPercent what it needs of it in hundredths: card tables, bitmaps and
// remembered sets, and in G1 regions that are kept free.
func collectorFixed(collector string) int64 {
	switch collector {
	case "Serial", "Epsilon":
		return mib
	case "Parallel":
		return 4 * mib
	}
	return 12 * mib
}

func collectorPercent(collector string) int64 {
	switch collector {
	case "Serial", "Epsilon":
		return 1
	case "Parallel":
		return 2
	}
	return 5
}

func total(parts []Part) int64 {
	var n int64
	for _, p := range parts {
		n += p.Bytes
	}
	return n
}

// reserve is kept free of every estimate: page cache, buffers, what an estimate
// misses. headroom is a percentage on top.
func reserve(limit, headroom int64) int64 {
	return max(6*mib, limit/100*8) + limit/100*headroom
}

// Bounds of a heap that is worth setting.
const (
	minHeapBytes = 12 * mib
	// heapStep is what HotSpot rounds the heap up to, below 4 GiB in every
	// collector.
	heapStep = 2 * mib
	// heapShare of the limit is the largest heap: applications have memory of
	// their own outside of the heap, and Java bounds none of it.
	heapShare = 80
	// leastShare of the limit is the smallest; below it the estimate is taken
	// to be wrong rather than the heap to be so small.
	leastShare = 12
)

// heapFor is the largest heap with which everything fits; false
// when there is none.
func (s shape) heapFor(limit, headroom int64) (int64, bool) {
	left := limit - reserve(limit, headroom) - total(s.rest())
	heap := left * 100 / (100 + collectorPercent(s.collector))
	heap = min(heap, limit/100*heapShare) / heapStep * heapStep
	return heap, heap >= max(minHeapBytes, limit/100*leastShare)
}

// The part of an application's classes that is loaded, and the classes of the
// JDK that a service loads: 0.35 of all classes is what the memory calculators
// of Cloud Foundry and Paketo reckon with; the demo service loads 0.4 of its
// own and 1600 of the JDK's.
const (
	loadedPercent = 40
	jdkClasses    = 1600
	// archivedClasses are those of the JDK in its default archive that are
	// loaded by nearly every application, of the 1300 that are in it.
	archivedClasses = 1200
	maxClasses      = 1 << 20
	// threadsGuess is the demo service's number, and that of a small pool.
	threadsGuess = 48
)

// hints are what the users of the buildpacks' memory calculator set (Paketo
// libjvm, helper/memory_calculator.go).
type hints struct {
	headroom int64 // percent of the limit to keep free
	threads  int64 // 0: not set
	classes  int64 // loaded; 0: not set
	adjust   string
}

// readHints reads BPL_JVM_*. A value that is no number in its range is ignored
// and named in the problems.
func readHints(env []string) (hints, []string) {
	var h hints
	var problems []string
	number := func(name string, most int64) int64 {
		text := getenv(env, name)
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > most {
			problems = append(problems, fmt.Sprintf("%s=%.40q is ignored: give a whole number from 0 to %d", name, text, most))
			return 0
		}
		return n
	}
	h.headroom = number("BPL_JVM_HEAD_ROOM", 100)
	h.threads = number("BPL_JVM_THREAD_COUNT", 1<<20)
	h.classes = number("BPL_JVM_LOADED_CLASS_COUNT", maxClasses)
	if h.adjust = getenv(env, "BPL_JVM_CLASS_ADJUSTMENT"); h.adjust != "" {
		if _, err := adjust(0, h.adjust); err != nil {
			problems = append(problems, fmt.Sprintf("BPL_JVM_CLASS_ADJUSTMENT=%.40q is ignored: give a number of classes such as 500, or a percentage such as 15%%", h.adjust))
			h.adjust = ""
		}
	}
	return h, problems
}

// adjust adds a number of classes, or a percentage, to n.
func adjust(n int64, by string) (int64, error) {
	digits, percent := strings.CutSuffix(by, "%")
	d, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || d < -maxClasses || d > maxClasses {
		return n, fmt.Errorf("class adjustment %.40q: not a number or percentage", by)
	}
	if percent {
		d = n * d / 100
	}
	return min(maxClasses, max(0, n+d)), nil
}

// loadedClasses is how many classes will be loaded of an application that has
// count of them.
func (h hints) loadedClasses(count int64) int64 {
	if h.classes > 0 {
		return h.classes
	}
	if h.adjust != "" {
		count, _ = adjust(count, h.adjust) // readHints has checked it
	}
	return min(maxClasses, jdkClasses+int64(math.Round(float64(count)*loadedPercent/100)))
}
