// Package nativetest builds native libraries that hold memory of known size
// inside of a JVM.
package nativetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// Memory is a library of C that maps memory and starts threads.
func Memory(t testing.TB) string {
	t.Helper()
	return build(t, "memory.so", "gcc", "-shared", "-fPIC", "-O1", "-pthread", "-o", "memory.so", "memory.c")
}

// Jemalloc is a library of C that jemalloc is linked into.
func Jemalloc(t testing.TB) string {
	t.Helper()
	return build(t, "jemalloc.so", "gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-pthread", "-o", "jemalloc.so", "jemalloc.c",
		"-Wl,-Bstatic,-ljemalloc_pic,-Bdynamic", "-Wl,--exclude-libs,ALL", "-lm", "-ldl", "-lstdc++")
}

// Goroutines is a library of Go.
func Goroutines(t testing.TB) string {
	t.Helper()
	return build(t, "goroutines.so", "go", "build", "-trimpath", "-buildmode=c-shared", "-o", "goroutines.so", "./goroutines")
}

// build runs a compiler among the sources, in a folder of the test.
func build(t testing.TB, library, compiler string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	sources := filepath.Join(jvmtest.Root(t), "internal", "testkit", "nativetest", "testdata")
	out := filepath.Join(dir, library)
	for i := range args {
		if args[i] == library {
			args[i] = out
		}
	}
	cmd := exec.Command(compiler, args...)
	cmd.Dir = sources
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, said)
	}
	return out
}
