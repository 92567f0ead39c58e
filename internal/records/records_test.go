package records_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/records"
)

type record struct{ Name string }

func read(t *testing.T, path string) []string {
	t.Helper()
	var names []string
	if err := records.ReadFile(path, records.Into(func(r record) { names = append(names, r.Name) })); err != nil {
		t.Fatal(err)
	}
	return names
}

// goOn opens the file, and returns also what it has.
func goOn(t *testing.T, path string) (*records.File, []string) {
	t.Helper()
	var names []string
	f, err := records.Open(path, records.Into(func(r record) { names = append(names, r.Name) }))
	if err != nil {
		t.Fatal(err)
	}
	return f, names
}

func appendTo(t *testing.T, f *records.File, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := f.Append(record{name}); err != nil {
			t.Fatal(err)
		}
	}
}

// A line that a kill cut off is measured again; those before it stay.
func TestCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "state.jsonl")
	if got := read(t, path); got != nil {
		t.Errorf("of no file: %q", got)
	}
	f, _ := goOn(t, path)
	appendTo(t, f, "a", "b")
	f.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, `{"Name":"c`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("with a line cut off: %q", got)
	}
	f, names := goOn(t, path)
	defer f.Close()
	appendTo(t, f, "d")
	if got := read(t, path); !slices.Equal(got, []string{"a", "b", "d"}) || !slices.Equal(names, got[:2]) {
		t.Errorf("after the next: %q, %q", got, names)
	}
}

// What was measured since is added to what is packed, once.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	packed, since := filepath.Join(dir, "all.jsonl.gz"), filepath.Join(dir, "since.jsonl")
	for _, names := range [][]string{{"a", "b"}, {"c"}, nil} {
		f, had := goOn(t, since)
		if had != nil {
			t.Errorf("left there: %q", had)
		}
		appendTo(t, f, names...)
		if err := records.Pack(packed, packed, since); err != nil {
			t.Fatal(err)
		}
		if err := f.Clear(); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if got := read(t, packed); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	whole, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	add := func([]byte) error { return nil }
	for _, text := range [][]byte{whole[:len(whole)-1], []byte("{}\n"), nil} {
		if err := os.WriteFile(packed, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := records.ReadFile(packed, add); err == nil || !strings.Contains(err.Error(), packed) {
			t.Errorf("of %d broken bytes: %v", len(text), err)
		}
		if err := records.Pack(packed, packed, since); err == nil {
			t.Errorf("%d broken bytes are packed anew", len(text))
		}
	}
}

// Two that write at once would each remove what the other has just begun.
func TestOneWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	f, _ := goOn(t, path)
	add := func([]byte) error { return nil }
	if _, err := records.Open(path, add); !errors.Is(err, records.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	appendTo(t, f, "a")
	f.Close()
	again, names := goOn(t, path)
	again.Close()
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q", names)
	}
}

func TestBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	for text, want := range map[string]string{
		"{\"Name\":\"a\"}\n{\n":                               "state.jsonl:2: unexpected end of JSON input: mend or remove the line",
		"{\"Name\":\"" + strings.Repeat("a", 1<<20) + "\"}\n": "state.jsonl:1: line of more than 1048576 bytes",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := records.Open(path, records.Into(func(record) {}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if kept, _ := os.ReadFile(path); string(kept) != text {
			t.Errorf("the file was changed: %q", kept)
		}
	}
}
