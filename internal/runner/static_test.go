package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckStatic(t *testing.T) {
	dir := t.TempDir()
	source, static := filepath.Join(dir, "main.go"), filepath.Join(dir, "static")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", static, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := checkStatic(static); err != nil {
		t.Error(err)
	}
	for program, want := range map[string]string{
		"/bin/sh":                  "/bin/sh needs shared libraries, which a container need not have: it was built with cgo; build it with CGO_ENABLED=0",
		source:                     "the program that containers are to begin with: bad magic number",
		filepath.Join(dir, "none"): "no such file or directory",
	} {
		if err := checkStatic(program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}
