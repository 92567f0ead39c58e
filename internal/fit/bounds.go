package fit

import (
	"strconv"

	"tare.dev/tare/internal/footprint"
)

// Ledger is what is known of where an application's memory is: the footprint
// near the peak of a trial or at its end, whichever is larger, and what the collector said. It tells what a lever
// could save before it is tried.
type Ledger struct {
	// Footprint is nil where none could be taken.
	Footprint *footprint.Footprint
	// LiveBytes and HeapBytes are as in Outcome.
	LiveBytes, HeapBytes int64
	// CPUs are the processors that the application may use.
	CPUs float64
	// FullHeap says that a limit has room for all of a heap that the user has sized, whatever
	// is in it.
	FullHeap bool
}

// ledgerOf is the ledger of a trial.
func ledgerOf(t Trial, cpus float64) Ledger {
	l := Ledger{LiveBytes: t.LiveBytes, HeapBytes: t.HeapBytes, CPUs: cpus}
	if t.Result != nil {
		l.Footprint = t.Result.Peak
		if end := t.Result.End; end != nil && (l.Footprint == nil || end.RSSBytes > l.Footprint.RSSBytes) {
			l.Footprint = end
		}
	}
	return l
}

// row is an owner's row; empty where there is none.
func (l Ledger) row(o footprint.Owner) footprint.Row {
	r, _ := l.Footprint.Row(o)
	return r
}

func (l Ledger) resident(o footprint.Owner) int64 { return l.row(o).ResidentBytes }

// flag is a flag of the JVM as a number, 0 where it is none.
func (l Ledger) flag(name string) int64 {
	n, err := strconv.ParseInt(l.Footprint.Flags[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// live is the live set, or the heap in use where no collection told.
func (l Ledger) live() int64 {
	if l.LiveBytes > 0 {
		return l.LiveBytes
	}
	return l.HeapBytes
}

// heap is what is resident of the heap, or was in use.
func (l Ledger) heap() int64 {
	if l.Footprint == nil {
		return l.HeapBytes
	}
	return l.resident(footprint.JavaHeap)
}

// heapBeyond is what is resident of the heap beyond a number of live sets.
func (l Ledger) heapBeyond(lives float64) int64 {
	return l.ofHeap(max(0, l.resident(footprint.JavaHeap)-int64(lives*float64(l.LiveBytes))))
}

// ofHeap is what a limit needs less for so much less in the heap.
func (l Ledger) ofHeap(bytes int64) int64 {
	if l.FullHeap {
		return 0
	}
	return bytes
}

// freeMalloc is what the C library keeps of freed memory. Where it does not
// tell, that is all that it has.
func (l Ledger) freeMalloc() int64 {
	r := l.row(footprint.Malloc)
	if r.Allocator != "" {
		return 0 // another one, which these options do not reach
	}
	if r.UsedBytes == nil {
		return r.ResidentBytes
	}
	return max(0, r.ResidentBytes-*r.UsedBytes)
}

// archived is what of the class archive is private.
func (l Ledger) archived() int64 { return l.row(footprint.CDS).AnonymousBytes }

// share is a part of bytes, in hundredths.
func share(bytes int64, percent int64) int64 { return bytes / 100 * percent }

// The bounds are generous: a lever that could matter must not be left out.
// Serial keeps a card table of a 512th of the heap.
func boundCollector(l Ledger) int64 {
	return l.heapBeyond(tightest) + l.resident(footprint.GC)
}

// boundHeap leaves the smallest heap that is tried.
func boundHeap(l Ledger) int64 { return l.heapBeyond(tightest) }

// boundDirect: all of them may wait for a collection.
func boundDirect(l Ledger) int64 { return l.Footprint.DirectBytes() }

func boundArenas(l Ledger) int64 {
	if l.row(footprint.Malloc).Arenas == 1 {
		return 0
	}
	return l.freeMalloc()
}

func boundTrim(l Ledger) int64 { return l.freeMalloc() }

func boundRelocation(l Ledger) int64 { return l.archived() }

// boundHeaders: 4 bytes of each object, of which the smallest have 16.
func boundHeaders(l Ledger) int64 { return l.ofHeap(share(l.resident(footprint.JavaHeap), 25)) }

// stackBytes is the -Xss that the lever sets.
const stackBytes = 512 << 10

// boundStacks counts what of the largest stacks is beyond that size. The others
// are smaller than the smallest of them.
func boundStacks(l Ledger) int64 {
	row, largest := l.row(footprint.ThreadStacks), l.Footprint.Part(footprint.ThreadStacks, footprint.PartLargestThreads)
	if largest == nil {
		return row.ResidentBytes
	}
	var n int64
	for _, c := range largest.Children {
		if c.ResidentBytes <= stackBytes {
			return n
		}
		n += c.ResidentBytes - stackBytes
	}
	return n + row.ResidentBytes - largest.ResidentBytes
}

// boundPerfData is the default of PerfDataMemorySize.
func boundPerfData(Ledger) int64 { return 32 << 10 }

func boundHugePages(l Ledger) int64 {
	var n int64
	for _, r := range l.Footprint.Rows {
		n += r.HugeBytes
	}
	return n
}

func boundRatios(l Ledger) int64 { return l.heapBeyond(1.4) }

func boundPeriodic(l Ledger) int64 {
	if l.Footprint.Collector != "G1" {
		return 0
	}
	return l.heapBeyond(1.4)
}

// boundDedup: 13.5 % of live data are the contents of strings of which there
// is another one, on the average of many applications (JEP 192).
func boundDedup(l Ledger) int64 { return l.ofHeap(share(l.live(), 14)) }

// boundProcessors: a JVM that sees no more processors than it may use is sized
// for them already.
func boundProcessors(l Ledger) int64 {
	if l.CPUs <= 0 || l.flag("ParallelGCThreads")+l.flag("CICompilerCount") <= 3 {
		return 0
	}
	return (l.resident(footprint.ThreadStacks)+l.freeMalloc()+l.resident(footprint.GC))/2 + l.compilerMemory()/2
}

// compilerMemory is an upper bound of the working memory of compilers: it comes
// and goes, and what is free again is kept.
func (l Ledger) compilerMemory() int64 { return share(l.resident(footprint.Malloc), 70) }

// boundC1: C1's code is about half as large as that of all tiers, and
// profiles are about a tenth of metaspace.
func boundC1(l Ledger) int64 {
	return share(l.resident(footprint.CodeCache), 60) + share(l.resident(footprint.Metaspace), 15) + l.compilerMemory()
}

// boundHot: a service with Camel lost half of its code by it, and two fifths of
// malloc.
func boundHot(l Ledger) int64 {
	return share(l.resident(footprint.CodeCache), 60) + share(l.resident(footprint.Malloc), 50)
}

func boundCompilers(l Ledger) int64 {
	if l.flag("CICompilerCount") <= 2 {
		return 0
	}
	return l.compilerMemory()
}

func boundArchive(l Ledger) int64 {
	return l.resident(footprint.Metaspace) + l.resident(footprint.ClassSpace) + l.archived() + share(l.resident(footprint.Malloc), 10)
}

// boundJars: the loader's index of nested jars and its buffers; and a class
// archive holds no class of a nested jar.
func boundJars(l Ledger) int64 { return boundArchive(l) + share(l.live(), 10) }

// boundCode: a cache of three quarters of the code that was there.
func boundCode(l Ledger) int64 { return l.resident(footprint.CodeCache) / 4 }

// boundWorkers: all stacks, and what requests that are served at the same time hold.
func boundWorkers(l Ledger) int64 {
	return l.resident(footprint.ThreadStacks) + share(l.resident(footprint.JavaHeap), 25) + share(l.resident(footprint.Malloc), 10)
}
