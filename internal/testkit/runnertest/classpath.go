package runnertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jartest"
)

// ClassPath is the part of the suite for hosts that see the files of this machine under
// their names: what a class path holds.
func ClassPath(t *testing.T, h runner.Host) {
	dir := t.TempDir()
	app, lib, config := filepath.Join(dir, "app.jar"), filepath.Join(dir, "lib.jar"), filepath.Join(dir, "application.yml")
	jartest.Write(t, app, map[string]string{"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nClass-Path: lib.jar\r\n\r\n", "application.properties": "a=1\n", "notes.txt": "n"})
	jartest.Write(t, lib, map[string]string{"a/B.class": "", "a/C.class": ""})
	if err := os.WriteFile(config, []byte("b: 2\n\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	q := runner.ClassPathQuery{Paths: []string{app, filepath.Join(dir, "none.jar")}, Folders: []string{dir},
		Entries: []string{"a/B.class", "a/None.class"}, Texts: []string{"application.properties", "application*.yml"}}
	got, err := h.ClassPath(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{app, lib, q.Paths[1]}; !slices.Equal(got.Files, want) {
		t.Errorf("files %q, want %q", got.Files, want)
	}
	if want := map[string]bool{"a/B.class": true}; !reflect.DeepEqual(got.Holds, want) {
		t.Errorf("holds %v, want %v", got.Holds, want)
	}
	if want := map[string][]byte{app + "!/application.properties": []byte("a=1\n"), config: []byte("b: 2\n\xff")}; !reflect.DeepEqual(got.Texts, want) {
		t.Errorf("texts %q, want %q", got.Texts, want)
	}
	if _, err := h.ClassPath(t.Context(), runner.ClassPathQuery{Texts: []string{"["}}); err == nil {
		t.Error("a pattern that is none was taken")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.ClassPath(ended, q); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
