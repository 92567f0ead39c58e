package runnertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/polltest"
)

// Archives is the part of the suite for hosts that see the files of this machine under
// their names: folders of class archives. Processes know them as inside, or where that is
// empty as the host does. abandon does to a folder what the end of its owner does.
func Archives(t *testing.T, h runner.Host, inside string, abandon func(runner.Archives)) {
	t.Run("Swept", func(t *testing.T) { testArchivesSwept(t, h, inside, abandon) })
	t.Run("GoesOn", func(t *testing.T) { testArchivesGoOn(t, h) })
	t.Run("RemoveMade", func(t *testing.T) { testRemoveMade(t, h) })
	t.Run("Refused", func(t *testing.T) { testArchivesRefused(t, h) })
}

// Abandon does to a folder of archives of this process what the end of the process does:
// nobody holds its lock any more.
func Abandon(t *testing.T) func(runner.Archives) {
	return func(a runner.Archives) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			name, err := os.Readlink("/proc/self/fd/" + fd.Name())
			if err != nil || filepath.Dir(name) != a.Dir() {
				continue
			}
			n, err := strconv.Atoi(fd.Name())
			if err == nil {
				err = unix.Flock(n, unix.LOCK_UN)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func makeArchives(t *testing.T, h runner.Host, base string) runner.Archives {
	t.Helper()
	a, err := h.MakeArchives(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func there(path string) bool { _, err := os.Lstat(path); return err == nil }

// A folder that a killed fit left is removed by the next one; one in use, one that an
// answer names, and one that tare did not make, are left.
func testArchivesSwept(t *testing.T, h runner.Host, inside string, abandon func(runner.Archives)) {
	base := filepath.Join(t.TempDir(), "archives")
	killed, used, kept := makeArchives(t, h, base), makeArchives(t, h, base), makeArchives(t, h, base)
	foreign := filepath.Join(base, "fit-mine")
	for _, dir := range []string{killed.Dir(), used.Dir(), kept.Dir(), foreign} {
		touch(t, filepath.Join(dir, "app.jsa"))
	}
	if want := inside; used.Inside() != want && (want != "" || used.Inside() != used.Dir()) {
		t.Errorf("%s is %s for processes", used.Dir(), used.Inside())
	}
	if st, err := os.Stat(used.Dir()); err != nil || filepath.Dir(used.Dir()) != base || st.Mode().Perm() != 0o755 {
		t.Errorf("%s: %v, %v", used.Dir(), st, err)
	}
	if err := kept.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	abandon(killed)
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error {
		if err := makeArchives(t, h, base).Close(); err != nil {
			return err
		}
		if there(killed.Dir()) {
			return fmt.Errorf("%s is left", killed.Dir())
		}
		return nil
	})
	for _, dir := range []string{used.Dir(), kept.Dir(), foreign} {
		if !there(filepath.Join(dir, "app.jsa")) {
			t.Errorf("%s is gone", dir)
		}
	}
	empty := makeArchives(t, h, base)
	if err := empty.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range []runner.Archives{used, empty} { // nothing to keep
		if err := a.Close(); err != nil || there(a.Dir()) {
			t.Errorf("%s is left: %v", a.Dir(), err)
		}
	}
}

// A folder is one fit's at a time, and a later one finds what is in it.
func testArchivesGoOn(t *testing.T, h runner.Host) {
	a := makeArchives(t, h, t.TempDir())
	if _, err := h.OpenArchives(t.Context(), a.Dir()); err == nil {
		t.Error("two fits have one folder")
	}
	if err := a.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(a.Dir(), "app.jsa")
	touch(t, file)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := h.OpenArchives(t.Context(), a.Dir())
	if err != nil || again.Dir() != a.Dir() || again.Inside() != a.Inside() {
		t.Fatal(again, err)
	}
	if err := again.Close(); err != nil || !there(file) {
		t.Error(err)
	}
	if err := os.RemoveAll(a.Dir()); err != nil {
		t.Fatal(err)
	}
	anew, err := h.OpenArchives(t.Context(), a.Dir())
	if err != nil || !there(a.Dir()) {
		t.Fatal(err)
	}
	if err := anew.Close(); err != nil {
		t.Error(err)
	}
}

// Archives and folders of extracted jars are removed, but from tare's folders alone.
func testRemoveMade(t *testing.T, h runner.Host) {
	a := makeArchives(t, h, t.TempDir())
	defer a.Close()
	aot, extracted := filepath.Join(a.Dir(), "app.aot"), filepath.Join(a.Dir(), "extracted")
	touch(t, aot)
	touch(t, aot+".config")
	touch(t, filepath.Join(extracted, "lib", "a.jar"))
	for path, want := range map[string][]string{aot: {aot, aot + ".config"}, extracted: {extracted}, filepath.Join(a.Dir(), "none"): nil} {
		if got, err := h.RemoveMade(t.Context(), path); err != nil || !slices.Equal(got, want) || there(path) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	foreign := filepath.Join(t.TempDir(), "extracted")
	touch(t, filepath.Join(foreign, "notes"))
	if got, err := h.RemoveMade(t.Context(), foreign); err != nil || len(got) > 0 || !there(filepath.Join(foreign, "notes")) {
		t.Errorf("%v, %v", got, err)
	}
}

// Nothing is made where no folder can be, or nobody waits for it any more.
func testArchivesRefused(t *testing.T, h runner.Host) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	touch(t, file)
	if _, err := h.MakeArchives(t.Context(), file); err == nil {
		t.Error("a file is no folder")
	}
	if _, err := h.OpenArchives(t.Context(), file); err == nil {
		t.Error("a file is no folder")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.MakeArchives(ended, base); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := h.OpenArchives(ended, base); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// NoArchives is the part of the suite for hosts that have no folder in common with the
// processes on them: they say so.
func NoArchives(t *testing.T, h runner.Host) {
	_, made := h.MakeArchives(t.Context(), t.TempDir())
	_, opened := h.OpenArchives(t.Context(), t.TempDir())
	_, training := h.OpenTraining(t.Context(), "/app.jsa")
	_, extracted := h.Extract(t.Context(), "/app.jar", "/extracted")
	for what, err := range map[string]error{"make": made, "open": opened, "training": training, "extract": extracted} {
		if !errors.Is(err, runner.ErrNoArchives) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if removed, err := h.RemoveMade(t.Context(), filepath.Join(t.TempDir(), "app.jsa")); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}
