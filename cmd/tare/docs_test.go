package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare/internal/jvmtest"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// TestDocs runs every command of the pages in docs in the root of the tree,
// with bin in PATH and a service running that the pages call shop.jar.
func TestDocs(t *testing.T) {
	root := jvmtest.Root(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	shop := filepath.Join(t.TempDir(), "shop.jar")
	if err := os.Symlink(jvmtest.Jar(t, "sysinfo.jar"), shop); err != nil {
		t.Fatal(err)
	}
	service := jvmtest.Start(t, jvmtest.Java(t, 17), "-Xmx64m", "-XX:NativeMemoryTracking=detail", "-jar", shop, "--port", "0")
	service.Await(t, "listening on")
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // the first fit is number 1
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			t.Run(filepath.Base(page)+"/"+string(rune('a'+i)), func(t *testing.T) {
				shell(t, root, block[1])
			})
		}
	}
}

func shell(t *testing.T, root, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s%s: %v", script, out, err)
	}
}

// TestReadme checks that the README's commands exist: make test itself runs
// what they stand for.
func TestReadme(t *testing.T) {
	root := jvmtest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		target, ok := strings.CutPrefix(strings.TrimSpace(block[1]), "make ")
		if !ok {
			t.Errorf("not a make command: %q", block[1])
			continue
		}
		cmd := exec.Command("make", "-n", target)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, link[1])); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
}
