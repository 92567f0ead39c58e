package footprint

import (
	"path/filepath"
	"sort"
	"strings"

	"tare/internal/linux"
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

// tally adds up the segments of one owner.
type tally struct {
	resident, committed, reserved, anonymous int64
	byHow                                    map[How]int64
	byFile                                   map[string]int64
}

// footprint adds the segments up.
func (s *scan) footprint(segs []segment) *Footprint {
	counts, outside := resident(segs, s.runs)
	tallies := map[Owner]*tally{}
	for _, o := range owners {
		tallies[o] = &tally{byHow: map[How]int64{}, byFile: map[string]int64{}}
	}
	var pss, total int64
	for i, g := range segs {
		tallies[g.owner].add(g, counts[i])
		total += counts[i]
	}
	for i := range s.vmas {
		v := &s.vmas[i]
		pss += v.PSS
		if owner, _ := mappingOwner(v); v.FileBacked() {
			tallies[owner].anonymous += v.Anonymous
		}
	}
	tallies[Unattributed].resident += outside
	f := &Footprint{
		Schema: Schema, PID: s.target.PID, Name: s.target.Name,
		JDK: s.vm.Version, Threads: s.target.Status.Threads, Collector: s.vm.Collector,
		Time: s.time, RSSBytes: total + outside, PSSBytes: pss, RollupRSSBytes: s.rollup.RSS,
		Cgroup: s.cgroup, Sources: s.sources, Warnings: s.notes,
		Rows: make([]Row, 0, len(owners)),
	}
	if f.Warnings == nil {
		f.Warnings = []string{}
	}
	for _, o := range owners {
		f.Rows = append(f.Rows, tallies[o].row(o))
	}
	return f
}

func (t *tally) add(g segment, resident int64) {
	t.resident += resident
	t.reserved += g.size()
	if g.vma.Accessible() {
		t.committed += g.size()
	}
	t.byHow[g.how] += resident
	if g.owner == MappedFiles && resident > 0 {
		t.byFile[fileName(g.vma)] += resident
	}
}

// fileName names the file of a mapping; memory behind a library's mapping is
// its zero-initialised data.
func fileName(v *linux.VMA) string {
	if !v.FileBacked() {
		return "zero-initialised data of libraries"
	}
	return linux.Printable(filepath.Base(strings.TrimSuffix(v.Path, " (deleted)")))
}

func (t *tally) row(o Owner) Row {
	r := Row{Owner: o, ResidentBytes: t.resident, How: t.how(o), AnonymousBytes: t.anonymous}
	if promises[o] {
		committed, reserved := t.committed, t.reserved
		r.CommittedBytes, r.ReservedBytes = &committed, &reserved
	}
	for name, n := range t.byFile {
		r.Children = append(r.Children, Child{name, n})
	}
	sort.Slice(r.Children, func(i, j int) bool {
		a, b := r.Children[i], r.Children[j]
		return a.ResidentBytes > b.ResidentBytes || a.ResidentBytes == b.ResidentBytes && a.Name < b.Name
	})
	return r
}

// how is the least certain way by which more than a hundredth of the row is
// known.
func (t *tally) how(o Owner) How {
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
