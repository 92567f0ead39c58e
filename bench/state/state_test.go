package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/bench/state"
)

type record struct{ Name string }

func read(t *testing.T, path string) []string {
	t.Helper()
	var names []string
	if err := state.Read(path, func(r record) { names = append(names, r.Name) }); err != nil {
		t.Fatal(err)
	}
	return names
}

// A line that a kill cut off is measured again; those before it stay.
func TestCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "state.jsonl")
	if got := read(t, path); got != nil {
		t.Errorf("of no file: %q", got)
	}
	for _, name := range []string{"a", "b"} {
		if err := state.Append(path, record{name}); err != nil {
			t.Fatal(err)
		}
	}
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
	if err := state.Append(path, record{"d"}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("after the next: %q", got)
	}
}

func TestBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	if err := os.WriteFile(path, []byte("{\"Name\":\"a\"}\n{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := state.Read(path, func(record) {}); err == nil || !strings.Contains(err.Error(), "state.jsonl:2: ") {
		t.Errorf("%v", err)
	}
}
