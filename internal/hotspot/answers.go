package hotspot

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
)

// ErrAnswer says that the answer to a diagnostic command is not of the form
// that its JDK version is known to give.
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
var heapUsed = []*regexp.Regexp{
	regexp.MustCompile(`\btotal (?:reserved )?\d+K.*\bused (\d+)(K)\b`),                       // G1, Serial, CMS, Parallel
	regexp.MustCompile(`^ *ZHeap +used (\d+)([KMG])\b`),                                       // ZGC
	regexp.MustCompile(`\bcommitted, (\d+)([BKMG]) used`),                                     // Shenandoah
	regexp.MustCompile(`^ *(?:the )?space \d+K, +\d+% used \[(0x[0-9a-f]+), *(0x[0-9a-f]+),`), // Epsilon
}

// ParseHeapUsed adds up what GC.heap_info says is in use of the object heap,
// now, dead objects included.
func ParseHeapUsed(r io.Reader) (int64, error) {
	var used int64
	found, by := false, len(heapUsed)
	err := scanLines(r, func(line string) error {
		for i, re := range heapUsed {
			m := re.FindStringSubmatch(line)
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

// usedOf is a size with its unit, or the distance of two addresses.
func usedOf(a, b string) (int64, error) {
	if !strings.HasPrefix(a, "0x") {
		return scaled(a, b)
	}
	from, err1 := strconv.ParseUint(a[2:], 16, 64)
	to, err2 := strconv.ParseUint(strings.TrimPrefix(b, "0x"), 16, 64)
	if err1 != nil || err2 != nil || to < from || to-from > maxBytes {
		return 0, fmt.Errorf("%w: bad range", ErrAnswer)
	}
	return int64(to - from), nil
}

// CodeHeapUse is what of a code heap holds code.
type CodeHeapUse struct {
	Name      string // the JVM's, such as "profiled nmethods"
	UsedBytes int64
	Memory    Region
}

var (
	codeHeap       = regexp.MustCompile(`^(?:CodeHeap '([^']+)'|CodeCache): size=\d+Kb,? used=(\d+)Kb`)
	codeHeapBounds = regexp.MustCompile(`^ bounds \[(0x[0-9a-f]+), 0x[0-9a-f]+, (0x[0-9a-f]+)\]`)
)

// ParseCodeCache parses Compiler.codecache (JDK 9 on:
// src/hotspot/share/code/codeCache.cpp). The sum over the heaps that later
// versions add has no bounds and is passed over.
func ParseCodeCache(r io.Reader) ([]CodeHeapUse, error) {
	var out []CodeHeapUse
	var last CodeHeapUse
	err := scanLines(r, func(line string) (err error) {
		if m := codeHeap.FindStringSubmatch(line); m != nil {
			last = CodeHeapUse{Name: cmp.Or(m[1], "CodeCache")}
			last.UsedBytes, err = kib(m[2])
			return err
		}
		if m := codeHeapBounds.FindStringSubmatch(line); m != nil && last.Name != "" && len(out) < maxCodeHeaps {
			from, err1 := strconv.ParseUint(m[1][2:], 16, 64)
			to, err2 := strconv.ParseUint(m[2][2:], 16, 64)
			last.Memory = Region{from, to}
			out, last = append(out, last), CodeHeapUse{}
			return errors.Join(err1, err2)
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

// ParseSystemMap parses the mappings that System.map (JDK 22 on, and its
// backports) says one use for. The JVM knows them with native memory tracking
// at summary too; a mapping of several uses has none here.
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
		start, err1 := strconv.ParseUint(strings.TrimPrefix(from, "0x"), 16, 64)
		end, err2 := strconv.ParseUint(strings.TrimPrefix(to, "0x"), 16, 64)
		if err1 != nil || err2 != nil || end < start {
			return fmt.Errorf("%w: bad range", ErrAnswer)
		}
		if len(out) == maxNMTRegions {
			return fmt.Errorf("more than %d regions", maxNMTRegions)
		}
		out = append(out, NMTRegion{Region{start, end}, category})
		return nil
	})
	if err == nil && info < 0 {
		err = fmt.Errorf("%w: no table of mappings", ErrAnswer)
	}
	return out, err
}

// ClassUse is what the objects of one class take of the heap.
type ClassUse struct {
	Name             string // as the JVM writes it, such as "[B" or "java.lang.String"
	Instances, Bytes int64
}

// Histogram is the objects of the heap by class, largest first.
type Histogram struct {
	Classes          []ClassUse // no more than were asked for
	Instances, Bytes int64      // of all classes
}

var histogramLine = regexp.MustCompile(`^ *(?:\d+:|(Total)) +(\d+) +(\d+)(?: +(\S+).*)?$`)

// ParseHistogram parses GC.class_histogram (JDK:
// src/hotspot/share/memory/heapInspection.cpp) and keeps the top classes.
func ParseHistogram(r io.Reader, top int) (*Histogram, error) {
	h := &Histogram{}
	total := false
	err := scanLines(r, func(line string) error {
		m := histogramLine.FindStringSubmatch(line)
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
			h.Classes = append(h.Classes, ClassUse{m[4], n, bytes})
		}
		return nil
	})
	if err == nil && !total {
		err = fmt.Errorf("%w: the histogram has no total", ErrAnswer)
	}
	return h, err
}

// MetaspaceUse is how the memory for class metadata is used.
type MetaspaceUse struct {
	Loaders, Classes int64
	// CommittedBytes is in use or not, WasteBytes what of it holds nothing.
	CommittedBytes, WasteBytes int64
}

var (
	metaspaceTotal     = regexp.MustCompile(`^Total Usage - (\d+) loaders, (\d+) classes`)
	metaspaceCommitted = regexp.MustCompile(`^Waste .*total committed size ([0-9.]+) (\w+)\)`)
	metaspaceWaste     = regexp.MustCompile(`^ +-total-: +([0-9.]+) (\w+)`)
)

// ParseMetaspace parses VM.metaspace (JDK 11 on:
// src/hotspot/share/memory/metaspace/metaspaceReporter.cpp).
func ParseMetaspace(r io.Reader) (*MetaspaceUse, error) {
	u := &MetaspaceUse{}
	inWaste, whole := false, false
	err := scanLines(r, func(line string) (err error) {
		if m := metaspaceTotal.FindStringSubmatch(line); m != nil {
			var err2 error
			u.Loaders, err = strconv.ParseInt(m[1], 10, 32)
			u.Classes, err2 = strconv.ParseInt(m[2], 10, 32)
			return errors.Join(err, err2)
		}
		if m := metaspaceCommitted.FindStringSubmatch(line); m != nil {
			inWaste = true
			u.CommittedBytes, err = scaled(m[1], m[2])
		} else if m := metaspaceWaste.FindStringSubmatch(line); inWaste && m != nil {
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

// LoaderUse is what the class loaders of one type have.
type LoaderUse struct {
	Type             string
	Loaders, Classes int64
	// ChunkBytes is the metaspace that they were given, BlockBytes what of it
	// they use.
	ChunkBytes, BlockBytes int64
}

var loaderLine = regexp.MustCompile(`^0x[0-9a-f]+ +0x[0-9a-f]+ +0x[0-9a-f]+ +(\d+) +(\d+) +(\d+) +(\S.*)$`)

// maxLoaderTypes bounds the types of class loaders that are told apart.
const maxLoaderTypes = 1 << 14

// ParseLoaders parses VM.classloader_stats (JDK:
// src/hotspot/share/classfile/classLoaderStats.cpp), adds up by type of class
// loader, and keeps the top types by the metaspace that they have. all is the
// sum of all types.
func ParseLoaders(r io.Reader, top int) (types []LoaderUse, all LoaderUse, err error) {
	byType := map[string]*LoaderUse{}
	whole := false
	err = scanLines(r, func(line string) error {
		whole = whole || strings.HasPrefix(line, "Total = ")
		m := loaderLine.FindStringSubmatch(line)
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
		name := strings.TrimSpace(m[4])
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
