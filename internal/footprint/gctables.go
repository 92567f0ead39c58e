package footprint

import (
	"cmp"
	"slices"

	"tare.dev/tare/internal/hotspot"
)

// maxTables is how many tables of one size the collectors have side by side.
const maxTables = 3

// gcTables are the tables of the collector by their sizes in memory. Those with
// an entry per card may have a page more. Epsilon has none.
func gcTables(vm *hotspot.VM, page uint64) []hotspot.GCTable {
	if vm.Collector == "Epsilon" {
		return nil
	}
	var out []hotspot.GCTable
	for _, t := range vm.GCTables {
		if partIDs[t.Name] == partUnnamedTable && (vm.Collector == "Serial" || vm.Collector == "ZGC") {
			continue // all that these have is named
		}
		size := int64(alignUp(uint64(t.Bytes), page))
		out = append(out, hotspot.GCTable{Name: t.Name, Bytes: size})
		if t.Bytes == vm.Heap.Size()/512 {
			out = append(out, hotspot.GCTable{Name: t.Name, Bytes: size + int64(page)})
		}
	}
	return out
}

// tableBytes is the most that the tables can take whose size alone tells what
// they are (JDK: src/hotspot/share/gc). What has their sizes beyond it is
// something else. Of small heaps the tables are so small that other memory of
// HotSpot has their sizes: that is the slack. Epsilon has no tables.
func tableBytes(vm *hotspot.VM) (most int64) {
	const slack = 6 << 20
	heap := vm.Heap.Size()
	switch vm.Collector {
	case "Epsilon":
		return 0
	case "G1": // block offsets, card counts and two more; a second bitmap before JDK 20
		most = 4*heap/512 + heap/64 + vm.MarkStackBytes
		if vm.Major < 20 {
			most += heap / 64
		}
	case "Parallel", "CMS", "Shenandoah": // two bitmaps of two bits a word at most
		most = 2*heap/512 + 2*heap/32
	default:
		for _, t := range vm.GCTables {
			if id := partIDs[t.Name]; id != partUnnamedTable && id != partMarkStacks {
				most += t.Bytes
			}
		}
	}
	return most + slack
}

// claimTables claims what has the size of a collector's tables between what has
// an owner: memory of nobody, or of the collector without a name, that goes on
// without a gap. What is reserved for a table and not yet used belongs to it.
func (l *layout) claimTables(segs []segment, tables []hotspot.GCTable, stacks []int64, how How) []claim {
	may := func(g *segment) bool { return mayBeTable(g) && !l.guardedStack(l.at(g.start), stacks) }
	var out []claim
	for i := 0; i < len(segs); {
		j := i
		for j < len(segs) && may(&segs[j]) && (j == i || segs[j].start == segs[j-1].end && segs[j].owner == segs[i].owner) {
			j++
		}
		if j == i {
			i++
			continue
		}
		out = append(out, l.tablesIn(segs[i:j], tables, how)...)
		i = j
	}
	return out
}

// tablesIn claims neighbours as a whole, or else each with the size of a table
// alone, or with what is reserved behind it. A large chunk of malloc may have
// that size, too, but has a header.
func (l *layout) tablesIn(segs []segment, tables []hotspot.GCTable, how How) []claim {
	try := func(s span) (claim, bool) {
		name := tableOfSize(s.size(), tables)
		if _, chunk := l.chunkAt(s.start); name == "" || chunk {
			return claim{}, false
		}
		return claim{s, GC, how, rankTable, idOf(name)}, true
	}
	if c, ok := try(span{segs[0].start, segs[len(segs)-1].end}); ok {
		return []claim{c}
	}
	var out []claim
	for i, g := range segs {
		c, ok := try(g.span)
		if !ok && g.vma.Accessible() && i+1 < len(segs) && !segs[i+1].vma.Accessible() {
			c, ok = try(span{g.start, segs[i+1].end})
		}
		if ok {
			out = append(out, c)
		}
	}
	return out
}

// tablesBeside claims what has the size of a table between chunks that malloc mapped in a
// segment, in order, and up to its ends: the kernel merged them. A stack behind its guard may
// have that size, too.
func (l *layout) tablesBeside(chunks []claim, g segment, tables []hotspot.GCTable, stacks []int64, how How) []claim {
	if len(chunks) == 0 || !mayBeTable(&g) {
		return nil
	}
	var out []claim
	at := g.start
	for _, c := range append(slices.Clone(chunks), claim{span: span{g.end, g.end}}) {
		gap := span{at, c.start}
		if name := tableOfSize(gap.size(), tables); name != "" && !l.stackBelowMerged(gap, stacks) {
			out = append(out, claim{gap, GC, how, rankTable, idOf(name)})
		}
		at = c.end
	}
	return out
}

func mayBeTable(g *segment) bool {
	return (g.owner == Unattributed || g.owner == GC) && g.part == "" && anonymous(g.vma) &&
		// HotSpot commits without MAP_NORESERVE, jemalloc maps with it.
		!(g.vma.Accessible() && g.vma.NoReserve())
}

// tableOfSize names the tables that have a size together, "" when none have.
func tableOfSize(size int64, tables []hotspot.GCTable) string {
	for n := int64(1); n <= maxTables; n++ {
		for _, t := range tables {
			if size == n*t.Bytes {
				return t.Name
			}
		}
	}
	return ""
}

// boundTables drops claims on tables where more has their sizes than the collector
// can have, and says of what is left that it is guessed. The kernel maps downward: of
// what has the size of a table, the JVM made the tables first, at its start, and so
// the highest are kept.
func boundTables(claims []claim, most int64) []claim {
	var tables []int
	var sum int64
	for i, c := range claims {
		if c.owner == GC && c.part != partMarkStacks {
			tables = append(tables, i)
			sum += c.size()
		}
	}
	if sum <= most {
		return claims
	}
	slices.SortFunc(tables, func(a, b int) int { return cmp.Compare(claims[b].start, claims[a].start) })
	dropped := map[int]bool{}
	left := most
	for _, i := range tables {
		if claims[i].size() > left {
			dropped[i] = true
			continue
		}
		left -= claims[i].size()
	}
	var out []claim
	for i, c := range claims {
		if dropped[i] {
			continue
		}
		if c.owner == GC {
			c.how = Heuristic
		}
		out = append(out, c)
	}
	return out
}

// adoptNeighbours gives anonymous memory that is still nobody's to the collector
// where it lies directly beside one of its tables: they are made one after the
// other, and the kernel merges them, so that a mapping may have no table's size.
// It gives no more than the tables can take: what goes on without a gap beyond
// that is something else, of which no part is known to be a table.
func adoptNeighbours(segs []segment, most int64) {
	left := most
	for _, g := range segs {
		if g.owner == GC && g.how != Exact && g.part != partMarkStacks {
			left -= g.size()
		}
	}
	table := func(i int, at uint64) bool {
		return i >= 0 && i < len(segs) && segs[i].owner == GC && (segs[i].end == at || segs[i].start == at)
	}
	for i := 0; i < len(segs); {
		j, size := i, int64(0)
		for j < len(segs) && segs[j].owner == Unattributed && anonymous(segs[j].vma) && (j == i || segs[j].start == segs[j-1].end) {
			size += segs[j].size()
			j++
		}
		if j == i {
			i++
			continue
		}
		if size <= left && (table(i-1, segs[i].start) || table(j, segs[j-1].end)) {
			left -= size
			for k := i; k < j; k++ {
				segs[k].owner, segs[k].how = GC, Heuristic
			}
		}
		i = j
	}
}
