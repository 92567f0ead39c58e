package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// weighForeign weighs a JVM that does not describe itself, and checks that
// this is no error, that what cannot be known is said, and that the JVM is left
// as it was.
func weighForeign(t *testing.T, w *watched, says string) *footprint.Footprint {
	t.Helper()
	before := w.trace(t)
	f := weighJSON(t, fmt.Sprint(w.pid()))
	said := strings.Join(f.Warnings, "\n")
	for _, s := range f.Sources {
		if s.Error != nil {
			said += "\n" + *s.Error
		}
	}
	if !strings.Contains(said, says) {
		t.Errorf("no %q in %q", says, said)
	}
	if f.RSSBytes == 0 {
		t.Error("no pages")
	}
	for _, command := range []string{"doctor", "weigh"} {
		if code, _, errs := tare(t, command, fmt.Sprint(w.pid())); code != exitOK {
			t.Errorf("%s: exit code %d, %s", command, code, errs)
		}
	}
	w.undisturbed(t, before, false)
	return f
}

// refusesAttach checks that a JVM which does not answer HotSpot's attach is
// not asked.
func refusesAttach(t *testing.T, w *watched) {
	t.Helper()
	before := w.trace(t)
	code, out, errs := tare(t, "weigh", "--attach", fmt.Sprint(w.pid()))
	answer{exitPermission, "which does not answer HotSpot's attach"}.check(t, code, out, errs)
	w.undisturbed(t, before, false)
}

func resident(t *testing.T, f *footprint.Footprint, o footprint.Owner) int64 {
	t.Helper()
	r, ok := f.Row(o)
	if !ok {
		t.Fatalf("no row %s", o)
	}
	return r.ResidentBytes
}

// A real GraalVM native image: its heap is found beside the image's.
func TestNativeImage(t *testing.T) {
	cmd := exec.Command(jvmtest.NativeImage(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w := start(t, cmd, "waiting for input")
	f := weighForeign(t, w, "GraalVM native image")
	if f.VM != "native image" || resident(t, f, footprint.JavaHeap) < 10<<20 || resident(t, f, footprint.Unattributed) > f.RSSBytes/50 {
		t.Errorf("%s, %+v", f.VM, f.Rows)
	}
	if code, out, _ := tare(t, "weigh", "--list"); code != exitOK || !strings.Contains(out, "(native image)") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	refusesAttach(t, w)
}

// A real JVM whose libjvm does not export its description, as after a build
// that drops such symbols: here the name was changed in a copy.
func TestHotSpotWithoutDescription(t *testing.T) {
	java, jar := openJDK(t)
	lib := filepath.Join(filepath.Dir(java), "..", "lib", "server", "libjvm.so")
	text, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(lib); err != nil { // it may be a link
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("gHotSpotVMStructs\x00"), []byte("xHotSpotVMStructs\x00"))
	if err := os.WriteFile(lib, text, 0o755); err != nil {
		t.Fatal(err)
	}
	w := start(t, exec.Command(java, "-Xmx32m", "-Xint", "-XX:+UseSerialGC", "-jar", jar, "memory-filler", "5", "100", "10"), "ready")
	f := weighForeign(t, w, "does not describe itself")
	if !strings.HasPrefix(f.JDK, "17.") || f.Collector != "Serial" || f.Heap == nil {
		t.Errorf("JDK %q, %q, heap %+v", f.JDK, f.Collector, f.Heap)
	}
	for _, o := range []footprint.Owner{footprint.JavaHeap, footprint.CodeCache, footprint.ThreadStacks, footprint.CDS, footprint.Malloc, footprint.MappedFiles} {
		if resident(t, f, o) == 0 {
			t.Errorf("no %s", o)
		}
	}
	if resident(t, f, footprint.Unattributed) > f.RSSBytes/20 {
		t.Errorf("%d of %d bytes unattributed", resident(t, f, footprint.Unattributed), f.RSSBytes)
	}
}

// lookalike maps a file whole, has code of its own making, a thread, and memory
// from malloc, and waits.
const lookalike = `
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *wait(void *arg) { for (;;) pause(); }
int main(int argc, char **argv) {
	int fd = open(argv[1], O_RDONLY);
	char *file = mmap(0, 65536, PROT_READ, MAP_PRIVATE, fd, 0);
	char *code = mmap(0, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *heap = mmap(0, 12 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *own = malloc(100000);
	pthread_t thread;
	if (fd < 0 || file == MAP_FAILED || code == MAP_FAILED || heap == MAP_FAILED || !own || pthread_create(&thread, 0, wait, 0))
		return 1;
	memset(code, 1, 1 << 20);
	memset(heap, 1, 12 << 20);
	memset(own, file[0], 100000);
	puts("ready");
	fflush(stdout);
	wait(0);
}
`

// startLookalike builds and starts a program that maps a library of that name.
func startLookalike(t *testing.T, compiler, library string) *watched {
	t.Helper()
	dir := t.TempDir()
	source, lib, prog := filepath.Join(dir, "main.c"), filepath.Join(dir, library), filepath.Join(dir, "java")
	if err := os.WriteFile(source, []byte(lookalike), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-pthread", "-o", prog, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return start(t, exec.Command(prog, lib), "ready")
}

// Not a real OpenJ9, but a program that maps a library of that name: it is
// told by the name, and its memory by what the kernel says of it.
func TestProgramThatMapsLibj9vm(t *testing.T) {
	w := startLookalike(t, "gcc", "libj9vm29.so")
	f := weighForeign(t, w, "this is OpenJ9")
	if f.VM != "OpenJ9" || resident(t, f, footprint.CodeCache) != 1<<20 || resident(t, f, footprint.Malloc) < 100000 {
		t.Errorf("%s, %+v", f.VM, f.Rows)
	}
	if n := resident(t, f, footprint.Unattributed); n < 12<<20 || n > 13<<20 {
		t.Errorf("%d bytes unattributed, want those of its heap", n)
	}
	refusesAttach(t, w)
}

// Not a real JVM for musl, but a program of that C library which maps a
// libjvm.so of zeros: that it does not describe itself is no error, and that
// glibc's arenas are not to be looked for is said.
func TestProgramForMuslThatMapsLibjvm(t *testing.T) {
	w := startLookalike(t, "musl-gcc", "libjvm.so")
	f := weighForeign(t, w, "C library is musl")
	if resident(t, f, footprint.CodeCache) != 1<<20 || resident(t, f, footprint.ThreadStacks) == 0 || resident(t, f, footprint.MappedFiles) == 0 {
		t.Errorf("%+v", f.Rows)
	}
}
