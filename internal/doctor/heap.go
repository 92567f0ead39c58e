package doctor

import (
	"fmt"

	"tare.dev/tare/internal/footprint"
)

const (
	// roomFactor is how much of the live set a heap needs to collect at ease:
	// below it the time in collections rises steeply (the usual rule in
	// studies of collectors, such as Blackburn and others, DaCapo, OOPSLA 2006).
	roomFactor = 2
	// leastHeap is a heap that nothing is gained below: the JVM's own objects
	// and a few regions take some of it.
	leastHeap = 16 * mib
	// keepFactor is what HotSpot's default MaxHeapFreeRatio of 70 lets stay
	// committed beside what is in use.
	keepFactor = 10.0 / 3
	// farAbove is when a heap counts as far above its live set; less is the
	// ordinary ebb and flow.
	farAbove = 3
	// settled is how many collections it takes to believe what they leave.
	settled = 10
	// compactShare is the part of the live set that 8 bytes less in each
	// object save (JEP 450: 10 to 20 %).
	compactShare = 0.1
)

const (
	sourceGC       = "https://docs.oracle.com/en/java/javase/21/gctuning/"
	sourcePeriodic = "https://openjdk.org/jeps/346"
)

// heap is what is known of the object heap.
type heap struct {
	resident, used, live int64
	collections          int64
}

// heap returns what is known of the heap, nil when the JVM does not tell.
func (p *patient) heap() *heap {
	if p.Heap == nil {
		return nil
	}
	h := &heap{
		resident: p.heapBytes(),
		used:     p.Heap.UsedBytes, live: p.Heap.AfterGCBytes, collections: p.Heap.Collections,
	}
	// From JDK 22 on the JVM counts only at collections, while the table of
	// G1's regions is of this moment. An eden that was full once is filled
	// again and again: empty or full, it is in use.
	if free := p.Part(footprint.JavaHeap, footprint.PartFreeHeap); free != nil {
		h.used = max(h.used, h.resident-free.ResidentBytes)
	} else if eden := p.Part(footprint.JavaHeap, footprint.PartEden); eden != nil && h.collections > 0 {
		h.used = max(h.used, h.live+eden.ResidentBytes)
	}
	h.used = min(h.used, h.resident)
	return h
}

// heapBytes is what of the heap is in memory, counted into Rss or not.
func (p *patient) heapBytes() int64 {
	r := p.row(footprint.JavaHeap)
	return r.ResidentBytes + r.HugetlbBytes
}

// collected says that there was a collection, whose figures can be believed.
func (h *heap) collected() bool { return h.collections > 0 && h.live > 0 }

func (h *heap) certainty() Certainty {
	if h.collections < settled {
		return Possible
	}
	return Likely
}

func (h *heap) evidence() []string {
	out := []string{fmt.Sprintf("%s of the heap are resident, %s in use, by garbage too", size(h.resident), size(h.used))}
	if h.collected() {
		out = append(out, fmt.Sprintf("the last of %d collections left %s", h.collections, size(h.live)))
	}
	return out
}

// room is the heap that a live set needs by a factor.
func (h *heap) room(factor float64) int64 { return max(share(h.live, factor), leastHeap) }

// heapAboveLive: garbage fills the heap because it may.
func heapAboveLive(p *patient) *Finding {
	h := p.heap()
	if h == nil || !h.collected() || h.used < farAbove*h.live {
		return nil
	}
	stake := h.used - h.room(roomFactor)
	if !p.worth(stake) {
		return nil
	}
	return &Finding{
		Title:        "Garbage fills the heap far above what lives in it.",
		BytesAtStake: stake, Certainty: h.certainty(), Evidence: h.evidence(),
		Do: []string{
			"-Xmx" + megabytes(h.room(roomFactor)) + " to begin with: room for twice what lives",
			"tare fit -- java …: finds by experiment how little is enough",
		},
		Cost:   "more collections; a heap that is too small is slow first, and then fails with OutOfMemoryError",
		Source: sourceGC,
	}
}

// heapNotReturned: the JVM keeps heap that it does not use.
func heapNotReturned(p *patient) *Finding {
	h := p.heap()
	if h == nil || !h.collected() || p.is("AlwaysPreTouch", "true") || p.row(footprint.JavaHeap).HugetlbBytes > 0 {
		return nil // pages of hugetlbfs are taken at the start and never given back
	}
	stake := h.resident - max(h.used, h.room(keepFactor))
	if !p.worth(stake) {
		return nil
	}
	return &Finding{
		Title:        "The JVM keeps heap that it does not use.",
		BytesAtStake: stake, Certainty: h.certainty(), Evidence: h.evidence(),
		Do:     p.returnHeap(h),
		Cost:   "the heap must grow again when it is needed",
		Source: map[bool]string{true: sourcePeriodic, false: sourceGC}[p.Collector == "G1"],
	}
}

// returnHeap says how this JVM gives heap back.
func (p *patient) returnHeap(h *heap) []string {
	var do []string
	periodic, periodicKnown := p.number("G1PeriodicGCInterval")
	switch {
	case p.Collector == "G1" && periodicKnown && periodic == 0:
		do = append(do, "-XX:G1PeriodicGCInterval=60000: collects when idle for a minute, and gives back (JDK 12+)")
	case p.Collector == "G1" && p.major > 0 && p.major < 12:
		do = append(do, fmt.Sprintf("JDK 12 or later with -XX:G1PeriodicGCInterval=60000; once and now: jcmd %d GC.run", p.PID))
	default:
		do = append(do, "-XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40: gives back at full collections")
	}
	if initial, ok := p.number("InitialHeapSize"); ok && initial > h.room(keepFactor) {
		do = append(do, fmt.Sprintf("a lower -Xms: it is %s, and the heap never shrinks below it", size(initial)))
	}
	return append(do, "-Xmx"+megabytes(h.room(keepFactor))+" to begin with: it cannot grow so far then")
}

// heapPretouched: the JVM was told to touch the whole heap at its start.
func heapPretouched(p *patient) *Finding {
	h := p.heap()
	if h == nil || !p.is("AlwaysPreTouch", "true") {
		return nil
	}
	stake := h.resident - max(h.used, roomFactor*h.live)
	if !p.worth(stake) {
		return nil
	}
	do := []string{"remove -XX:+AlwaysPreTouch"}
	if initial, ok := p.number("InitialHeapSize"); ok {
		do = append(do, fmt.Sprintf("a lower -Xms: it is %s, and all of it is touched at the start", size(initial)))
	}
	return &Finding{
		Title:        "The heap was touched in advance, and is resident without being used.",
		BytesAtStake: stake, Certainty: Certain,
		Evidence: append(h.evidence(), "AlwaysPreTouch is on"),
		Do:       do,
		Cost:     "the first use of each page takes a page fault then",
		Source:   "https://docs.oracle.com/en/java/javase/21/docs/specs/man/java.html",
	}
}

// heapCountedTwice: ZGC before its generations maps its heap three times.
func heapCountedTwice(p *patient) *Finding {
	f := p.countedTwice(footprint.JavaHeap)
	if f == nil || p.Collector != "ZGC" {
		return nil
	}
	f.Title = "Rss counts the heap of ZGC up to three times: that memory is not there."
	f.Do = append(f.Do, "-XX:+UseZGC -XX:+ZGenerational on JDK 21 and 22, or JDK 23 and later: the heap is mapped once")
	f.Source = "https://openjdk.org/jeps/439"
	return f
}

// filesCountedTwice: a database maps the same part of a file several times.
func filesCountedTwice(p *patient) *Finding {
	f := p.countedTwice(footprint.MappedFiles)
	if f == nil {
		return nil
	}
	f.Title = "Rss counts pages of files more than once, for they are mapped more than once: that memory is not there."
	f.Source = "https://docs.kernel.org/filesystems/proc.html"
	return f
}

// countedTwice is what there is to say where much of a row is counted again.
func (p *patient) countedTwice(o footprint.Owner) *Finding {
	again := p.row(o).RepeatedBytes
	if !p.worth(again) {
		return nil
	}
	evidence := fmt.Sprintf("of Rss %s are mapped once before", size(again))
	if p.PSSBytes > 0 {
		evidence += fmt.Sprintf("; Rss is %s, Pss %s", size(p.RSSBytes), size(p.PSSBytes))
	}
	return &Finding{
		BytesAtStake: again, Certainty: Certain,
		Evidence: []string{evidence},
		Do:       []string{"judge this JVM by its Pss, or by the usage of its control group"},
	}
}

// compactHeadersOff: objects could have smaller headers.
func compactHeadersOff(p *patient) *Finding {
	const product = 25 // an experimental option on JDK 24
	h := p.heap()
	if h == nil || !h.collected() || p.major < product || !p.is("UseCompactObjectHeaders", "false") {
		return nil
	}
	stake := share(h.live, compactShare)
	if !p.worth(stake) {
		return nil
	}
	return &Finding{
		Title:        "Objects have headers of 12 bytes where 8 would do.",
		BytesAtStake: stake, Certainty: Possible,
		Evidence: []string{
			fmt.Sprintf("%s live after the last collection, of which a tenth to a fifth is headers that go", size(h.live)),
			"UseCompactObjectHeaders is off",
		},
		Do:     []string{"-XX:+UseCompactObjectHeaders"},
		Cost:   "an archive of classes (CDS, AOT cache) must be made anew with the same option",
		Source: "https://openjdk.org/jeps/519",
	}
}
