package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// TestArchitecture holds docs/architecture.md against the imports: every package is named,
// imports go down the layers of the drawing, and each of its arrows is an import.
func TestArchitecture(t *testing.T) {
	root := jvmtest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(t, root)
	order, arrows := drawing(string(text))
	layers := map[string]int{}
	for i, name := range order {
		_, part, ok := strings.Cut(string(text), "\n## "+name+"\n")
		if !ok {
			t.Fatalf("no part tells of the layer %s", name)
		}
		part, _, _ = strings.Cut(part, "\n## ")
		for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(part, -1) {
			for _, p := range quoted.FindAllStringSubmatch(row[1], -1) {
				if imports[p[1]] == nil && !strings.Contains(p[1], ".") {
					t.Errorf("%s: there is no package %s", name, p[1])
				}
				layers[p[1]] = i
			}
		}
	}
	for _, m := range regexp.MustCompile("`([\\w/-]+)` → `([\\w/-]+)`").FindAllStringSubmatch(string(text), -1) {
		arrows = append(arrows, [2]string{m[1], m[2]})
	}
	if len(order) != 5 || len(arrows) < 15 {
		t.Errorf("the drawing has %d layers and %d arrows", len(order), len(arrows))
	}
	for _, a := range arrows {
		if !slices.Contains(imports[a[0]], a[1]) {
			t.Errorf("an arrow leads from %s to %s, and that is no import", a[0], a[1])
		}
	}
	for p, all := range imports {
		if !strings.Contains(string(text), "`"+p+"`") {
			t.Errorf("docs/architecture.md does not name the package %s", p)
		}
		for _, other := range all {
			from, known := layers[p]
			to, both := layers[other]
			if known && both && to < from {
				t.Errorf("%s, of %s, imports %s, of %s above it", p, order[from], other, order[to])
			}
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// drawing reads the layers of the drawing from the top, and its arrows.
func drawing(text string) (layers []string, arrows [][2]string) {
	for _, m := range regexp.MustCompile(`(?m)^│ (\w*) *│ (.*?) *│$`).FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			layers = append(layers, m[1])
		}
		for _, chain := range regexp.MustCompile(` {2,}`).Split(m[2], -1) {
			steps := strings.Split(chain, " → ")
			for i := range steps[1:] {
				arrows = append(arrows, [2]string{steps[i], steps[i+1]})
			}
		}
	}
	return layers, arrows
}

// importsOf has what each package of the tree imports of it, named below internal; tests
// and what they use left out.
func importsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./internal/...", "./cmd/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	short := func(p string) string {
		return strings.TrimPrefix(strings.TrimPrefix(p, names.Module+"/"), "internal/")
	}
	imports := map[string][]string{}
	for line := range bytes.Lines(out) {
		words := strings.Fields(string(line))
		p := short(words[0])
		if strings.HasPrefix(p, "testkit/") {
			continue
		}
		imports[p] = []string{}
		for _, other := range words[1:] {
			if strings.HasPrefix(other, names.Module+"/") {
				imports[p] = append(imports[p], short(other))
			}
		}
	}
	return imports
}
