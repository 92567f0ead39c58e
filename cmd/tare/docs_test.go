package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/pgtest"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// TestDocs runs every command of the pages in docs and in the root, in the root,
// with bin in PATH and a service running that the pages call shop.jar.
func TestDocs(t *testing.T) {
	root := jvmtest.Root(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	pages = append(pages, rootPages(t, root)...)
	shop := filepath.Join(t.TempDir(), "shop.jar")
	if err := os.Symlink(jvmtest.Jar(t, "sysinfo.jar"), shop); err != nil {
		t.Fatal(err)
	}
	service := jvmtest.Start(t, jvmtest.Java(t, 17), "-Xmx64m", "-XX:NativeMemoryTracking=detail", "-jar", shop, "--port", "0")
	service.Await(t, "listening on")
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // the first fit is number 1
	t.Setenv("HISTORY", pgtest.Start(t).Database(t))
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

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```")

// TestReadme checks the pages in the root of the tree: a block without a name has
// commands of make, which continuous integration runs as parts of make test; a
// block of sh is run by TestDocs, one of bash by the tests of deploy/release in a fresh
// system; and a block of text is what the block before it prints. Links lead somewhere.
func TestReadme(t *testing.T) {
	root := jvmtest.Root(t)
	for _, page := range rootPages(t, root) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			switch block[1] {
			case "":
				makeKnows(t, root, block[2])
			case "sh", "bash", "text":
			default:
				t.Errorf("%s: no test knows what to do with a block of %s", page, block[1])
			}
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, link[1])); err != nil && !strings.Contains(link[1], "://") {
				t.Errorf("%s: broken link: %v", page, err)
			}
		}
	}
}

// rootPages are the pages in the root of the tree.
func rootPages(t *testing.T, root string) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil || len(pages) < 4 {
		t.Fatalf("%q, %v", pages, err)
	}
	return pages
}

// makeKnows checks commands of make, one a line.
func makeKnows(t *testing.T, root, block string) {
	t.Helper()
	for line := range strings.Lines(block) {
		target, ok := strings.CutPrefix(strings.TrimSpace(line), "make ")
		if !ok {
			t.Errorf("not a make command: %q", line)
			continue
		}
		cmd := exec.Command("make", "-n", target)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}

// TestReadmeShowsWhatItPrints compares the example of the README with a real
// footprint: it has the same columns, and no row that tare does not write.
func TestReadmeShowsWhatItPrints(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var example string
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if block[1] == "text" {
			example = block[2]
		}
	}
	service := jvmtest.Start(t, jvmtest.Java(t, 25), "-Xmx64m", "-XX:+UseG1GC", "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", "0")
	service.Await(t, "listening on")
	code, out, errs := tareRun(t, "weigh", strconv.Itoa(service.PID()))
	if code != exitOK {
		t.Fatalf("%d: %s", code, errs)
	}
	shape := map[string]bool{}
	for line := range strings.Lines(out) {
		shape[shapeOf(line)] = true
	}
	lines := 0
	for line := range strings.Lines(example) {
		if lines++; lines > 1 && !shape[shapeOf(line)] {
			t.Errorf("the README shows %q, and tare weigh prints no such line:\n%s", line, out)
		}
	}
	if lines < 10 {
		t.Errorf("the README has no example:\n%s", example)
	}
}

// shapeOf is what of a line does not depend on the JVM: of a row its name, of
// another line all but figures and spacing.
func shapeOf(line string) string {
	if row := regexp.MustCompile(`^ +(\S.*?) {2,}[0-9]`).FindStringSubmatch(line); row != nil {
		return row[1]
	}
	line = regexp.MustCompile(`[0-9][0-9.]*`).ReplaceAllString(strings.ReplaceAll(line, "─", ""), "0")
	return strings.Join(strings.Fields(line), " ")
}
