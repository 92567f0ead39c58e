package results

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the index of docs/results anew")

// Each page of docs/results is in its index.
func TestIndex(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	want, err := Index(root)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, IndexFile)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v: %s does not list the pages: go test ./internal/testkit/results -update\n%s", err, IndexFile, want)
	}
}
