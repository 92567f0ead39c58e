// Package jartest makes jars.
package jartest

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"testing"
)

// Write writes a jar that holds files of some text.
func Write(t testing.TB, name string, files map[string]string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for entry, text := range files {
		w, err := z.Create(entry)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
