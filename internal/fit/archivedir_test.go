package fit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func there(path string) bool { _, err := os.Lstat(path); return err == nil }

func archiveDir(t *testing.T, base string) *ArchiveDir {
	t.Helper()
	d, err := MakeArchiveDir(base)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A folder that a killed fit left is removed by the next one; one in use, one that
// an answer names, and one that tare did not make, are left.
func TestArchiveDirsAreSwept(t *testing.T) {
	base := t.TempDir()
	killed, used, kept := archiveDir(t, base), archiveDir(t, base), archiveDir(t, base)
	foreign := filepath.Join(base, "fit-mine")
	for _, dir := range []string{killed.Path(), used.Path(), kept.Path(), foreign} {
		touch(t, filepath.Join(dir, "app.jsa"))
	}
	if err := kept.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := killed.mark.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	next := archiveDir(t, base)
	for _, tt := range []struct {
		dir  string
		want bool
	}{{killed.Path(), false}, {used.Path(), true}, {kept.Path(), true}, {foreign, true}, {next.Path(), true}} {
		if got := there(filepath.Join(tt.dir, "app.jsa")) || tt.dir == next.Path() && there(tt.dir); got != tt.want {
			t.Errorf("%s: left %t, want %t", tt.dir, got, tt.want)
		}
	}
	for _, d := range []*ArchiveDir{used, next} { // nothing to keep
		if err := d.Close(); err != nil || there(d.Path()) {
			t.Errorf("%s is left: %v", d.Path(), err)
		}
	}
}

func TestArchiveDirOfAFitThatGoesOn(t *testing.T) {
	d := archiveDir(t, t.TempDir())
	if _, err := OpenArchiveDir(d.Path()); err == nil {
		t.Error("two fits have one folder")
	}
	if err := d.Keep(); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(d.Path(), "app.jsa"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenArchiveDir(d.Path())
	if err != nil || !there(filepath.Join(d.Path(), "app.jsa")) {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil || !there(filepath.Join(d.Path(), "app.jsa")) {
		t.Errorf("%v", err)
	}
}

// Archives and folders of extracted jars are removed, but only from tare's folders.
func TestRemoveMade(t *testing.T) {
	d := archiveDir(t, t.TempDir())
	aot, extracted := filepath.Join(d.Path(), "app.aot"), filepath.Join(d.Path(), "extracted")
	touch(t, aot)
	touch(t, aot+".config")
	touch(t, filepath.Join(extracted, "lib", "a.jar"))
	for path, want := range map[string][]string{aot: {aot, aot + ".config"}, extracted: {extracted}} {
		if got, err := RemoveMade(path); err != nil || !slices.Equal(got, want) || there(path) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	foreign := filepath.Join(t.TempDir(), "extracted")
	touch(t, filepath.Join(foreign, "notes"))
	if got, err := RemoveMade(foreign); err != nil || len(got) > 0 || !there(filepath.Join(foreign, "notes")) {
		t.Errorf("%v, %v", got, err)
	}
}
