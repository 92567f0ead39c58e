package linux

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapPages maps pages for a test, as a mapping that joins no other.
func mapPages(t *testing.T, fd, pages, prot, flags int) []byte {
	t.Helper()
	mem, err := unix.Mmap(fd, 0, pages*os.Getpagesize(), prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		t.Fatal(err)
	}
	return mem
}

// The entries of the page map tell what smaps counts, without an Rss: of anonymous memory
// with the zero page, of a file of which a part was written to, of shared memory with a
// file and without, and of a guard that was touched before it was one.
func TestReadPages(t *testing.T) {
	page := os.Getpagesize()
	const rw = unix.PROT_READ | unix.PROT_WRITE
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 8*page), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.MemfdCreate("java_heap", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memory)
	if err := unix.Ftruncate(memory, int64(16*page)); err != nil {
		t.Fatal(err)
	}
	maps := map[string][]byte{
		"anonymous": mapPages(t, -1, 16, rw, unix.MAP_ANON|unix.MAP_PRIVATE),
		"file":      mapPages(t, int(file.Fd()), 8, rw, unix.MAP_PRIVATE),
		"memfd":     mapPages(t, memory, 16, rw, unix.MAP_SHARED),
		"shared":    mapPages(t, -1, 16, rw, unix.MAP_ANON|unix.MAP_SHARED),
		"guard":     mapPages(t, -1, 16, rw, unix.MAP_ANON|unix.MAP_PRIVATE),
	}
	sum := byte(0)
	for name, mem := range maps {
		for i := 0; i < len(mem)/page; i++ {
			if i%3 == 0 {
				sum += mem[i*page] // the zero page of anonymous memory
			} else {
				mem[i*page] = sum + 1
			}
		}
		if name == "guard" {
			if err := unix.Mprotect(mem, unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
	}
	proc := NewFS("/proc")
	counted, err := proc.Smaps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := proc.Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	scan, err := proc.ReadPages(t.Context(), os.Getpid(), plain)
	if err != nil {
		t.Fatal(err)
	}
	for name, mem := range maps {
		start := uint64(uintptr(unsafe.Pointer(&mem[0])))
		i := slices.IndexFunc(counted, func(v VMA) bool { return v.Start <= start && start < v.End })
		v := &counted[i]
		in := func(runs []PageRun) (n int64) {
			for _, r := range runs {
				n += max(0, int64(min(r.End, v.End))-int64(max(r.Start, v.Start)))
			}
			return n
		}
		if in(scan.Resident) != v.RSS || in(scan.Resident)-in(scan.File) != v.Anonymous || v.RSS < int64(8*page) {
			t.Errorf("%s: %d resident, %d of files; smaps has %+v", name, in(scan.Resident), in(scan.File), v)
		}
		if v.mayNotCount() || v.inHugetlb(nil) {
			t.Errorf("%s may not count, by %+v", name, v)
		}
	}
}

func TestMayBeHuge(t *testing.T) {
	const hugetlb = 5
	for _, c := range []struct {
		v         VMA
		may, huge bool
	}{
		{VMA{Start: 0x200000, End: 0x400000, Path: "/anon_hugepage (deleted)", Inode: 1, Device: 3}, true, true},
		{VMA{Start: 0x200000, End: 0x400000, Path: "/memfd:java_heap (deleted)", Inode: 1, Device: 3}, true, true},
		{VMA{Start: 0x200000, End: 0x400000, Path: "/memfd:java_heap (deleted)", Inode: 1, Device: sharedMemory()}, false, false},
		{VMA{Start: 0x200000, End: 0x400000, Path: "/mnt/heap", Inode: 1, Device: hugetlb}, true, true},
		{VMA{Start: 0x200000, End: 0x400000, Path: "/srv/file", Inode: 1, Device: 3}, true, false},
		{VMA{Start: 0x200000, End: 0x401000, Path: "/srv/file", Inode: 1, Device: 3}, false, false},
		{VMA{Start: 0x200000, End: 0x400000}, false, false},
	} {
		if may, huge := c.v.mayBeHuge(), c.v.inHugetlb(map[uint64]bool{hugetlb: true}); may != c.may || huge != c.huge {
			t.Errorf("%+v: %v, %v", c.v, may, huge)
		}
	}
	if sharedMemory() == 0 {
		t.Error("the device of shared memory is not known")
	}
}
