package jdktree_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/testkit/jdktree"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// What is read of a made-up JDK is what it was made of.
func TestMake(t *testing.T) {
	for _, major := range []int{8, 11, 17, 25, 27} {
		want := jdktree.Like(major)
		java, err := jdkfiles.Open(want.Make(t, t.TempDir()))
		if err != nil || java.Version != want.Version || !java.HotSpot() || !java.Has("UseG1GC") || java.Has("AOTCache") != (major >= 25) || java.Problem() != nil {
			t.Errorf("%d: %+v, %v, %v", major, java, err, java.Problem())
		}
		st, err := os.Stat(jdkfiles.DefaultArchive(java.Home))
		if err != nil || st.Size() != want.ArchiveBytes {
			t.Errorf("%d: %v, %v", major, st, err)
		}
		if compact := jdkfiles.CompactArchive(java.Home); (compact != "") != (major == 25) {
			t.Errorf("%d: %q", major, compact)
		}
	}
}

// No golden file holds what an update of a JDK changes: all tests that compare
// with one pass where the cache has other versions, with archives of other sizes
// and other options.
func TestGoldensHoldWithOtherJDKs(t *testing.T) {
	cache := t.TempDir()
	for i, major := range []int{8, 11, 17, 21, 25, 26, 27} {
		jdk := jdktree.JDK{Version: fmt.Sprintf("%d.0.%d", major, 77+i), ArchiveBytes: int64(3+17*i) << 20, Options: []string{"UseSerialGC"}}
		jdk.Make(t, filepath.Join(cache, "jdks", strconv.Itoa(major)))
	}
	root := jvmtest.Root(t)
	packages := goldenTests(t, root)
	for _, wanted := range []string{"./internal/launch", "./internal/report"} {
		if len(packages[wanted]) == 0 {
			t.Errorf("%s compares with golden files, and is not found: %v", wanted, packages)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		tests := packages[pkg]
		cmd := exec.Command("go", "test", "-count=1", "-run", "^("+strings.Join(tests, "|")+")$", pkg)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "TARE_CACHE="+cache)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: a golden file depends on the JDKs of this machine: %v\n%s", pkg, err, out)
		}
	}
}

// goldenTests finds the tests that compare with golden files, those that reach a
// use of the flag -update, in every package of the tree.
func goldenTests(t *testing.T, root string) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if tests := reaching(t, path, "update"); len(tests) > 0 {
			packages["./"+relative] = tests
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// reaching names the tests of a folder that use an identifier, themselves or by
// the functions that they call.
func reaching(t *testing.T, dir, identifier string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]map[string]bool{} // of each function: what it names
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			named := map[string]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					named[id.Name] = true
				}
				return true
			})
			uses[f.Name.Name] = named
		}
	}
	found := map[string]bool{identifier: true}
	for again := true; again; {
		again = false
		for function, named := range uses {
			for name := range named {
				if found[name] && !found[function] {
					found[function], again = true, true
				}
			}
		}
	}
	var tests []string
	for function := range uses {
		if found[function] && strings.HasPrefix(function, "Test") && function != "TestMain" {
			tests = append(tests, function)
		}
	}
	slices.Sort(tests)
	return tests
}
