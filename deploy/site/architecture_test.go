package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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

// ofOneMachine are files above the runners that name the kernel's files for another reason
// than a trial.
var ofOneMachine = map[string]string{
	"cmd/tare/agent.go":       "what an agent watches on its own machine",
	"internal/kube/job.go":    "what the pod of a trial mounts",
	"internal/lab/machine.go": "what is set in a virtual machine",
}

// TestTrialsKnowNoMachine reads what is built on runners: a trial may run anywhere, so
// none of it names /proc, /sys or a process by its id. What a fit has to know of the
// machine, runner.Host and runner.Process tell.
func TestTrialsKnowNoMachine(t *testing.T) {
	root := jvmtest.Root(t)
	above := []string{"runner", "trial", "fit", "remote"}
	var read int
	for _, top := range []string{"internal", "cmd/tare"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			dir := strings.TrimPrefix(filepath.Dir(rel), "internal/")
			if dir == "runner" || strings.HasPrefix(dir, "testkit/") || ofOneMachine[rel] != "" {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			if dir != "load" && !slices.Contains(above, dir) && !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
				return slices.Contains(above, strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), names.Module+"/internal/"))
			}) {
				return nil
			}
			read++
			for _, what := range ofThisMachine(file) {
				t.Errorf("%s: %s: have a runner.Host or runner.Process tell", rel, what)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 100 {
		t.Errorf("%d files were read", read)
	}
}

// ofThisMachine are the words of a file that mean a machine's files of the kernel, or a
// process by its id.
func ofThisMachine(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if regexp.MustCompile("^[\"`]/(proc|sys)([/\"`]|$)").MatchString(n.Value) {
				found = append(found, n.Value)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains([]string{"os.Getpid", "os.FindProcess", "linux.NewFS", "linux.NewCgroupFS", "unix.Sysinfo", "unix.PidfdOpen"}, x.Name+"."+n.Sel.Name) {
				found = append(found, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestOfThisMachine(t *testing.T) {
	const program = "package p\nvar a = `/proc/stat` + \"/sys\" + \"/system\" + \"see /proc/self\"\nfunc f() { os.Getpid(); linux.NewFS(\"/proc\"); os.Getwd() }"
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", program, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ofThisMachine(file), []string{"`/proc/stat`", `"/sys"`, "os.Getpid", "linux.NewFS", `"/proc"`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
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
