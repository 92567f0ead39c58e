package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
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
	// scanPages is how many pages one call finds, and scanReach how much mapped memory it
	// goes over: for so long, about a millisecond, the kernel holds a lock that the
	// process needs to map memory. Smaller calls take no less in all.
	scanPages = 1 << 14
	scanReach = 1 << 30
	// scanRest lies between two calls that found as much as they may: a writer that waits
	// for the lock takes some time to wake, and until it has waited for 4 ms the kernel lets
	// readers go before it (rwsem_down_read_slowpath of kernel/locking/rwsem.c). It is the
	// kernel's to keep: Go's timers take a millisecond where there is nothing else to do.
	scanRest = 50 * time.Microsecond
)

type pmScanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	categoryInverted, categoryMask, categoryAnyof, retMask  uint64
}

type pmRegion struct{ start, end, categories uint64 }

// ErrNoPagemapScan says that the kernel has no PAGEMAP_SCAN, or that it would not tell
// which pages count into Rss.
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
	runs, err := scanRuns(ctx, f, vmas)
	if errors.Is(err, ErrNoPagemapScan) {
		return readPagemap(ctx, f, vmas, int64(os.Getpagesize()))
	}
	return runs, err
}

// FindResident is ResidentPages for mappings whose Rss and flags are not known. It fails
// with ErrNoPagemapScan before Linux 6.7, and where a mapping may have pages that do not
// count into Rss.
func (fs FS) FindResident(ctx context.Context, pid int, vmas []VMA) ([]PageRun, error) {
	for i := range vmas {
		if v := &vmas[i]; v.mayNotCount() || v.mayBeHuge() {
			return nil, fmt.Errorf("%.80s: %w", v.Path, ErrNoPagemapScan)
		}
	}
	f, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scanRuns(ctx, f, vmas)
}

func scanRuns(ctx context.Context, f *os.File, vmas []VMA) (runs []PageRun, err error) {
	err = scanPagemap(ctx, f, vmas, scanResident, func(r pmRegion) { runs = appendRun(runs, PageRun{r.start, r.end}) })
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

// What to scan for: pages that are not the zero page and have any of these
// categories; those in ret are told. One call finds so many pages at most, and goes over
// so many bytes of mapped memory; rest lies behind one that found so many.
type scanFor struct {
	anyof, ret, pages, reach uint64
	rest                     time.Duration
}

var (
	scanResident = scanFor{pageIsPresent, pageIsPresent, scanPages, scanReach, scanRest}
	scanKinds    = scanFor{pageIsPresent | pageIsSwapped, pageIsPresent | pageIsSwapped | pageIsFile | pageIsHuge, scanPages, scanReach, scanRest}
)

func scanPagemap(ctx context.Context, f *os.File, vmas []VMA, what scanFor, do func(pmRegion)) error {
	if len(vmas) == 0 {
		return nil
	}
	regions := make([]pmRegion, scanRegions)
	arg := pmScanArg{
		start:            vmas[0].Start,
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
	for end := scanEnd(vmas); arg.start < end; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if arg.end <= arg.start {
			arg.end, vmas = reach(vmas, arg.start, end, what.reach)
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
			arg.start = arg.end
			continue
		}
		// walk_end is stale after the kernel flushed its own buffer of 512
		// regions: going on from there would count pages twice.
		arg.start = got[len(got)-1].end
		if found >= what.pages {
			rest := syscall.NsecToTimespec(int64(what.rest))
			_ = syscall.Nanosleep(&rest, nil) // a signal may end it early
		}
	}
	runtime.KeepAlive(regions)
	return nil
}

// reach is where a call ends that begins at start and goes over so many bytes of the
// mappings, end at the latest; and the mappings behind start. What nobody maps costs
// nothing.
func reach(vmas []VMA, start, end, bytes uint64) (uint64, []VMA) {
	for len(vmas) > 0 && vmas[0].End <= start {
		vmas = vmas[1:]
	}
	for i := range vmas {
		from := max(start, vmas[i].Start)
		if size := vmas[i].End - from; size < bytes {
			bytes -= size
			continue
		}
		return min(end, from+bytes), vmas
	}
	return end, vmas
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
