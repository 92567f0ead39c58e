package hotspot

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"tare/internal/jvmtest"
	"tare/internal/linux"
)

func TestRecognise(t *testing.T) {
	vma := func(path string) linux.VMA {
		return linux.VMA{Start: 4096, End: 8192, Perms: "r--p", Inode: 1, Path: path}
	}
	for _, c := range []struct {
		paths string
		kind  Kind
		musl  bool
	}{
		{"/jdk/bin/java /jdk/lib/server/libjvm.so /lib/libc.so.6", HotSpot, false},
		{"/jdk/lib/server/libjvm.so (deleted)", HotSpot, false},
		{"/jdk/lib/server/libjvm.so /jdk/lib/default/libj9vm29.so", OpenJ9, false},
		{"/jdk/lib/default/libj9vm29.so /jdk/lib/server/libjvm.so", OpenJ9, false},
		{"/jdk/lib/server/libjvm.so /lib/ld-musl-x86_64.so.1", HotSpot, true},
		{"/usr/bin/python3 /lib/libc.so.6", "", false},
		{"/tmp/libjvm.so.bak /tmp/mylibj9vm.so", "", false},
	} {
		target := &Target{}
		for _, p := range strings.Split(strings.ReplaceAll(c.paths, " (", "\x00("), " ") {
			target.VMAs = append(target.VMAs, vma(strings.ReplaceAll(p, "\x00", " ")))
		}
		known := target.recognise(linux.NewFS(t.TempDir()))
		if known != (c.kind != "") || target.Kind != c.kind || target.Musl != c.musl || (target.LibjvmBase != 0) != known {
			t.Errorf("%s: %+v", c.paths, target)
		}
	}
}

func TestFindSection(t *testing.T) {
	image, err := os.Open(jvmtest.NativeImage(t))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	fi, err := image.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, ok := findSection(image, imageHeapSection)
	if !ok || r.Size() < 1<<20 || int64(r.End) > fi.Size() {
		t.Errorf("image heap %x of a file of %d bytes, %v", r, fi.Size(), ok)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if r, ok := findSection(self, imageHeapSection); ok {
		t.Errorf("a Go program has an image heap: %x", r)
	}
	if _, ok := findSection(self, ".text"); !ok {
		t.Error("a Go program has no text")
	}
}

// Whatever stands in a file, looking for a section ends, and what is found is
// a range.
func FuzzFindSection(f *testing.F) {
	b := make([]byte, 4096)
	copy(b, "\x7fELF\x02\x01")
	binary.LittleEndian.PutUint64(b[40:], 256)
	binary.LittleEndian.PutUint16(b[58:], 64)
	binary.LittleEndian.PutUint16(b[60:], 2)
	binary.LittleEndian.PutUint16(b[62:], 1)
	copy(b[1024:], "\x00.svm_heap\x00")
	binary.LittleEndian.PutUint64(b[256+64+24:], 1024)
	binary.LittleEndian.PutUint64(b[256+64+32:], 64)
	binary.LittleEndian.PutUint32(b[256:], 1)
	binary.LittleEndian.PutUint32(b[256+4:], 1)
	binary.LittleEndian.PutUint64(b[256+24:], 2048)
	binary.LittleEndian.PutUint64(b[256+32:], 512)
	if r, ok := findSection(bytes.NewReader(b), imageHeapSection); !ok || r != (Region{2048, 2560}) {
		f.Fatalf("%x, %v", r, ok)
	}
	f.Add(b)
	f.Add(b[:300])
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := findSection(bytes.NewReader(b), imageHeapSection); ok && (r.Empty() || r.Size() < 0) {
			t.Fatalf("range %x", r)
		}
	})
}
