package elffile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

func TestFindInAProgram(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	fi, err := self.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Find(self, ".text"); err != nil || s.Size() < 1<<16 || int64(s.End) > fi.Size() {
		t.Errorf("text %x of a file of %d bytes, %v", s, fi.Size(), err)
	}
	// .bss is a section without content, .texture has a name that begins alike.
	for _, name := range []string{".texture", ".tex", ".bss", ""} {
		if s, err := Find(self, name); !errors.Is(err, ErrNoSection) {
			t.Errorf("section %q: %x, %v", name, s, err)
		}
	}
}

// madeUp is a file with one section of content, ".svm_heap".
func madeUp() []byte {
	b := make([]byte, 4096)
	copy(b, "\x7fELF\x02\x01")
	le := binary.LittleEndian
	le.PutUint64(b[40:], 256) // the section headers
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 2)
	le.PutUint16(b[62:], 1)
	copy(b[1024:], "\x00.svm_heap\x00")
	le.PutUint64(b[256+64+24:], 1024)
	le.PutUint64(b[256+64+32:], 64)
	le.PutUint32(b[256:], 1)
	le.PutUint32(b[256+4:], 1)
	le.PutUint64(b[256+16:], 0x1000)
	le.PutUint64(b[256+24:], 2048)
	le.PutUint64(b[256+32:], 512)
	return b
}

func TestFindRejects(t *testing.T) {
	le := binary.LittleEndian
	for what, change := range map[string]func(b []byte){
		"another magic number":    func(b []byte) { b[0] = 0 },
		"32 bits":                 func(b []byte) { b[4] = 1 },
		"headers of another size": func(b []byte) { le.PutUint16(b[58:], 63) },
		"names beyond the table":  func(b []byte) { le.PutUint16(b[62:], 2) },
		"a gigabyte of names":     func(b []byte) { le.PutUint64(b[256+64+32:], 1<<30) },
		"headers beyond the file": func(b []byte) { le.PutUint64(b[40:], 1<<40) },
		"a range that wraps":      func(b []byte) { le.PutUint64(b[256+32:], 1<<63) },
	} {
		b := madeUp()
		change(b)
		if s, err := Find(bytes.NewReader(b), ".svm_heap"); err == nil {
			t.Errorf("%s: %x", what, s)
		}
	}
}

// Whatever stands in a file, looking for a section ends, and what is found is
// a range.
func FuzzFind(f *testing.F) {
	b := madeUp()
	if s, err := Find(bytes.NewReader(b), ".svm_heap"); err != nil || s != (Section{2048, 2560, 0x1000}) {
		f.Fatalf("%x, %v", s, err)
	}
	f.Add(b)
	f.Add(b[:300])
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Find(bytes.NewReader(b), ".svm_heap"); err == nil && s.Size() <= 0 {
			t.Fatalf("range %x", s)
		}
	})
}
