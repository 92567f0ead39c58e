package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// clone makes a repository of the tree as it is now, with what is in no commit, in a new
// folder. The same tree makes the same commit.
func clone(t *testing.T, root, dir string) {
	t.Helper()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "gc.auto=0"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("this tree is no clone: %v", err)
	}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(files, []byte{0}), []byte{0}) {
		from, to := filepath.Join(root, string(name)), filepath.Join(dir, string(name))
		info, err := os.Lstat(from)
		if os.IsNotExist(err) {
			continue // removed, in no commit
		}
		if err == nil && info.Mode().IsRegular() {
			if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
				err = copyFile(from, to)
			}
			if err == nil {
				err = os.Chmod(to, info.Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", "-A")
	git("commit", "-q", "-m", "The tree as it is")
}

// The same tree in two folders makes the same bytes, what tells of them is right, and they
// are installed by the commands of the pages.
func TestRelease(t *testing.T) {
	alone.Uses(t, "Go and Maven")
	root := jvmtest.Root(t)
	// The second is of the first: what other tests do to the tree meanwhile is in neither.
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "another-folder")}
	clone(t, root, dirs[0])
	clone(t, dirs[0], dirs[1])
	for _, dir := range dirs {
		t.Chdir(dir)
		r := release{version: names.Version, out: "bin/out", architectures: []string{"amd64", "arm64"}, image: true, java: true}
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dirs[0], "bin", "out")
	t.Chdir(dirs[0])
	checkNames(t, out, sameBytes(t, out, filepath.Join(dirs[1], "bin", "out")))
	t.Run("formula", func(t *testing.T) { formulaParses(t, out) })
	t.Run("refuses", func(t *testing.T) { installRefuses(t, out) })
	t.Run("action", func(t *testing.T) { actionRuns(t, root, out) })
	t.Run("gitlab", func(t *testing.T) { gitlabRuns(t, root, out) })
	t.Run("java", func(t *testing.T) { staged(t, root, out) })
	installs(t, root, out)
	t.Run("packages", func(t *testing.T) { packagesAreUpgraded(t, out) })
	t.Run("arm64", func(t *testing.T) { installsForeign(t, root, out) })
}

// sameBytes compares two folders, and returns the sums of what is in them.
func sameBytes(t *testing.T, one, another string) []sum {
	t.Helper()
	sums, err := sumsOf(one)
	if err != nil {
		t.Fatal(err)
	}
	others, err := sumsOf(another)
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != len(others) || len(sums) < 11 {
		t.Fatalf("%d files in %s and %d in %s", len(sums), one, len(others), another)
	}
	for i, s := range sums {
		if s != others[i] {
			t.Errorf("%s in %s and %s in %s", s, one, others[i], another)
		}
	}
	return sums
}

// formulaParses lets Ruby read the formula, which has the sums of the archives.
func formulaParses(t *testing.T, out string) {
	formula := filepath.Join(out, "tare.rb")
	if said, err := exec.Command("ruby", "-wc", formula).CombinedOutput(); err != nil || strings.TrimSpace(string(said)) != "Syntax OK" {
		t.Errorf("%v: %s", err, said)
	}
	text, err := os.ReadFile(formula)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		if hash, name, _ := strings.Cut(strings.TrimSpace(line), "  "); strings.HasSuffix(name, "64.tar.gz") && !strings.Contains(string(text), hash) {
			t.Errorf("the formula has not the sum of %s", name)
		}
	}
}

// checkNames checks that the files that tell of others tell of all of them.
func checkNames(t *testing.T, out string, sums []sum) {
	t.Helper()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	listed, made := read("SHA256SUMS"), read("provenance.json")
	if !regexp.MustCompile(`"javac": "[0-9.]+"`).MatchString(made) || !regexp.MustCompile(`"maven": "[0-9.]+"`).MatchString(made) {
		t.Errorf("the provenance does not say what compiled: %s", made)
	}
	for _, s := range sums {
		if !strings.Contains(listed, s.sha256+"  "+s.name+"\n") && !strings.HasPrefix(s.name, "maven/") && s.name != "SHA256SUMS" {
			t.Errorf("SHA256SUMS has no %v", s)
		}
		if !strings.Contains(made, s.sha256) && s.name != "SHA256SUMS" && s.name != "tare.rb" && s.name != "provenance.json" {
			t.Errorf("the provenance has no %v", s)
		}
	}
}

// The tree of another version, and one with changes in no commit, are not released.
func TestRefusesTree(t *testing.T) {
	root, dir := jvmtest.Root(t), filepath.Join(t.TempDir(), "tree")
	clone(t, root, dir)
	t.Chdir(dir)
	r := release{version: "99.0.0", out: "bin/out"}
	if err := r.make(); err == nil || !strings.Contains(err.Error(), "the tree is of version "+names.Version) {
		t.Error(err)
	}
	if err := os.WriteFile("new", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r = release{version: names.Version, out: "bin/out"}
	if err := r.make(); err == nil || !strings.Contains(err.Error(), "in no commit") {
		t.Error(err)
	}
	if _, err := os.Stat("bin"); err == nil {
		t.Error("something was made")
	}
}
