package linux

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A Mem reads what is resident, takes untouched pages of files from the file,
// and never touches an untouched page.
func TestMem(t *testing.T) {
	page := os.Getpagesize()
	anon, err := unix.Mmap(-1, 0, 64*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(anon) }()
	if err := unix.Madvise(anon, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	copy(anon[10*page:], "touched")
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("file"), page), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(fd, 0, 4*page, unix.PROT_READ, unix.MAP_PRIVATE)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	replaced := mapRemoved(t)

	proc := NewFS("/proc")
	vmas, err := proc.Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	m, err := proc.OpenMem(os.Getpid(), vmas)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()

	got := make([]byte, 7)
	if err := m.ReadMem(got, addressOf(anon[10*page:])); err != nil || string(got) != "touched" {
		t.Errorf("resident page: %q, %v", got, err)
	}
	if err := m.ReadMem(got, addressOf(anon[20*page:])); !errors.Is(err, ErrNotResident) {
		t.Errorf("untouched page: %v", err)
	}
	if err := m.ReadMem(got, addressOf(anon[11*page-3:])); !errors.Is(err, ErrNotResident) {
		t.Errorf("range that runs into an untouched page: %v", err)
	}
	if err := m.ReadMem(got, addressOf(mapped[2*page-2:])); err != nil || string(got) != "lefilef" {
		t.Errorf("file: %q, %v", got, err)
	}
	if err := m.ReadMem(got, addressOf(replaced)); err != nil || string(got) != "removed" {
		t.Errorf("file that was removed: %q, %v", got, err)
	}
	if n := residentIn(t, mapped); n != 0 {
		t.Errorf("reading made %d pages of the file resident", n)
	}
	if n := residentIn(t, anon); n != 1 {
		t.Errorf("%d pages resident, one was touched", n)
	}
	for _, addr := range []uint64{0, 1 << 62, ^uint64(0) - 3} {
		if err := m.ReadMem(got, addr); err == nil {
			t.Errorf("read at %#x", addr)
		}
	}
}

// residentIn counts the resident pages of a range by the page map.
func residentIn(t *testing.T, b []byte) int {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	runs, err := readPagemap(t.Context(), f, []VMA{{Start: addressOf(b), End: addressOf(b) + uint64(len(b)), RSS: int64(len(b))}}, int64(page))
	if err != nil {
		t.Fatal(err)
	}
	return int(total(runs)) / page
}

// mapRemoved maps a file that is then removed, and touches nothing of it.
func mapRemoved(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "removed"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte("removed "), os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) })
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	return mapped
}
