package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A copy is what its source is now: what an older JDK had is gone, and what is
// older than the copy replaces it.
func TestDiskCopies(t *testing.T) {
	out, err := sourced(t, "usual-disk.sh", nil, `
cd "`+t.TempDir()+`"
mkdir -p source/lib/empty copy
copy_is() { [[ $(files source) == "$(files copy)" ]] && diff -r --no-dereference source copy; }
echo one >source/lib/a; echo two >source/b; ln -s b source/link
copy source copy; copy_is
echo three >source/b; touch -d 2001-01-01 source/b; rm source/lib/a; ln -sfn lib source/link; echo four >"source/it's new"
copy source copy; copy_is
echo cut >copy/b; mkdir copy/old; touch copy/old/file
copy source copy; copy_is
echo jar >a.jar; copy a.jar b.jar; echo older >a.jar; touch -d 2001-01-01 a.jar
copy a.jar b.jar; diff a.jar b.jar
`)
	if err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A plan that is longer than a pipe holds stops nothing.
func TestExperimentsReadWholePlans(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"bin/tare":             "#!/bin/bash\nif [[ $2 == plan ]]; then\n  echo summary; echo\n  for ((i = 0; i < 20000; i++)); do echo \"cell $i\" || exit 1; done\nelse\n  echo \"$2\"\nfi\n",
		"experiments/one.yaml": "", "docs/results/.keep": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("experiments.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "scripts", "experiments.sh")
	if err := os.WriteFile(path, script, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path).CombinedOutput()
	if err != nil || string(out) != "summary\n\ndocs/results/one.md\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every script is read by bash without a word, and has no name of a file that is
// cut at a quote in a path.
func TestScriptsParse(t *testing.T) {
	files, err := filepath.Glob("*.sh")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if out, err := exec.Command("bash", "-n", f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `trap "`) {
				t.Errorf("%s: %s: single quotes, or a path is read as shell", f, strings.TrimSpace(line))
			}
		}
	}
}
