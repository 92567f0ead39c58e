package runner_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
)

func TestHost(t *testing.T) { runnertest.Host(t, runner.ThisHost()) }

func TestHostOfContainers(t *testing.T) { runnertest.Host(t, &runner.Docker{}) }

func TestArchives(t *testing.T) { runnertest.Archives(t, runner.ThisHost(), "", runnertest.Abandon(t)) }

func TestArchivesOfContainers(t *testing.T) {
	runnertest.Archives(t, &runner.Docker{}, runner.InImage, runnertest.Abandon(t))
}

func TestArchivesOfPod(t *testing.T) { runnertest.NoArchives(t, &runner.Pod{}) }

// Without a folder the host takes one in its cache.
func TestArchivesInCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("TARE_CACHE", cache)
	a, err := runner.ThisHost().MakeArchives(t.Context(), "")
	if err != nil || filepath.Dir(a.Dir()) != filepath.Join(cache, "archives") {
		t.Fatal(a, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// A file of this machine that is neither a copy nor in the folder of archives is none
// that a container is known to have.
func TestFilesOfContainers(t *testing.T) {
	d := &runner.Docker{}
	a, err := d.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	here, made := filepath.Join(t.TempDir(), "app.jar"), filepath.Join(a.Dir(), "app.jsa")
	for _, name := range []string{here, made} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := d.File(t.Context(), made); err != nil || f.Bytes != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := d.File(t.Context(), here); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := d.Extract(t.Context(), here, filepath.Join(a.Dir(), "extracted")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
