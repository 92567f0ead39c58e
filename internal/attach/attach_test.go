package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// answering is a connection to a JVM that answers every request with text, and
// then with itself again and again when it is endless.
func answering(t *testing.T, text string, endless bool) net.Conn {
	t.Helper()
	ours, jvms := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() {
		defer jvms.Close()
		request := make([]byte, 256)
		if _, err := jvms.Read(request); err != nil {
			return
		}
		for more := true; more; more = endless {
			if _, err := io.WriteString(jvms, text); err != nil {
				return
			}
		}
	}()
	return ours
}

func TestExchange(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       string
		err        error
	}{
		{"a whole answer", "0\none\ntwo\n", "one\ntwo\n", nil},
		{"an answer without text", "0\n", "", nil},
		{"an answer that ends within a line", "0\none\ntw", "one\ntw", ErrAnswer},
		{"no answer", "", "", ErrAnswer},
		{"a refusal", "1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n", "", ErrRefused},
		{"a code without end", strings.Repeat("0", 1<<16), "", nil},
	} {
		var got string
		err := exchange(t.Context(), answering(t, c.text, false), "VM.version", func(r io.Reader) error {
			b, err := io.ReadAll(r)
			got = string(b)
			return err
		})
		if wrong := err == nil && c.want != got || c.err != nil && !errors.Is(err, c.err) || c.want == "" && c.text != "0\n" && err == nil; wrong {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
}

// What a JVM refuses with does not reach the terminal as it is.
func TestRefusalIsPrintable(t *testing.T) {
	err := exchange(t.Context(), answering(t, "1\n\x1b]0;title\a\x1b[31mred\n", false), "VM.version", nil)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\a\n") {
		t.Errorf("%q", err)
	}
}

// An answer without end costs no memory, and is an error: for who reads it all,
// and for who stops early.
func TestExchangeWithoutEnd(t *testing.T) {
	line := "0\n" + strings.Repeat("[0x00007f0000000000 - 0x00007f0000001000] reserved 4KB for Java Heap from\n", 1<<12)
	for what, take := range map[string]func(io.Reader) error{
		"read to the end": func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
		"left unread":     func(io.Reader) error { return nil },
		"parsed": func(r io.Reader) error {
			_, _, err := ParseNMTDetail(io.MultiReader(strings.NewReader("Virtual memory map:\n"), r))
			return err
		},
	} {
		conn := answering(t, line, true)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := exchange(t.Context(), conn, "VM.native_memory detail", take)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v", what, err)
		}
		if n := int64(after.HeapSys - before.HeapSys); after.HeapSys > before.HeapSys && n > 64<<20 {
			t.Errorf("%s: the heap grew by %d bytes", what, n)
		}
	}
}

// The end of the context ends the wait for a JVM that does not answer.
func TestExchangeEndsWithTheContext(t *testing.T) {
	ours, jvms := net.Pipe()
	defer ours.Close()
	defer jvms.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = jvms.Read(make([]byte, 256))
		cancel()
	}()
	if err := exchange(ctx, ours, "VM.version", func(io.Reader) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Every answer that tare asks for ends with the end of a line, on every JDK.
func TestAnswersAreWhole(t *testing.T) {
	for _, major := range []int{8, 11, 17, 21, 25, 27} {
		p := jvmtest.StartFiller(t, jvmtest.Java(t, major), []string{"-Xmx32m", "-Xint", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=detail"}, 1, 1, 1)
		proc := linux.NewFS("/proc")
		target, err := process.Find(proc, p.PID())
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"VM.native_memory summary scale=KB", "VM.native_memory detail scale=KB", "System.map", "GC.heap_info",
			"Compiler.codecache", "GC.class_histogram -all", "VM.metaspace scale=KB", "VM.classloader_stats", "Thread.print"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var text bytes.Buffer
			err := Ask(ctx, proc, target, command, func(r io.Reader) error { _, err := text.ReadFrom(r); return err })
			cancel()
			if err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("JDK %d: %v after %d bytes", major, err, text.Len())
			}
		}
	}
}
