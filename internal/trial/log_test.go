package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
