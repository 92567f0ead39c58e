package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bits of an entry of the page map (kernel: Documentation/admin-guide/mm/pagemap.rst).
const (
	pagemapPresent = 1 << 63
	pagemapSwapped = 1 << 62
	pagemapFile    = 1 << 61 // as in a file, or shared memory
	pagemapAlone   = 1 << 56 // mapped once
)

// maxEntries bounds the entries of the page map that are read: 256 GiB of
// address space, which take the kernel half a second.
const maxEntries = 1 << 26

// ErrTooFar says that a process maps more memory than is read entry by entry.
var ErrTooFar = errors.New("it maps more memory than is read of the page map")

// ReadPages finds the pages of process pid by kind, by reading the page map entry by
// entry: on every kernel, and in a process that maps devices. The kernel holds the lock
// that the process needs to map memory for 2 MiB at a time. What smaps would count and this
// does not: anonymous pages that a forked child shares, and those that
// the kernel has merged (KSM). Pages in huge ones are not told. It fails with ErrTooFar
// where more than 256 GiB may have pages.
func (fs FS) ReadPages(ctx context.Context, pid int, vmas []VMA) (*PageScan, error) {
	hugetlb, err := fs.devices(pid, "hugetlbfs")
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := newPagemapReader(f, int64(os.Getpagesize()))
	s := &PageScan{}
	for i := range vmas {
		v := &vmas[i]
		if v.isVvar() || v.inHugetlb(hugetlb) || v.Start >= 1<<63 || !v.Accessible() && v.Size() > guardBytes {
			continue
		}
		if err := p.entries(ctx, v.Start, v.End, func(at, entry uint64) bool {
			s.addEntry(v, PageRun{at, at + uint64(p.pageSize)}, entry)
			return true
		}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// guardBytes is the largest mapping without access that may have pages: a guard
// that was touched before it was one.
const guardBytes = 1 << 20

// addEntry adds a page by its entry. What is mapped once is anonymous, and else the zero
// page; a frame that no file has, and is not anonymous either, does not count into Rss.
func (s *PageScan) addEntry(v *VMA, page PageRun, entry uint64) {
	file := entry&pagemapFile != 0
	switch {
	case entry&pagemapSwapped != 0:
		s.Swapped = appendRun(s.Swapped, page)
	case entry&pagemapPresent == 0 || file && !v.FileBacked():
	case file:
		s.File = appendRun(s.File, page)
		s.Resident = appendRun(s.Resident, page)
	case entry&pagemapAlone != 0:
		s.Resident = appendRun(s.Resident, page)
	}
}

// readPagemap reads the entries of the mappings that have an Rss, until the Rss is found.
func readPagemap(ctx context.Context, r io.ReaderAt, vmas []VMA, pageSize int64) ([]PageRun, error) {
	p := newPagemapReader(r, pageSize)
	for i := range vmas {
		v := &vmas[i]
		if v.RSS == 0 || v.Uncounted() {
			continue
		}
		if err := p.mapping(ctx, v); err != nil {
			return nil, err
		}
	}
	return p.runs, nil
}

// pagemapReader reads the page map entry by entry.
type pagemapReader struct {
	r        io.ReaderAt
	pageSize int64
	left     int64 // entries that may be read yet
	buf      []byte
	runs     []PageRun
}

func newPagemapReader(r io.ReaderAt, pageSize int64) *pagemapReader {
	return &pagemapReader{r: r, pageSize: pageSize, left: maxEntries, buf: make([]byte, 64<<10)}
}

// entries calls do with the entries of the pages of a range, until that returns false.
func (p *pagemapReader) entries(ctx context.Context, start, end uint64, do func(at, entry uint64) bool) error {
	for at := start; at < end; {
		n := min(int64(end-at)/p.pageSize, int64(len(p.buf))/8)
		if p.left -= n; p.left < 0 {
			return ErrTooFar
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := p.r.ReadAt(p.buf[:n*8], int64(at)/p.pageSize*8); err != nil {
			return fmt.Errorf("reading the page map at %#x: %w", at, err)
		}
		for o := int64(0); o < n*8; o += 8 {
			if !do(at, binary.NativeEndian.Uint64(p.buf[o:])) {
				return nil
			}
			at += uint64(p.pageSize)
		}
	}
	return nil
}

// mapping adds the runs of one mapping, which have its Rss together unless the
// page map shows fewer.
func (p *pagemapReader) mapping(ctx context.Context, v *VMA) error {
	first, found := len(p.runs), int64(0)
	err := p.entries(ctx, v.Start, v.End, func(at, entry uint64) bool {
		if entry&pagemapPresent != 0 {
			p.runs = extend(p.runs, first, at, at+uint64(p.pageSize))
			found += p.pageSize
		}
		return found < v.RSS
	})
	if errors.Is(err, ErrTooFar) {
		p.runs = append(p.runs[:first], PageRun{v.Start, v.Start + uint64(min(v.RSS, v.Size()))})
		return nil
	}
	if err == nil {
		p.runs = append(p.runs[:first], cutRuns(p.runs[first:], v.RSS)...)
	}
	return err
}

// extend adds a page to the last run after index first, or begins a new one.
func extend(runs []PageRun, first int, start, end uint64) []PageRun {
	if n := len(runs); n > first && runs[n-1].End == start {
		runs[n-1].End = end
		return runs
	}
	return append(runs, PageRun{start, end})
}

// cutRuns drops pages from the end until no more than size bytes are left.
func cutRuns(runs []PageRun, size int64) []PageRun {
	var sum int64
	for i, r := range runs {
		sum += r.Size()
		if sum > size {
			runs[i].End -= uint64(sum - size)
			if runs[i].Size() == 0 {
				return runs[:i]
			}
			return runs[:i+1]
		}
	}
	return runs
}
