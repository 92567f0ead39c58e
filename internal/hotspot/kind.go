package hotspot

import (
	"bytes"
	"debug/elf"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/linux"
)

// Kind is what runs a Java program.
type Kind string

// The kinds. Only HotSpot describes itself; of the others the kernel's view is
// all there is.
const (
	HotSpot     Kind = "HotSpot"
	OpenJ9      Kind = "OpenJ9"
	NativeImage Kind = "native image"
)

// recognise says whether the process is a JVM, and what kind, by the libraries
// that it maps, else by its executable.
func (t *Target) recognise(proc linux.FS) bool {
	for i := range t.VMAs {
		v := &t.VMAs[i]
		name := filepath.Base(strings.TrimSuffix(v.Path, " (deleted)"))
		switch {
		case strings.HasPrefix(name, "ld-musl-"), name == "libc.so": // glibc's is libc.so.6
			t.Musl = true
		case v.Offset != 0 || t.Kind == OpenJ9:
		case strings.HasPrefix(name, "libj9vm") && strings.HasSuffix(name, ".so"):
			// OpenJ9 has a libjvm.so too, which only leads here.
			t.Kind, t.LibjvmBase, t.LibjvmPath = OpenJ9, v.Start, v.Path
		case name == "libjvm.so" && t.Kind == "":
			t.Kind, t.LibjvmBase, t.LibjvmPath = HotSpot, v.Start, v.Path
		}
	}
	return t.Kind != "" || t.isNativeImage(proc)
}

// imageHeapSection holds the objects that GraalVM's native-image built into an
// executable (substratevm: com.oracle.objectfile.ObjectFile, section SVM_HEAP).
const imageHeapSection = ".svm_heap"

// isNativeImage looks at the executable itself, which outlives a replaced file.
func (t *Target) isNativeImage(proc linux.FS) bool {
	if len(t.VMAs) == 0 {
		return false // a thread of the kernel, or a process that ends
	}
	f, err := os.Open(proc.Path(t.PID, "exe"))
	if err != nil {
		return false
	}
	defer f.Close()
	r, ok := findSection(f, imageHeapSection)
	if ok {
		t.Kind, t.LibjvmPath, t.ImageHeap = NativeImage, executablePath(t.VMAs), r
	}
	return ok
}

// Bounds of what is read of an executable; real ones have some forty sections,
// with a kilobyte of names.
const (
	sectionHeaderSize = 64
	maxSections       = 1024
	maxSectionNames   = 1 << 16
)

// findSection finds a section with content in a 64-bit little-endian ELF file,
// as a range of the file (System V ABI, "Sections"). Anything else has none.
// What debug/elf would allocate, a hostile file decides.
func findSection(r io.ReaderAt, name string) (Region, bool) {
	var h [elfHeaderSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil || string(h[:6]) != "\x7fELF\x02\x01" {
		return Region{}, false
	}
	at, size, n, names := u64(h[40:]), u16(h[58:]), u16(h[60:]), u16(h[62:])
	if size != sectionHeaderSize || n > maxSections || names >= n || at > math.MaxInt64 {
		return Region{}, false
	}
	table := make([]byte, int(n)*sectionHeaderSize)
	if _, err := r.ReadAt(table, int64(at)); err != nil {
		return Region{}, false
	}
	text, ok := readNames(r, table[int(names)*sectionHeaderSize:])
	if !ok {
		return Region{}, false
	}
	for ; len(table) > 0; table = table[sectionHeaderSize:] {
		key, kind := u32(table), elf.SectionType(u32(table[4:]))
		found := Region{u64(table[24:]), u64(table[24:]) + u64(table[32:])}
		if kind == elf.SHT_PROGBITS && int64(key) < int64(len(text)) && bytes.HasPrefix(text[key:], []byte(name+"\x00")) {
			return found, found.End > found.Start && found.End <= math.MaxInt64
		}
	}
	return Region{}, false
}

// readNames reads the section that holds the names, by its header.
func readNames(r io.ReaderAt, header []byte) ([]byte, bool) {
	at, size := u64(header[24:]), u64(header[32:])
	if at > math.MaxInt64 || size > maxSectionNames {
		return nil, false
	}
	text := make([]byte, size)
	_, err := r.ReadAt(text, int64(at))
	return text, err == nil
}

// executablePath is the first file that is mapped: the executable, unless it
// is position-independent and something lies below it.
func executablePath(vmas []linux.VMA) string {
	for i := range vmas {
		if vmas[i].FileBacked() {
			return vmas[i].Path
		}
	}
	return ""
}
