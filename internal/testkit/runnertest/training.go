package runnertest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/runner"
)

// Training is the part of the suite about the file that a training run writes, in a
// folder of archives: it is taken only where it is a file, for a link would have this
// process read another. Here is the path on this machine of one that the process knows.
func Training(t *testing.T, h runner.Host, a runner.Archives, here func(string) string) {
	dir := a.Dir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "app.jsa")
	for name, make := range map[string]func(string) error{
		"a link":   func(file string) error { return os.Symlink(secret, file) },
		"a folder": func(file string) error { return os.Mkdir(file, 0o755) },
		"nothing":  func(string) error { return nil },
		"a file":   func(file string) error { return os.WriteFile(file, []byte("archive"), 0o600) },
	} {
		if err := os.WriteFile(file, []byte("an earlier one"), 0o600); err != nil {
			t.Fatal(err)
		}
		writes, err := h.OpenTraining(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if err := make(here(writes)); err != nil {
			t.Fatal(err)
		}
		err = h.TakeTrained(t.Context(), file)
		if refused := name == "a link" || name == "a folder"; errors.Is(err, runner.ErrNotWritten) != refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
		text, err := os.ReadFile(file)
		if name == "a file" && string(text) != "archive" || name != "a file" && !os.IsNotExist(err) {
			t.Errorf("%s: there is %q, %v", name, text, err)
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // its mark
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}
