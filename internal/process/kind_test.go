package process

import (
	"errors"
	"os"
	"strings"
	"testing"

	"tare.dev/tare/internal/elffile"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/jvmtest"
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

func TestImageHeap(t *testing.T) {
	image, err := os.Open(jvmtest.NativeImage(t))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	fi, err := image.Stat()
	if err != nil {
		t.Fatal(err)
	}
	heap, err := elffile.Find(image, imageHeapSection)
	if err != nil || heap.Size() < 1<<20 || int64(heap.End) > fi.Size() {
		t.Errorf("image heap %x of a file of %d bytes, %v", heap, fi.Size(), err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if heap, err := elffile.Find(self, imageHeapSection); !errors.Is(err, elffile.ErrNoSection) {
		t.Errorf("a Go program has an image heap: %x, %v", heap, err)
	}
}
