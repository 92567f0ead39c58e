package footprint

import (
	"fmt"
	"slices"
	"strings"
)

// owners are all owners in the order of a report.
var owners = []Owner{
	JavaHeap, ClassSpace, Metaspace, CodeCache, ThreadStacks, GC, CDS,
	Malloc, MappedFiles, JVMOther, Unattributed,
}

// promises says whether the JVM reserves and commits address space for an
// owner, so that these figures mean something.
var promises = map[Owner]bool{
	JavaHeap: true, ClassSpace: true, Metaspace: true, CodeCache: true,
	ThreadStacks: true, GC: true, CDS: true,
}

// tally adds up segments, as a tree of parts.
type tally struct {
	resident, committed, reserved int64
	parts                         map[string]*tally
}

// listedParts bounds the parts of a row that are told apart: a hostile process
// maps tens of thousands of files.
const listedParts = 4096

func (t *tally) add(path string, g segment, resident int64) {
	t.resident += resident
	t.reserved += g.size()
	if g.vma.Accessible() {
		t.committed += g.size()
	}
	if path == "" {
		return
	}
	if t.parts == nil {
		t.parts = map[string]*tally{}
	}
	id, rest, _ := strings.Cut(path, "/")
	if t.parts[id] == nil && len(t.parts) >= listedParts {
		id, rest = partFurther, ""
	}
	if t.parts[id] == nil {
		t.parts[id] = &tally{}
	}
	t.parts[id].add(rest, g, resident)
}

// children turns the parts into children, largest first. A part that has
// neither resident nor committed memory is left out.
func (t *tally) children(promised bool) []Child {
	var out []Child
	for id, p := range t.parts {
		if p.resident == 0 && (p.committed == 0 || !promised) {
			continue
		}
		c := Child{ID: id, Name: partName(id), ResidentBytes: p.resident, Children: p.children(promised)}
		if promised {
			committed, reserved := p.committed, p.reserved
			c.CommittedBytes, c.ReservedBytes = &committed, &reserved
		}
		out = append(out, c)
	}
	sortChildren(out)
	return out
}

func sortChildren(c []Child) {
	slices.SortFunc(c, func(a, b Child) int {
		if a.ResidentBytes != b.ResidentBytes {
			return int(min(max(b.ResidentBytes-a.ResidentBytes, -1), 1))
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// ownerTally is the tally of a row.
type ownerTally struct {
	tally
	anonymous, shared, swap, huge, hugetlb, repeated int64
	byHow                                            map[How]int64
}

// pages is what is known of the pages of a segment beside their number.
type pages struct{ anonymous, swap, huge int64 }

// kindsOf tells the kinds of pages of each segment. Where the kernel counts
// them for whole mappings only, they are those of its largest segment.
func (s *scan) kindsOf(segs []segment, counts []int64) []pages {
	out := make([]pages, len(segs))
	if s.kinds == nil {
		for _, i := range largestOfMapping(segs, counts) {
			v := segs[i].vma
			out[i] = pages{v.Anonymous, v.Swap, v.AnonHuge}
		}
		return out
	}
	file, _ := resident(segs, s.kinds.File)
	huge, _ := resident(segs, s.kinds.Huge)
	// Notes in place of pages may be guards: then nothing is swapped out.
	var swapped []int64
	if s.swaps() {
		swapped, _ = resident(segs, s.kinds.Swapped)
	}
	for i := range segs {
		out[i] = pages{anonymous: counts[i] - file[i], huge: huge[i]}
		if swapped != nil {
			out[i].swap = swapped[i]
		}
	}
	return out
}

// addKinds adds the kinds of pages of a segment.
func (t *ownerTally) addKinds(g segment, p pages, resident int64, shared bool) {
	t.swap += p.swap
	t.huge += p.huge
	if g.vma.FileBacked() {
		t.anonymous += p.anonymous
	}
	if shared {
		t.shared += resident - p.anonymous
	}
}

// footprint adds the segments up.
func (s *scan) footprint(segs []segment) *Footprint {
	counts, outside := resident(segs, s.runs)
	tallies := map[Owner]*ownerTally{}
	for _, o := range owners {
		tallies[o] = &ownerTally{byHow: map[How]int64{}}
	}
	var total int64
	kinds := s.kindsOf(segs, counts)
	for i, g := range segs {
		t := tallies[g.owner]
		t.addKinds(g, kinds[i], counts[i], g.vma.InMemory(s.memoryDevices))
		t.add(g.part, g, counts[i])
		t.byHow[g.how] += counts[i]
		total += counts[i]
	}
	for _, i := range largestOfMapping(segs, counts) {
		tallies[segs[i].owner].hugetlb += segs[i].vma.Hugetlb
	}
	for o, n := range s.repeated(segs) {
		tallies[o].repeated = n
	}
	tallies[Unattributed].resident += outside
	f := &Footprint{
		Schema: Schema, PID: s.target.PID, Name: s.target.Name, VM: string(s.target.Kind),
		JDK: s.vm.Version, Threads: s.target.Status.Threads, Collector: s.vm.Collector,
		Time: s.time, RSSBytes: total + outside, PSSBytes: s.rollup.PSS, RollupRSSBytes: s.rollup.RSS,
		Cgroup: s.cgroup, Host: s.host, Asked: s.asked, Sources: s.sources, Warnings: s.notes,
		Rows: make([]Row, 0, len(owners)),
	}
	f.Flags = s.vm.Flags
	if c := s.vm.Counters; c != nil {
		f.Classes = c.LoadedClasses
		f.Heap = &Heap{
			MaxBytes: s.vm.Heap.Size(), CapacityBytes: c.HeapCapacity, UsedBytes: c.HeapUsed,
			AfterGCBytes: c.UsedAfterGC, Collections: c.GCCount(), GCSeconds: c.GCTime().Seconds(),
		}
	}
	if f.Warnings == nil {
		f.Warnings = []string{}
	}
	for _, o := range owners {
		f.Rows = append(f.Rows, tallies[o].row(o))
	}
	f.noteHugetlb()
	for _, o := range owners {
		f.doubt(o, tallies[o].byHow[Heuristic])
	}
	s.nameThreads(f, segs, counts)
	s.nameMalloc(f)
	if !s.series.lean() {
		splitArchives(f.row(CDS), segs, kinds)
	}
	return f
}

// noteHugetlb says which rows have pages that Rss does not count.
func (f *Footprint) noteHugetlb() {
	for _, r := range f.Rows {
		if r.HugetlbBytes > 0 {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %.1f MiB more are in pages of hugetlbfs, which Rss does not count: the rows add up to Rss without them", r.Owner, float64(r.HugetlbBytes)/(1<<20)))
		}
	}
}

// doubts say what may be wrong where an owner is guessed.
var doubts = map[Owner]string{
	Metaspace:    "it lies behind known class metadata, or has the shape of metaspace: something else may have merged with it",
	ThreadStacks: "it has the size of a stack, or a thread stands on it: how far the stack reaches is not known",
	GC:           "it lies beside the collector's tables, or has the size of one: another allocator, or a library, may have mapped it",
	Malloc:       "it is anonymous memory that an allocator is likely to have mapped: a library may have mapped it for itself",
}

// A doubt is named about more than doubtful bytes, of a row that is guessed: more
// than a hundredth of it.
const doubtful = 256 << 10

// doubt names the doubt about a row of which some bytes are guessed.
func (f *Footprint) doubt(o Owner, guessed int64) {
	why, ok := doubts[o]
	if r := f.row(o); ok && r.How == Heuristic && guessed > doubtful {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %.1f MiB are guessed: %s", o, float64(guessed)/(1<<20), why))
	}
}

// splitArchives says of each file of an archive what of it was written to, most
// of it by relocation, and is private, and what is as in the file and can be
// dropped.
func splitArchives(r *Row, segs []segment, kinds []pages) {
	private := map[string]int64{}
	for i, g := range segs {
		if g.owner == CDS && g.vma.FileBacked() {
			private[g.part] += kinds[i].anonymous
		}
	}
	for i := range r.Children {
		c := &r.Children[i]
		n, ok := private[c.ID]
		if n = min(n, c.ResidentBytes); ok {
			c.Children = []Child{NewChild(partWritten, n), NewChild(partClean, c.ResidentBytes-n)}
		}
	}
}

// largestOfMapping returns, for each mapping, the index of the segment with
// most resident bytes.
func largestOfMapping(segs []segment, counts []int64) []int {
	var out []int
	for i := range segs {
		if n := len(out); n > 0 && segs[out[n-1]].vma == segs[i].vma {
			if counts[i] > counts[out[n-1]] {
				out[n-1] = i
			}
			continue
		}
		out = append(out, i)
	}
	return out
}

func (t *ownerTally) row(o Owner) Row {
	r := Row{
		Owner: o, ResidentBytes: t.resident, How: t.how(o),
		AnonymousBytes: t.anonymous, SharedMemoryBytes: max(0, t.shared), SwapBytes: t.swap, HugeBytes: t.huge, HugetlbBytes: t.hugetlb, RepeatedBytes: t.repeated,
		Children: t.children(promises[o]),
	}
	if promises[o] {
		committed, reserved := t.committed, t.reserved
		r.CommittedBytes, r.ReservedBytes = &committed, &reserved
	}
	return r
}

// how is the least certain way by which more than a hundredth of the row is
// known.
func (t *ownerTally) how(o Owner) How {
	if o == Unattributed {
		return Heuristic
	}
	for _, h := range []How{Heuristic, Layout} {
		if t.byHow[h]*100 > t.resident {
			return h
		}
	}
	return Exact
}
