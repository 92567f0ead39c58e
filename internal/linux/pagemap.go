package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// PageRun is a run of neighbouring resident pages.
type PageRun struct {
	Start, End uint64
}

// Size is the length of the run in bytes.
func (r PageRun) Size() int64 { return int64(r.End - r.Start) }

// The PAGEMAP_SCAN ioctl (kernel: include/uapi/linux/fs.h, struct
// pm_scan_arg; Documentation/admin-guide/mm/pagemap.rst), Linux 6.7.
const (
	pagemapScan   = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsPfnzero = 1 << 5
	pageIsHuge    = 1 << 6
	scanRegions   = 1024
	// scanPages is how many pages one call finds: for so long, about a millisecond, the
	// kernel holds a lock that the process needs to map memory.
	scanPages = 1 << 16
)

type pmScanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	categoryInverted, categoryMask, categoryAnyof, retMask  uint64
}

type pmRegion struct{ start, end, categories uint64 }

// ErrNoPagemapScan says that the kernel has no PAGEMAP_SCAN.
var ErrNoPagemapScan = errors.New("the kernel has no PAGEMAP_SCAN (Linux 6.7)")

// ResidentPages returns the runs of resident pages of process pid that count
// into the Rss of the given mappings, in order of address. The shared zero
// page is not resident memory and is left out.
//
// Before Linux 6.7 it reads the page map entry by entry, where the zero page
// looks like any other: then the runs of a mapping are cut to its Rss. A mapping
// of hundreds of gigabytes, with few pages far from its beginning, is not read to
// its end: what was not found counts as at its beginning.
func (fs FS) ResidentPages(ctx context.Context, pid int, vmas []VMA) ([]PageRun, error) {
	f, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var runs []PageRun
	err = scanPagemap(ctx, f, vmas, scanResident, func(r pmRegion) { runs = appendRun(runs, PageRun{r.start, r.end}) })
	if errors.Is(err, ErrNoPagemapScan) {
		return readPagemap(ctx, f, vmas, int64(os.Getpagesize()))
	}
	if err != nil {
		return nil, fmt.Errorf("scanning %s: %w", f.Name(), err)
	}
	return countedRuns(runs, vmas), nil
}

// PageScan is the pages of a process by their kind, as runs in order of
// address. What counts into Rss is Resident; the other two kinds of resident
// pages are among it.
type PageScan struct {
	Resident []PageRun
	File     []PageRun // as in a file, or shared memory; the others are anonymous
	Huge     []PageRun // in transparent huge pages
	// Swapped is what the kernel keeps a note of in place of a page: swapped
	// out, or on some kernels a guard.
	Swapped []PageRun
}

// ScanPages finds the pages of process pid by kind, which smaps would count for
// whole mappings in more than twice the time. It fails with ErrNoPagemapScan
// before Linux 6.7, and where a mapping may have pages that do not count into
// Rss, which only smaps tells: devices and hugetlbfs.
func (fs FS) ScanPages(ctx context.Context, pid int, vmas []VMA) (*PageScan, error) {
	for i := range vmas {
		if vmas[i].mayNotCount() {
			return nil, fmt.Errorf("%.80s: %w", vmas[i].Path, ErrNoPagemapScan)
		}
	}
	f, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &PageScan{}
	if err := scanPagemap(ctx, f, vmas, scanKinds, s.add); err != nil {
		return nil, fmt.Errorf("scanning %s: %w", f.Name(), err)
	}
	if within(s.Huge, vmas, func(v *VMA) bool { return v.Path != "" }) {
		return nil, fmt.Errorf("huge pages in a file: %w", ErrNoPagemapScan)
	}
	s.Resident = countedRuns(s.Resident, vmas)
	s.File = countedRuns(s.File, vmas)
	return s, nil
}

func (s *PageScan) add(r pmRegion) {
	run := PageRun{r.start, r.end}
	if r.categories&pageIsPresent == 0 {
		s.Swapped = appendRun(s.Swapped, run)
		return
	}
	s.Resident = appendRun(s.Resident, run)
	if r.categories&pageIsFile != 0 {
		s.File = appendRun(s.File, run)
	}
	if r.categories&pageIsHuge != 0 {
		s.Huge = appendRun(s.Huge, run)
	}
}

// appendRun adds a run, joined to the one before when nothing divides them.
func appendRun(runs []PageRun, r PageRun) []PageRun {
	if n := len(runs); n > 0 && runs[n-1].End == r.Start {
		runs[n-1].End = r.End
		return runs
	}
	return append(runs, r)
}

// within says whether a run reaches into a mapping of a kind.
func within(runs []PageRun, vmas []VMA, kind func(*VMA) bool) bool {
	i := 0
	for _, r := range runs {
		for i < len(vmas) && vmas[i].End <= r.Start {
			i++
		}
		for j := i; j < len(vmas) && vmas[j].Start < r.End; j++ {
			if kind(&vmas[j]) {
				return true
			}
		}
	}
	return false
}

// Strays says whether a run reaches out of all mappings, or into one that gives
// no access. In the first case the pages are of a later moment than the mappings;
// in the second they may be. Runs and mappings are in order of address.
func Strays(runs []PageRun, vmas []VMA) bool {
	i := 0
	for _, r := range runs {
		for at := r.Start; at < r.End; at = vmas[i].End {
			for i < len(vmas) && vmas[i].End <= at {
				i++
			}
			if i == len(vmas) || vmas[i].Start > at || !vmas[i].Accessible() {
				return true
			}
		}
	}
	return false
}

// CanScanPages says whether the resident pages of process pid can be found
// without the Rss of its mappings: with PAGEMAP_SCAN.
func (fs FS) CanScanPages(pid int) bool {
	f, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return false
	}
	defer f.Close()
	page := uint64(os.Getpagesize())
	return scanPagemap(context.Background(), f, []VMA{{Start: page, End: 2 * page}}, scanResident, func(pmRegion) {}) == nil
}

// What to scan for: pages that are not the zero page and have any of these
// categories; those in ret are told. One call finds so many pages at most.
type scanFor struct{ anyof, ret, pages uint64 }

var (
	scanResident = scanFor{pageIsPresent, pageIsPresent, scanPages}
	scanKinds    = scanFor{pageIsPresent | pageIsSwapped, pageIsPresent | pageIsSwapped | pageIsFile | pageIsHuge, scanPages}
)

func scanPagemap(ctx context.Context, f *os.File, vmas []VMA, what scanFor, do func(pmRegion)) error {
	if len(vmas) == 0 {
		return nil
	}
	regions := make([]pmRegion, scanRegions)
	arg := pmScanArg{
		start:            vmas[0].Start,
		end:              scanEnd(vmas),
		vec:              uint64(uintptr(unsafe.Pointer(&regions[0]))),
		vecLen:           scanRegions,
		categoryInverted: pageIsPfnzero,
		categoryMask:     pageIsPfnzero,
		categoryAnyof:    what.anyof,
		retMask:          what.ret,
		maxPages:         what.pages,
	}
	page := uint64(os.Getpagesize())
	arg.size = uint64(unsafe.Sizeof(arg))
	first := true
	for arg.start < arg.end {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
		if errno == syscall.ENOTTY || errno == syscall.EINVAL && first {
			return ErrNoPagemapScan
		}
		if errno != 0 {
			return errno
		}
		first = false
		got := regions[:min(int(n), len(regions))]
		found := uint64(0)
		for _, r := range got {
			if r.start < r.end { // where it has found enough the kernel may begin one more
				do(r)
				found += (r.end - r.start) / page
			}
		}
		if len(got) < len(regions) && found < what.pages {
			break
		}
		// walk_end is stale after the kernel flushed its own buffer of 512
		// regions: going on from there would count pages twice.
		arg.start = got[len(got)-1].end
	}
	runtime.KeepAlive(regions)
	return nil
}

// scanEnd is the end of the highest mapping in user space; the vsyscall page
// of x86 lies above it and the kernel refuses to scan there.
func scanEnd(vmas []VMA) uint64 {
	for i := len(vmas) - 1; i >= 0; i-- {
		if vmas[i].End < 1<<63 {
			return vmas[i].End
		}
	}
	return 0
}

// countedRuns takes runs in mappings whose pages do not count out.
func countedRuns(runs []PageRun, vmas []VMA) []PageRun {
	var skip []PageRun
	for i := range vmas {
		if vmas[i].Uncounted() {
			skip = append(skip, PageRun{vmas[i].Start, vmas[i].End})
		}
	}
	if len(skip) == 0 {
		return runs
	}
	kept := make([]PageRun, 0, len(runs))
	for _, r := range runs {
		for len(skip) > 0 && skip[0].End <= r.Start {
			skip = skip[1:]
		}
		for _, s := range skip {
			if s.Start >= r.End {
				break
			}
			if s.Start > r.Start {
				kept = append(kept, PageRun{r.Start, s.Start})
			}
			r.Start = min(s.End, r.End)
		}
		if r.Start < r.End {
			kept = append(kept, r)
		}
	}
	return kept
}

const (
	pagemapPresent = 1 << 63
	pagemapSwapped = 1 << 62
)

// maxEntries bounds the entries of the page map that are read: 256 GiB of
// address space, which take the kernel half a second.
const maxEntries = 1 << 26

// readPagemap reads one 64-bit entry per page (kernel:
// Documentation/admin-guide/mm/pagemap.rst) of the mappings that have an Rss,
// until the Rss is found.
func readPagemap(ctx context.Context, r io.ReaderAt, vmas []VMA, pageSize int64) ([]PageRun, error) {
	p := pagemapReader{r: r, pageSize: pageSize, left: maxEntries, buf: make([]byte, 64<<10)}
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

// mapping adds the runs of one mapping, which have its Rss together unless the
// page map shows fewer.
func (p *pagemapReader) mapping(ctx context.Context, v *VMA) error {
	first, found := len(p.runs), int64(0)
	for at := v.Start; at < v.End && found < v.RSS; {
		n := min(int64(v.End-at)/p.pageSize, int64(len(p.buf))/8)
		if p.left -= n; p.left < 0 {
			p.runs = append(p.runs[:first], PageRun{v.Start, v.Start + uint64(min(v.RSS, v.Size()))})
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := p.r.ReadAt(p.buf[:n*8], int64(at)/p.pageSize*8); err != nil {
			return fmt.Errorf("reading the page map at %#x: %w", at, err)
		}
		for o := int64(0); o < n*8; o += 8 {
			if binary.NativeEndian.Uint64(p.buf[o:])&pagemapPresent != 0 {
				p.runs = extend(p.runs, first, at, at+uint64(p.pageSize))
				found += p.pageSize
			}
			at += uint64(p.pageSize)
		}
	}
	p.runs = append(p.runs[:first], cutRuns(p.runs[first:], v.RSS)...)
	return nil
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
