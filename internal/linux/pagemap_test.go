package linux

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func total(runs []PageRun) (n int64) {
	for _, r := range runs {
		n += r.Size()
	}
	return n
}

// The page map and smaps of one moment agree.
func TestRecordedRunsAddUpToRss(t *testing.T) {
	vmas := parseFile(t, "testdata/smaps/jdk25-serial.txt", parseSmapsText)
	runs := countedRuns(recordedRuns(t, "testdata/smaps/jdk25-serial.runs.txt"), vmas)
	rollup := parseFile(t, "testdata/smaps/jdk25-serial.rollup.txt", parseSmapsText)
	if got := total(runs); got != rollup[0].RSS {
		t.Errorf("runs add up to %d, Rss is %d", got, rollup[0].RSS)
	}
}

func TestCountedRuns(t *testing.T) {
	vmas := []VMA{
		{Start: 0x1000, End: 0x3000},
		{Start: 0x3000, End: 0x4000, Flags: "rd pf"},
		{Start: 0x4000, End: 0x6000},
		{Start: 0x6000, End: 0x7000, Flags: "io"},
	}
	got := countedRuns([]PageRun{{0x2000, 0x5000}, {0x5000, 0x7000}}, vmas)
	want := []PageRun{{0x2000, 0x3000}, {0x4000, 0x5000}, {0x5000, 0x6000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// entries serves a page map in which the given pages are present.
type entries map[int64]bool

func (e entries) ReadAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var v uint64
		if e[(off+int64(i))/8] {
			v = pagemapPresent
		}
		binary.NativeEndian.PutUint64(p[i:], v)
	}
	return len(p), nil
}

func TestReadPagemap(t *testing.T) {
	const page = 16 << 10 // a page size that is not this machine's
	present := entries{1: true, 2: true, 4: true, 9: true, 10: true}
	vmas := []VMA{
		{Start: 1 * page, End: 6 * page, RSS: 3 * page},
		{Start: 6 * page, End: 8 * page},
		// The zero page looks present and is not part of Rss.
		{Start: 8 * page, End: 12 * page, RSS: 1 * page},
	}
	got, err := readPagemap(t.Context(), present, vmas, page)
	want := []PageRun{{1 * page, 3 * page}, {4 * page, 5 * page}, {9 * page, 10 * page}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}

// Both ways to read the page map see the pages of this process that a test
// has touched, and only those, also when there are more runs than the kernel
// and we keep at a time.
func TestResidentPagesOfThisProcess(t *testing.T) {
	page := os.Getpagesize()
	const pages = 20000
	mem, err := unix.Mmap(-1, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < pages; i += 2 {
		mem[i*page] = 1
	}
	_ = mem[1*page] // the zero page
	proc := NewFS("/proc")
	vmas, err := proc.Smaps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(vmas, func(v VMA) bool { return v.RSS >= pages/2*int64(page) && v.Size() >= int64(pages*page) })
	if i < 0 {
		t.Fatal("the mapping of this test is not in smaps")
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := vmas[i : i+1]
	read, err := readPagemap(t.Context(), f, one, int64(page))
	if err != nil {
		t.Fatal(err)
	}
	if total(read) != one[0].RSS {
		t.Errorf("page map read: %d bytes, Rss %d", total(read), one[0].RSS)
	}
	scan, err := proc.ScanPages(t.Context(), os.Getpid(), one)
	switch {
	case errors.Is(err, ErrNoPagemapScan) && !canScan(t): // an older kernel
	case err != nil:
		t.Error(err)
	case total(scan.Resident) != one[0].RSS || total(scan.File) != 0 || total(scan.Huge) != 0 || total(scan.Swapped) != one[0].Swap:
		t.Errorf("scanned: %d bytes resident, %d of files, %d huge, %d swapped, want %d, 0, 0, %d",
			total(scan.Resident), total(scan.File), total(scan.Huge), total(scan.Swapped), one[0].RSS, one[0].Swap)
	}
	whole, err := proc.ResidentPages(t.Context(), os.Getpid(), one)
	if err != nil {
		t.Fatal(err)
	}
	if total(whole) != one[0].RSS {
		t.Errorf("resident pages: %d bytes in %d runs, Rss %d", total(whole), len(whole), one[0].RSS)
	}
}

// canScan says whether this kernel has PAGEMAP_SCAN.
func canScan(t *testing.T) bool {
	t.Helper()
	page := uint64(os.Getpagesize())
	_, err := NewFS("/proc").FindResident(t.Context(), os.Getpid(), []VMA{{Start: page, End: 2 * page}})
	if err != nil && !errors.Is(err, ErrNoPagemapScan) {
		t.Fatal(err)
	}
	return err == nil
}

func TestReach(t *testing.T) {
	vmas := []VMA{{Start: 0x1000, End: 0x3000}, {Start: 0x9000, End: 0xa000}, {Start: 0xa000, End: 0xf000}}
	for _, c := range []struct{ start, bytes, want, behind uint64 }{
		{0x1000, 0x1000, 0x2000, 3}, {0x2000, 0x1000, 0x3000, 3}, {0x3000, 0x1000, 0xa000, 2},
		{0x1000, 0x4000, 0xb000, 3}, {0x1000, 0x100000, 0xf000, 3}, {0xb000, 0x1000, 0xc000, 1}, {0xe000, 0x2000, 0xf000, 1},
	} {
		got, behind := reach(vmas, c.start, 0xf000, c.bytes)
		if got != c.want || len(behind) != int(c.behind) {
			t.Errorf("%#x from %#x: up to %#x, %d mappings behind, want %#x, %d", c.bytes, c.start, got, len(behind), c.want, c.behind)
		}
	}
}

// A scan that is cut into many calls finds what one call finds.
func TestScanIsCut(t *testing.T) {
	if !canScan(t) {
		t.Skip("this kernel has no PAGEMAP_SCAN")
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 3000*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for i := range 3000 {
		if i < 1500 && i%2 == 0 || i > 1700 { // many runs, none, one
			mem[i*page] = 1
		}
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := uint64(uintptr(unsafe.Pointer(&mem[0])))
	one := []VMA{{Start: start, End: start + uint64(len(mem))}}
	cut := func(pages, reach uint64) (runs []PageRun) {
		if err := scanPagemap(t.Context(), f, one, scanFor{anyof: pageIsPresent, ret: pageIsPresent, pages: pages, reach: reach}, func(r pmRegion) { runs = appendRun(runs, PageRun{r.start, r.end}) }); err != nil {
			t.Fatal(err)
		}
		return runs
	}
	whole := cut(1<<40, 1<<40)
	for _, pages := range []uint64{1, 7, 512, 1299, 1300, 2049, 2050, 3000} {
		for _, reach := range []int{1, 300, 1500, 2999, 3000} {
			if got := cut(pages, uint64(reach*page)); !slices.Equal(got, whole) {
				t.Errorf("cut to %d pages of %d: %d runs with %d bytes, not %d with %d", pages, reach, len(got), total(got), len(whole), total(whole))
			}
		}
	}
	if total(whole) < int64(2000*page) {
		t.Errorf("%d bytes", total(whole))
	}
}

// The kinds of pages of this process add up to what smaps counts: what was
// written to of a private mapping of a file is anonymous, and a huge page is
// one.
func TestScanPagesByKind(t *testing.T) {
	proc := NewFS("/proc")
	if !canScan(t) {
		t.Log("this kernel has no PAGEMAP_SCAN: smaps is read there")
		if _, err := proc.ScanPages(t.Context(), os.Getpid(), nil); err != nil {
			t.Error(err)
		}
		return
	}
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 8*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 8*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	sum := byte(0)
	for i := range 8 {
		sum += mem[i*page]
	}
	mem[2*page], mem[3*page] = sum+1, 1
	const huge = 2 << 20
	area, err := unix.Mmap(-1, 0, 3*huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(area) }()
	if err := unix.Madvise(area, unix.MADV_HUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	for i := 0; i < len(area); i += page {
		area[i] = 1
	}
	vmas, err := proc.Smaps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	scan, err := proc.ScanPages(t.Context(), os.Getpid(), vmas)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []uintptr{uintptr(unsafe.Pointer(&mem[0])), uintptr(unsafe.Pointer(&area[0]))} {
		i := slices.IndexFunc(vmas, func(v VMA) bool { return v.Start <= uint64(addr) && uint64(addr) < v.End })
		in := func(runs []PageRun) (n int64) {
			for _, r := range runs {
				n += max(0, int64(min(r.End, vmas[i].End))-int64(max(r.Start, vmas[i].Start)))
			}
			return n
		}
		v := vmas[i]
		if in(scan.Resident) != v.RSS || in(scan.Resident)-in(scan.File) != v.Anonymous || in(scan.Huge) != v.AnonHuge {
			t.Errorf("%d resident, %d of the file, %d huge; smaps has %+v", in(scan.Resident), in(scan.File), in(scan.Huge), v)
		}
	}
	if _, err := proc.ScanPages(t.Context(), os.Getpid(), []VMA{{Start: 0x1000, End: 0x2000, Path: "/dev/mem"}}); !errors.Is(err, ErrNoPagemapScan) {
		t.Errorf("a device: %v", err)
	}
}

func TestReadPagemapFails(t *testing.T) {
	empty := io.NewSectionReader(entries{}, 0, 0)
	if _, err := readPagemap(t.Context(), empty, []VMA{{Start: 0x1000, End: 0x2000, RSS: 4096}}, 4096); err == nil {
		t.Error("a page map that ends early was accepted")
	}
}

func TestStrays(t *testing.T) {
	vmas := []VMA{{Start: 0x1000, End: 0x3000, Perms: "r--p"}, {Start: 0x3000, End: 0x4000, Perms: "rw-p"}, {Start: 0x8000, End: 0x9000, Perms: "rw-p"}, {Start: 0xa000, End: 0xb000, Perms: "---p"}}
	for _, c := range []struct {
		name string
		runs []PageRun
		want bool
	}{
		{"none", nil, false},
		{"inside, and over neighbours", []PageRun{{0x1000, 0x2000}, {0x2000, 0x4000}, {0x8000, 0x9000}}, false},
		{"before", []PageRun{{0, 0x2000}}, true},
		{"into a gap", []PageRun{{0x3000, 0x5000}}, true},
		{"in a gap", []PageRun{{0x1000, 0x2000}, {0x5000, 0x6000}}, true},
		{"behind", []PageRun{{0xb000, 0xc000}}, true},
		{"where nothing may be touched", []PageRun{{0xa000, 0xb000}}, true},
		{"over a gap", []PageRun{{0x3000, 0x9000}}, true},
	} {
		if got := Strays(c.runs, vmas); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
