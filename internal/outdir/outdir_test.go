package outdir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/testkit/smalldisk"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// What an earlier tare wrote is replaced; all else stays.
func TestOwnFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "notes.txt", "mine")
	d := open(t, dir)
	if err := d.Clear("report.html", "trial-*.log"); err != nil {
		t.Fatal(err)
	}
	log, err := d.Reserve("trial-001.log")
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, filepath.Base(log), "written little by little")
	for _, s := range []string{"one", "two"} {
		if err := d.Write("report.html", text(s)); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat(d.Path("report.html")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	if err := again.Clear("report.html", "trial-*.log"); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{ListName, "notes.txt"}) {
		t.Errorf("left: %v", got)
	}
}

// A file that tare did not make, or that was changed since, is left alone, and so
// is everything beside it.
func TestForeignFilesStay(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, dir string){
		"never ours":   func(t *testing.T, dir string) { put(t, dir, "trial-001.log", "mine") },
		"a link":       func(t *testing.T, dir string) { link(t, "/etc/passwd", filepath.Join(dir, "trial-001.log")) },
		"changed ours": func(t *testing.T, dir string) { put(t, dir, "report.html", "edited") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir)
			if err := d.Write("report.html", text("made")); err != nil {
				t.Fatal(err)
			}
			before(t, dir)
			had := names(t, dir)
			var foreign *ForeignError
			if err := d.Clear("trial-*.log"); !errors.As(err, &foreign) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "--out") {
				t.Errorf("Clear: %v", err)
			}
			if err := d.Write(filepath.Base(foreign.Path), text("new")); !errors.As(err, &foreign) {
				t.Errorf("Write: %v", err)
			}
			if _, err := d.Reserve(filepath.Base(foreign.Path)); !errors.As(err, &foreign) {
				t.Errorf("Reserve: %v", err)
			}
			if got := names(t, dir); !slices.Equal(got, had) {
				t.Errorf("left: %v, before %v", got, had)
			}
		})
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	var busy *BusyError
	if _, err := Open(dir); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestHostileList(t *testing.T) {
	for _, bad := range []string{"{", `{"schema":"other/1"}`, `{"schema":"tare.files/1","files":{"../evil":""}}`, `{"schema":"tare.files/1","files":{"a/b":""}}`,
		`{"schema":"tare.files/1","files":{"..":""}}`, strings.Repeat(" ", maxList) + "{}"} {
		dir := t.TempDir()
		put(t, dir, ListName, bad)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), ListName) {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

// A disk that is full loses nothing, and leaves nothing.
func TestFailedWriteLeavesTheEarlierFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	if err := WriteFile(path, text("first")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	if err := WriteFile(path, func(io.Writer) error { return full }); !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// On a full disk a report that is written anew leaves the earlier one whole, and
// tare's; when there is room it is written.
func TestFullDisk(t *testing.T) {
	dir := smalldisk.Mount(t, 64<<10)
	d := open(t, dir)
	if err := d.Write("report.html", text("earlier")); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 128<<10)
	if err := d.Write("report.html", text(large)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than the disk holds: %v", err)
	}
	if got, err := os.ReadFile(d.Path("report.html")); string(got) != "earlier" || err != nil {
		t.Errorf("the report is %.20q, %v", got, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{ListName, "report.html"}) {
		t.Errorf("the folder has %q", got)
	}
	d.Close()
	if err := open(t, dir).Write("report.html", text("later")); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
