package runner_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/runnertest"
)

func TestClassPath(t *testing.T) {
	runnertest.ClassPath(t, runner.ThisHost())
}

// A file of this machine is none of an image, even where it has the same name; the
// copy of one is, under the name that the image has it by.
func TestClassPathOfImage(t *testing.T) {
	dir := t.TempDir()
	here, copied := filepath.Join(dir, "here.jar"), filepath.Join(dir, "copy.jar")
	for _, name := range []string{here, copied} {
		bootjartest.Write(t, name, os.DevNull, map[string]string{"BOOT-INF/classes/application.yml": "a: 1\n"})
	}
	d := runner.DockerWithCopy("/app/app.jar", copied)
	q := runner.ClassPathQuery{Paths: []string{here, "/app/app.jar"}, Folders: []string{dir}, Texts: []string{"application.yml"}}
	got, err := d.ClassPath(t.Context(), q)
	if err != nil || !slices.Equal(got.Files, q.Paths) {
		t.Fatalf("%q, %v", got.Files, err)
	}
	if names := slices.Collect(maps.Keys(got.Texts)); !slices.Equal(names, []string{"/app/app.jar!/BOOT-INF/classes/application.yml"}) {
		t.Errorf("texts of %q", names)
	}
	if f, err := d.File(t.Context(), "/app/app.jar"); err != nil || !f.NestedJars {
		t.Errorf("%+v, %v", f, err)
	}
	if jar, err := d.Extract(t.Context(), "/app/app.jar", filepath.Join(dir, "out")); err != nil || filepath.Dir(jar) != filepath.Join(dir, "out") {
		t.Errorf("%s, %v", jar, err)
	}
}
