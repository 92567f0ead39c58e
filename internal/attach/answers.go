package attach

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/lazy"
)

// ErrAnswer says that the answer to a diagnostic command has a form that no known
// JDK gives it, or that it is not whole.
var ErrAnswer = errors.New("answer of an unknown form")

// maxBytes bounds every size in an answer: no machine addresses more.
const maxBytes = 1 << 52

// scanLines calls do for each line.
func scanLines(r io.Reader, do func(line string) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for n := 1; sc.Scan(); n++ {
		if err := do(sc.Text()); err != nil {
			return fmt.Errorf("line %d: %w: %.120q", n, err, sc.Text())
		}
	}
	return sc.Err()
}

// kib turns digits that count KiB into bytes.
func kib(digits string) (int64, error) { return scaled(digits, "K") }

// units are the units of sizes in answers.
var units = map[string]float64{"B": 1, "bytes": 1, "K": 1 << 10, "KB": 1 << 10, "M": 1 << 20, "MB": 1 << 20, "G": 1 << 30, "GB": 1 << 30}

// scaled turns "97.38", "KB" into bytes.
func scaled(number, unit string) (int64, error) {
	n, err := strconv.ParseFloat(number, 64)
	scale, ok := units[unit]
	if err != nil || !ok || n < 0 || n*scale > maxBytes {
		return 0, fmt.Errorf("%w: bad size %.40q %.10q", ErrAnswer, number, unit)
	}
	return int64(n * scale), nil
}

// heapUsed finds what a part of the heap has in use, as each collector puts it
// (JDK: print_on of src/hotspot/share/gc/*/*Heap.cpp and *Generation.cpp).
var heapUsed = []func() *regexp.Regexp{
	lazy.Regexp(`\btotal (?:reserved )?\d+K.*\bused (\d+)(K)\b`),                       // G1, Serial, CMS, Parallel
	lazy.Regexp(`^ *ZHeap +used (\d+)([KMG])\b`),                                       // ZGC
	lazy.Regexp(`\bcommitted, (\d+)([BKMG]) used`),                                     // Shenandoah
	lazy.Regexp(`^ *(?:the )?space \d+K, +\d+% used \[(0x[0-9a-f]+), *(0x[0-9a-f]+),`), // Epsilon
}

// ParseHeapUsed returns the bytes of the heap that are in use according to
// GC.heap_info. Objects that are dead but not yet collected count.
func ParseHeapUsed(r io.Reader) (int64, error) {
	var used int64
	found, by := false, len(heapUsed)
	err := scanLines(r, func(line string) error {
		for i, re := range heapUsed {
			m := re().FindStringSubmatch(line)
			// A generation comes before its spaces, and counts them.
			if m == nil || found && by != i {
				continue
			}
			n, err := usedOf(m[1], m[2])
			if err != nil {
				return err
			}
			used, found, by = used+n, true, i
			return nil
		}
		return nil
	})
	if err == nil && (!found || used > maxBytes) {
		err = fmt.Errorf("%w: nothing in use", ErrAnswer)
	}
	return used, err
}

// parseRegion reads a range of addresses in hexadecimal.
func parseRegion(from, to string) (hotspot.Region, error) {
	start, err1 := strconv.ParseUint(strings.TrimPrefix(from, "0x"), 16, 64)
	end, err2 := strconv.ParseUint(strings.TrimPrefix(to, "0x"), 16, 64)
	if err1 != nil || err2 != nil || end < start || end-start > maxBytes {
		return hotspot.Region{}, fmt.Errorf("%w: bad range", ErrAnswer)
	}
	return hotspot.Region{Start: start, End: end}, nil
}

// usedOf is a size with its unit, or the distance of two addresses.
func usedOf(a, b string) (int64, error) {
	if !strings.HasPrefix(a, "0x") {
		return scaled(a, b)
	}
	r, err := parseRegion(a, b)
	return r.Size(), err
}

// CodeHeapUse is how much of a code heap holds code.
type CodeHeapUse struct {
	Name      string // the JVM's, such as "profiled nmethods"
	UsedBytes int64
	Memory    hotspot.Region
}

// maxCodeHeaps bounds the parts of the code cache, of which JVMs have at most three.
const maxCodeHeaps = 16

var (
	codeHeap       = lazy.Regexp(`^(?:CodeHeap '([^']+)'|CodeCache): size=\d+Kb,? used=(\d+)Kb`)
	codeHeapBounds = lazy.Regexp(`^ bounds \[(0x[0-9a-f]+), 0x[0-9a-f]+, (0x[0-9a-f]+)\]`)
)

// ParseCodeCache parses Compiler.codecache of JDK 9 and later (JDK:
// src/hotspot/share/code/codeCache.cpp). It skips the sum of all code heaps, which
// later versions add.
func ParseCodeCache(r io.Reader) ([]CodeHeapUse, error) {
	var out []CodeHeapUse
	var last CodeHeapUse
	err := scanLines(r, func(line string) (err error) {
		if m := codeHeap().FindStringSubmatch(line); m != nil {
			last = CodeHeapUse{Name: cmp.Or(m[1], "CodeCache")}
			last.UsedBytes, err = kib(m[2])
			return err
		}
		if m := codeHeapBounds().FindStringSubmatch(line); m != nil && last.Name != "" && len(out) < maxCodeHeaps {
			if last.Memory, err = parseRegion(m[1], m[2]); err != nil {
				return err
			}
			out, last = append(out, last), CodeHeapUse{}
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%w: no code heap", ErrAnswer)
	}
	return out, err
}

// systemMapCategories are the short names of System.map (JDK:
// src/hotspot/share/nmt/memMapPrinter.cpp) by those of native memory tracking.
var systemMapCategories = map[string]string{
	"CARDTBL": "GC", "CDS": "Shared class space", "CLASS": "Class", "CODE": "Code", "GC": "GC",
	"INTERN": "Internal", "JAVAHEAP": "Java Heap", "META": "Metaspace", "POLL": "Safepoint", "STACK": "Thread Stack",
}

// ParseSystemMap parses System.map (JDK 22 and later, and updates of 21; JDK:
// src/hotspot/share/nmt/memMapPrinter.cpp). It returns the mappings that have one
// use. The JVM knows the uses with native memory tracking at summary, too.
func ParseSystemMap(r io.Reader) ([]NMTRegion, error) {
	var out []NMTRegion
	info := -1 // the column that says the use
	err := scanLines(r, func(line string) error {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == "from" && f[1] == "to" {
			info = slices.Index(f, "info") - 1 // a range is one word
		}
		if info < 0 || len(f) <= info || !strings.HasPrefix(line, "0x") {
			return nil
		}
		use, _, _ := strings.Cut(f[info], "-")
		category, ok := systemMapCategories[use]
		if !ok {
			return nil
		}
		from, to, _ := strings.Cut(f[0], "-")
		region, err := parseRegion(from, to)
		if err != nil {
			return err
		}
		if len(out) == maxNMTRegions {
			return fmt.Errorf("%w: more than %d regions", ErrAnswer, maxNMTRegions)
		}
		out = append(out, NMTRegion{region, category})
		return nil
	})
	if err == nil && info < 0 {
		err = fmt.Errorf("%w: no table of mappings", ErrAnswer)
	}
	return out, err
}

// ClassUse is the number and the size of the objects of one class.
type ClassUse struct {
	Name             string // as the JVM writes it, such as "[B" or "java.lang.String"
	Instances, Bytes int64
}

// Histogram lists the objects of the heap by class, the largest sum first.
type Histogram struct {
	Classes          []ClassUse // as many as were asked for, at most
	Instances, Bytes int64      // of all classes
}

// histogramLine takes the name up to the module, which has no blank in it: the
// names of classes that Kotlin compiled may have some.
var histogramLine = lazy.Regexp(`^ *(?:\d+:|(Total)) +(\d+) +(\d+)(?: +(\S.*?)(?: \(\S+\))?)? *$`)

// maxName bounds the bytes that are kept of a name of a class.
const maxName = 1 << 10

// boundedName is a copy of a name of which no more than maxName is kept.
func boundedName(name string) string {
	if len(name) > maxName {
		return strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return strings.Clone(name)
}

// ParseHistogram parses GC.class_histogram (JDK:
// src/hotspot/share/memory/heapInspection.cpp) and keeps the first top classes.
func ParseHistogram(r io.Reader, top int) (*Histogram, error) {
	h := &Histogram{}
	total := false
	err := scanLines(r, func(line string) error {
		m := histogramLine().FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		n, err1 := strconv.ParseInt(m[2], 10, 64)
		bytes, err2 := strconv.ParseInt(m[3], 10, 64)
		if err1 != nil || err2 != nil || n > maxBytes || bytes > maxBytes {
			return fmt.Errorf("%w: bad figures", ErrAnswer)
		}
		if m[1] != "" {
			h.Instances, h.Bytes, total = n, bytes, true
		} else if len(h.Classes) < top && m[4] != "" {
			h.Classes = append(h.Classes, ClassUse{boundedName(m[4]), n, bytes})
		}
		return nil
	})
	if err == nil && !total {
		err = fmt.Errorf("%w: the histogram has no total", ErrAnswer)
	}
	return h, err
}

// MetaspaceUse says how much memory class metadata has, and how much of it is waste.
type MetaspaceUse struct {
	Loaders, Classes int64
	// CommittedBytes includes WasteBytes, which hold nothing.
	CommittedBytes, WasteBytes int64
}

var (
	metaspaceTotal     = lazy.Regexp(`^Total Usage - (\d+) loaders, (\d+) classes`)
	metaspaceCommitted = lazy.Regexp(`^Waste .*total committed size ([0-9.]+) (\w+)\)`)
	metaspaceWaste     = lazy.Regexp(`^ +-total-: +([0-9.]+) (\w+)`)
)

// ParseMetaspace parses VM.metaspace of JDK 11 and later (JDK:
// src/hotspot/share/memory/metaspace/metaspaceReporter.cpp).
func ParseMetaspace(r io.Reader) (*MetaspaceUse, error) {
	u := &MetaspaceUse{}
	inWaste, whole := false, false
	err := scanLines(r, func(line string) (err error) {
		if m := metaspaceTotal().FindStringSubmatch(line); m != nil {
			var err2 error
			u.Loaders, err = strconv.ParseInt(m[1], 10, 32)
			u.Classes, err2 = strconv.ParseInt(m[2], 10, 32)
			return errors.Join(err, err2)
		}
		if m := metaspaceCommitted().FindStringSubmatch(line); m != nil {
			inWaste = true
			u.CommittedBytes, err = scaled(m[1], m[2])
		} else if m := metaspaceWaste().FindStringSubmatch(line); inWaste && m != nil {
			whole = true
			u.WasteBytes, err = scaled(m[1], m[2])
		}
		return err
	})
	if err == nil && (!whole || u.WasteBytes > u.CommittedBytes) {
		err = fmt.Errorf("%w: no sum of the waste", ErrAnswer)
	}
	return u, err
}

// LoaderUse is the classes and the metaspace of all class loaders of one type.
type LoaderUse struct {
	Type             string
	Loaders, Classes int64
	// ChunkBytes is the metaspace that the loaders were given. They use BlockBytes
	// of it.
	ChunkBytes, BlockBytes int64
}

var loaderLine = lazy.Regexp(`^0x[0-9a-f]+ +0x[0-9a-f]+ +0x[0-9a-f]+ +(\d+) +(\d+) +(\d+) +(\S.*)$`)

// maxLoaderTypes bounds the types of class loaders that are told apart.
const maxLoaderTypes = 1 << 12

// ParseLoaders parses VM.classloader_stats (JDK:
// src/hotspot/share/classfile/classLoaderStats.cpp). It adds the class loaders up
// by type and returns the top types with the most metaspace, and the sum of all
// types.
func ParseLoaders(r io.Reader, top int) (types []LoaderUse, all LoaderUse, err error) {
	byType := map[string]*LoaderUse{}
	whole := false
	err = scanLines(r, func(line string) error {
		whole = whole || strings.HasPrefix(line, "Total = ")
		m := loaderLine().FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		var n [3]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(m[i+1], 10, 64); err != nil || n[i] > maxBytes>>20 {
				return fmt.Errorf("%w: bad figure", ErrAnswer)
			}
		}
		name := boundedName(strings.TrimSpace(m[4]))
		if byType[name] == nil && len(byType) < maxLoaderTypes {
			byType[name] = &LoaderUse{Type: name}
		}
		for _, u := range []*LoaderUse{byType[name], &all} {
			if u != nil {
				u.Loaders, u.Classes, u.ChunkBytes, u.BlockBytes = u.Loaders+1, u.Classes+n[0], u.ChunkBytes+n[1], u.BlockBytes+n[2]
			}
		}
		return nil
	})
	if err == nil && !whole {
		err = fmt.Errorf("%w: the class loaders have no total", ErrAnswer)
	}
	for _, u := range byType {
		types = append(types, *u)
	}
	slices.SortFunc(types, func(a, b LoaderUse) int {
		return cmp.Or(cmp.Compare(b.ChunkBytes, a.ChunkBytes), cmp.Compare(b.Loaders, a.Loaders), strings.Compare(a.Type, b.Type))
	})
	return types[:min(len(types), top)], all, err
}
