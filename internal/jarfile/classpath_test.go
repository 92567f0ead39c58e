package jarfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tare.dev/tare/internal/testkit/jartest"
)

// jarWith writes a jar whose manifest has a Class-Path.
func jarWith(t *testing.T, path, classPath string) {
	t.Helper()
	jarOf(t, path, "Class-Path: "+classPath+"\r\n")
}

// jarOf writes a jar whose manifest has some attributes.
func jarOf(t *testing.T, path, attributes string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	jartest.Write(t, path, map[string]string{manifestName: "Manifest-Version: 1.0\r\n" + attributes + "\r\n"})
}

// The layout of Quarkus, and others: a small jar names all that runs.
func TestClosure(t *testing.T) {
	dir := t.TempDir()
	in := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(dir, n))
		}
		return out
	}
	jarWith(t, filepath.Join(dir, "run.jar"), "lib/boot.jar lib/a%20b.jar http://example.com/x.jar bad%2 bad%zz gone.jar config/ file:/abs/c.jar")
	jarWith(t, filepath.Join(dir, "lib/boot.jar"), "deep.jar ../run.jar")
	jarWith(t, filepath.Join(dir, "lib/deep.jar"), "")
	jarWith(t, filepath.Join(dir, "lib/a b.jar"), "")
	want := append(in("run.jar", "lib/boot.jar", "lib/deep.jar", "lib/a b.jar", "gone.jar", "config"), "/abs/c.jar")
	if got := Closure(in("run.jar")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Closure([]string{dir + "/lib/*"}), in("lib/a b.jar", "lib/boot.jar", "lib/deep.jar"); len(got) < 3 || !slices.Equal(got[:2], want[:2]) {
		t.Errorf("%q", got)
	}
	if got := Closure([]string{"/nowhere/x.jar", "/nowhere/*"}); !slices.Equal(got, []string{"/nowhere/x.jar"}) {
		t.Errorf("%q", got)
	}
}

// A fast-jar of Quarkus loads from folders that its manifest does not name.
func TestClosureOfQuarkus(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "quarkus-run.jar")
	jarOf(t, run, "Main-Class: io.quarkus.bootstrap.runner.QuarkusEntryPoint\r\nClass-Path: lib/boot/b.jar\r\n")
	want := []string{run}
	for _, name := range []string{"lib/boot/b.jar", "lib/main/m.jar", "app/a.jar", "quarkus/q.jar"} {
		jarWith(t, filepath.Join(dir, name), "")
		want = append(want, filepath.Join(dir, name))
	}
	jarWith(t, filepath.Join(dir, "lib/deployment/d.jar"), "")
	if got := Closure([]string{run}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
