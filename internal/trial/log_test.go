package trial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestCapture(t *testing.T) {
	name := filepath.Join(t.TempDir(), "app.log")
	f, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newCapture(f, regexp.MustCompile(`Started in [0-9]+ ms`))
	out, errs := c.stream(), c.stream()
	fmt.Fprint(out, "Star")
	fmt.Fprint(errs, "java.lang.OutOfMemoryError: Java heap space\r\n")
	select {
	case <-c.matched:
		t.Fatal("matched half a line")
	default:
	}
	fmt.Fprint(out, "ted in 12 ms\nStarted in 13 ms\n# A fatal error has been detected by the Java Runtime Environment:\n")
	select {
	case <-c.matched:
	default:
		t.Error("not matched")
	}
	got := c.result(2)
	if got.CodeCacheFull {
		t.Errorf("%+v", got)
	}
	fmt.Fprint(out, "[2.1s][warning][codecache] CodeHeap 'non-profiled nmethods' is full. Compiler has been disabled.\n")
	if !c.result(2).CodeCacheFull {
		t.Error("it was not seen that code cache is full")
	}
	if got.OutOfMemory != "java.lang.OutOfMemoryError: Java heap space" || !strings.HasPrefix(got.Fatal, "A fatal error") || len(got.LastLines) != 2 {
		t.Errorf("%+v", got)
	}
	if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), "Started in 13 ms") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestCaptureIsBounded(t *testing.T) {
	c := newCapture(nil, nil)
	s := c.stream()
	block := []byte(strings.Repeat("x\xff", 50_000))
	for range 100 {
		if n, err := s.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(c.tail) > 2*logTail+len(block) || len(s.(*stream).line) > maxLogLine {
		t.Errorf("keeps %d and %d bytes", len(c.tail), len(s.(*stream).line))
	}
	for _, l := range c.result(5).LastLines {
		if len(l) > maxLogLine {
			t.Errorf("line of %d bytes", len(l))
		}
	}
}

// The whole log is for its owner alone: it may hold what the application prints
// of its secrets.
func TestLogIsPrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "app.log")
	for _, mode := range []os.FileMode{0, 0o644} {
		if mode != 0 { // of an earlier trial
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		f, err := openLog(name)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := f.Stat(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
		f.Close()
	}
}

// What an application prints drives no terminal, neither as a line nor as
// evidence.
func TestLogIsPrintable(t *testing.T) {
	c := newCapture(nil, nil)
	fmt.Fprint(c.stream(), "\x1b]0;gone\x07java.lang.OutOfMemoryError: \x1b[31mred\n# \x1b[2JA fatal error has been detected by the Java Runtime Environment\nlast \x9b1m\n")
	got := c.result(9)
	for _, text := range append(got.LastLines, got.OutOfMemory, got.Fatal) {
		if strings.ContainsAny(text, "\x1b\x07\u009b") || text == "" {
			t.Errorf("%q", text)
		}
	}
}

// A full disk loses the rest of the file, and that is said; what the verdict
// needs is all there.
func TestLogOnFullDisk(t *testing.T) {
	f, err := openLog("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newCapture(f, nil)
	s := c.stream()
	for range 2 {
		if n, err := fmt.Fprint(s, "java.lang.OutOfMemoryError: Java heap space\n"); n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := c.result(5); got.OutOfMemory == "" || len(got.LastLines) != 2 {
		t.Errorf("%+v", got)
	}
	if err := c.lost(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("lost: %v", err)
	}
	if err := newCapture(nil, nil).lost(); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
