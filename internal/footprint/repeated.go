package footprint

import (
	"cmp"
	"slices"
	"sort"

	"tare.dev/tare/internal/linux"
)

// A process may map the same part of a file several times, as databases do, and ZGC before its
// generations with its heap. Rss then counts a page once for each mapping that has it
// (kernel: Documentation/filesystems/proc.rst, "Rss"), while there is one of it, and its group
// is charged for one.

// filePages are resident pages of a file, by their place in it.
type filePages struct {
	start, end uint64
	owner      Owner
}

// repeated is what segments have resident of files beyond the first mapping of each page.
func (s *scan) repeated(segs []segment) map[Owner]int64 {
	type file struct{ device, inode uint64 }
	byFile := map[file][]*segment{}
	for i := range segs {
		if g := &segs[i]; g.vma.FileBacked() && s.keepsFilePages(g.vma) {
			f := file{g.vma.Device, g.vma.Inode}
			byFile[f] = append(byFile[f], g)
		}
	}
	out := map[Owner]int64{}
	for _, of := range byFile {
		if overlap(of) {
			addRepeated(out, s.pagesOf(of))
		}
	}
	return out
}

// keepsFilePages says that the pages of a mapping which are counted are the file's: where they
// are not told by kind, those of a private mapping that can be written may be copies.
func (s *scan) keepsFilePages(v *linux.VMA) bool {
	return s.kinds != nil || v.Perms[3] == 's' || !v.Writable()
}

// offset is where in its file a segment begins.
func (g *segment) offset() uint64 { return g.vma.Offset + g.start - g.vma.Start }

// overlap says that segments of one file have parts of it in common. It sorts them.
func overlap(segs []*segment) bool {
	slices.SortStableFunc(segs, func(a, b *segment) int { return cmp.Compare(a.offset(), b.offset()) })
	for i, g := range segs[1:] {
		if before := segs[i]; before.offset()+uint64(before.size()) > g.offset() {
			return true
		}
	}
	return false
}

// pagesOf are the resident pages of segments of one file.
func (s *scan) pagesOf(segs []*segment) []filePages {
	runs := s.runs
	if s.kinds != nil {
		runs = s.kinds.File
	}
	var out []filePages
	for _, g := range segs {
		first := sort.Search(len(runs), func(i int) bool { return runs[i].End > g.start })
		for _, r := range runs[first:] {
			if r.Start >= g.end {
				break
			}
			p := filePages{g.offset() + max(r.Start, g.start) - g.start, g.offset() + min(r.End, g.end) - g.start, g.owner}
			if p.start < p.end { // else it reaches beyond what an offset can be
				out = append(out, p)
			}
		}
	}
	return out
}

// addRepeated adds, to the owner of the later ones, pages that are there before.
func addRepeated(to map[Owner]int64, pages []filePages) {
	slices.SortStableFunc(pages, func(a, b filePages) int { return cmp.Compare(a.start, b.start) })
	reached := uint64(0)
	for _, p := range pages {
		if p.start < reached {
			to[p.owner] += int64(min(p.end, reached) - p.start)
		}
		reached = max(reached, p.end)
	}
}
