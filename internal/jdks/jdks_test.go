package jdks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/jdkfiles"
)

// jdkTree makes folders with launchers that answer as recorded.
type jdkTree struct {
	t    *testing.T
	root string
}

func newJDKTree(t *testing.T) jdkTree {
	// Resolved, because homes are.
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree := jdkTree{t, root}
	for _, program := range []string{"cat", "sleep", "yes"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		tree.link("usr/bin/"+program, path)
	}
	return tree
}

func (tree jdkTree) path(path string) string { return filepath.Join(tree.root, path) }

// script writes an executable. Another process does it, because a file that this
// one has open for writing cannot be executed, not even by a child forked then.
func (tree jdkTree) script(path, text string) {
	tree.t.Helper()
	cmd := exec.Command("install", "-D", "-m", "755", "/dev/stdin", tree.path(path))
	cmd.Stdin = strings.NewReader("#!/bin/sh\n" + text)
	if out, err := cmd.CombinedOutput(); err != nil {
		tree.t.Fatalf("install %s: %v: %s", path, err, out)
	}
}

// jdk writes a launcher that prints a recorded flag list, but refuses to when
// Java options of the environment reach it, and a release file unless empty.
func (tree jdkTree) jdk(home, flags, release string) {
	tree.t.Helper()
	recorded, err := filepath.Abs(filepath.Join("testdata/flags", flags))
	if err != nil {
		tree.t.Fatal(err)
	}
	tree.script(home+"/bin/java", `[ -z "$JAVA_TOOL_OPTIONS$JDK_JAVA_OPTIONS$_JAVA_OPTIONS" ] || exit 9
case $1 in
-XX:+PrintFlagsFinal) exec cat '`+recorded+`' ;;
-XshowSettings:properties) echo '    java.version = 1.8.0_504
    java.vendor = Debian
    os.arch = amd64' >&2 ;;
esac
`)
	if release != "" {
		tree.write(home+"/release", release)
	}
}

func (tree jdkTree) write(path, text string) {
	tree.t.Helper()
	path = tree.path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		tree.t.Fatal(err)
	}
}

func (tree jdkTree) link(path, target string) {
	tree.t.Helper()
	path = tree.path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		tree.t.Fatal(err)
	}
}

// search looks through the tree only, where the launchers find their programs too.
func (tree jdkTree) search(environ ...string) Search {
	environ = append([]string{"PATH=" + tree.path("usr/bin"), "HOME=" + tree.path("home")}, environ...)
	return Search{Root: tree.root, Environ: environ, Timeout: time.Minute}
}

func (tree jdkTree) find(search Search) []JDK {
	tree.t.Helper()
	jdks, err := Find(tree.t.Context(), search)
	if err != nil {
		tree.t.Fatal(err)
	}
	return jdks
}

func release(version string) string {
	return `IMPLEMENTOR="Debian"
JAVA_RUNTIME_VERSION="ignored"
JAVA_VERSION="` + version + `"
OS_ARCH="x86_64"
`
}

func TestFind(t *testing.T) {
	tree := newJDKTree(t)
	tree.jdk("usr/lib/jvm/java-21", "jdk21.txt", release("21.0.12.1"))
	tree.write("usr/lib/jvm/java-21/lib/server/classes.jsa", "")
	tree.link("usr/lib/jvm/default-java", "java-21")
	tree.write("usr/lib/jvm/openjdk-21/src.zip", "")
	tree.jdk("usr/lib/jvm/java-8/jre", "jdk8.txt", "")
	tree.link("usr/lib/jvm/java-8/bin/java", "../jre/bin/java")
	tree.write("usr/lib/jvm/java-8/jre/lib/amd64/server/classes.jsa", "")
	tree.link("etc/alternatives/java", tree.path("usr/lib/jvm/java-8/jre/bin/java"))
	tree.link("usr/bin/java", tree.path("etc/alternatives/java"))
	tree.jdk("home/.sdkman/candidates/java/21.0.9-tem", "jdk21.txt", release("21.0.9"))
	tree.link("home/.sdkman/candidates/java/current", "21.0.9-tem")
	tree.jdk("home/.cache/tare/jdks/11", "jdk11-vm-flags-all.txt", release("11.0.24"))
	tree.write("home/.cache/tare/jdks/.glibc/2.41/libc.so.6", "")
	tree.jdk("home/.cache/tare/jdks/.partial", "jdk21.txt", release("21"))

	got := tree.find(tree.search("JAVA_HOME="+tree.path("usr/lib/jvm/default-java"),
		"JAVA_TOOL_OPTIONS=-Xmx1m", "JDK_JAVA_OPTIONS=-Xmx1m", "_JAVA_OPTIONS=-Xmx1m"))
	const MiB, heap = 1 << 20, 6320816128
	want := []JDK{
		{tree.path("usr/lib/jvm/java-8"), "1.8.0_504", 8, "Debian", "amd64",
			MiB, MiB, MiB, "Parallel", heap, true, []string{"PATH", "/usr/lib/jvm"}, ""},
		{tree.path("home/.cache/tare/jdks/11"), "11.0.24", 11, "Debian", "amd64",
			MiB / 2, MiB, MiB, "G1", 256 * MiB, false, []string{"cache"}, ""},
		{tree.path("home/.sdkman/candidates/java/21.0.9-tem"), "21.0.9", 21, "Debian", "amd64",
			MiB, MiB, MiB, "G1", heap, false, []string{"SDKMAN"}, ""},
		{tree.path("usr/lib/jvm/java-21"), "21.0.12.1", 21, "Debian", "amd64",
			MiB, MiB, MiB, "G1", heap, true, []string{"JAVA_HOME", "/usr/lib/jvm"}, ""},
	}
	if len(got) != len(want) {
		t.Fatalf("%d JDKs, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("JDK %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// A JDK that does not work is listed with the reason, and spoils no other.
func TestFindBroken(t *testing.T) {
	tree := newJDKTree(t)
	jvm := "usr/lib/jvm/"
	tree.jdk(jvm+"good", "jdk21.txt", release("21.0.1"))
	tree.script(jvm+"failing/bin/java", "echo 'Error: no libjvm.so' >&2; exit 1\n")
	tree.script(jvm+"flooding/bin/java", "exec yes\n")
	tree.script(jvm+"other-vm/bin/java", "echo nothing known\n")
	tree.link(jvm+"dead-link/bin/java", "/nowhere/java")
	flags, err := filepath.Abs("testdata/flags/jdk21.txt")
	if err != nil {
		t.Fatal(err)
	}
	tree.script(jvm+"no-identity/bin/java", "exec cat '"+flags+"'\n")
	tree.jdk(jvm+"bad-release", "jdk21.txt", "JAVA_VERSION=21\n")
	tree.jdk(jvm+"bad-version", "jdk21.txt", release("twenty"))

	jdks := tree.find(tree.search("JAVA_HOME=" + tree.path("missing")))
	for _, c := range []struct{ home, want string }{
		{jvm + "good", ""},
		{"missing", "JAVA_HOME: lstat " + tree.path("missing") + ": no such file"},
		{jvm + "failing", `exit status 1: "Error: no libjvm.so"`},
		{jvm + "flooding", "more than 4194304 bytes of output"},
		{jvm + "other-vm", "-XX:+PrintFlagsFinal: flags: none in 1 lines"},
		{jvm + "dead-link", "bin/java: no such file or directory"},
		{jvm + "bad-release", `release, line 1: not a single JAVA_VERSION="...": "JAVA_VERSION=21\n"`},
		{jvm + "no-identity", "java.version, java.vendor or os.arch is missing"},
		{jvm + "bad-version", `no Java version: "twenty"`},
	} {
		i := slices.IndexFunc(jdks, func(j JDK) bool { return j.Home == tree.path(c.home) })
		if i < 0 {
			t.Errorf("%s is not in the list", c.home)
		} else if got := jdks[i].Error; !strings.Contains(got, c.want) || (got == "") != (c.want == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: error %q, want %q", c.home, got, c.want)
		}
	}
}

func TestFindHanging(t *testing.T) {
	tree := newJDKTree(t)
	tree.script("usr/lib/jvm/a/bin/java", "sleep 600 & wait\n") // both hold the output open
	tree.write("usr/lib/jvm/a/release", release("17.0.12"))
	search := tree.search()
	search.Timeout = 100 * time.Millisecond
	jdks := tree.find(search)
	if len(jdks) != 1 || jdks[0].Version != "17.0.12" || !strings.HasSuffix(jdks[0].Error, "-version: no answer within 100ms") {
		t.Errorf("%+v", jdks)
	}
}

func TestFindStopsWithTheContext(t *testing.T) {
	tree := newJDKTree(t)
	tree.script("usr/lib/jvm/hanging/bin/java", "exec sleep 600\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, tree.search()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestSearchFolders(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{nil, "[{/usr/lib/jvm /r/usr/lib/jvm}]"},
		{[]string{"HOME=/h"}, "[{/usr/lib/jvm /r/usr/lib/jvm} {SDKMAN /h/.sdkman/candidates/java} {cache /h/.cache/tare/jdks}]"},
		{[]string{"HOME=/h", "SDKMAN_DIR=/s", "XDG_CACHE_HOME=/x"}, "[{/usr/lib/jvm /r/usr/lib/jvm} {SDKMAN /s/candidates/java} {cache /x/tare/jdks}]"},
		{[]string{"SDKMAN_CANDIDATES_DIR=/c", "SDKMAN_DIR=/s", "TARE_CACHE=/old", "TARE_CACHE=/t", "XDG_CACHE_HOME=/x"},
			"[{/usr/lib/jvm /r/usr/lib/jvm} {SDKMAN /c/java} {cache /t/jdks}]"},
	} {
		if got := fmt.Sprint(Search{Root: "/r", Environ: c.environ}.folders()); got != c.want {
			t.Errorf("%v:\n got %s\nwant %s", c.environ, got, c.want)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	want := []string{"1.8.0_9", "1.8.0_504", "9", "11.0.9", "11.0.24", "17-ea", "17.0.12", "27.0.1.0.3", "99999999999999999999", ""}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStackSizesInEffect(t *testing.T) {
	for _, c := range []struct {
		major                         int
		java, compiler, vm            string
		wantJava, wantCompiler, want3 int64
	}{
		{8, "1024", "0", "512", 1 << 20, 512 << 10, 512 << 10},
		{8, "0", "0", "0", 1 << 20, 1 << 20, 1 << 20},
		{17, "2040", "2048", "2040", 2040 << 10, 2 << 20, 2040 << 10},
		{17, "0", "0", "0", 1 << 20, 4 << 20, 1 << 20},
	} {
		j := JDK{Major: c.major}
		err := j.stackSizes(map[string]string{
			"ThreadStackSize": c.java, "CompilerThreadStackSize": c.compiler, "VMThreadStackSize": c.vm,
		})
		if err != nil || j.ThreadStackSizeBytes != c.wantJava || j.CompilerThreadStackSizeBytes != c.wantCompiler || j.VMThreadStackSizeBytes != c.want3 {
			t.Errorf("%+v: %+v, %v", c, j, err)
		}
	}
	for _, bad := range []string{"-1", "x", "9223372036854775807"} {
		j := JDK{Major: 17}
		if err := j.stackSizes(map[string]string{"ThreadStackSize": bad, "CompilerThreadStackSize": "0", "VMThreadStackSize": "0"}); err == nil {
			t.Errorf("a stack size of %s is taken: %+v", bad, j)
		}
	}
}

// Whatever a JDK says, what is taken from it can be printed.
func FuzzJDKIdentity(f *testing.F) {
	f.Add("    java.version = 1.8.0_504\n    java.vendor = Debian\n    os.arch = amd64\n")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseProperties(text)
		for _, s := range []string{id.version, id.vendor, id.arch} {
			if s != "" && (err != nil || !jdkfiles.IsName(s)) {
				t.Errorf("%q gives %+q, %v", text, id, err)
			}
		}
	})
}

// The JDKs of this machine, all real, with options in the environment that would
// change every answer.
func TestFindOfThisMachine(t *testing.T) {
	search := OfThisMachine()
	search.Timeout = time.Minute // other tests keep the machine busy
	search.Environ = append(search.Environ, "JAVA_TOOL_OPTIONS=-Xmx33m -XX:+UseSerialGC",
		"JDK_JAVA_OPTIONS=-Xss333k", "_JAVA_OPTIONS=-Xmx33m")
	jdks, err := Find(t.Context(), search)
	if err != nil {
		t.Fatal(err)
	}
	if len(jdks) == 0 {
		t.Fatal("there is no JDK: run scripts/setup.sh")
	}
	for _, jdk := range jdks {
		if jdk.Error != "" {
			t.Errorf("%s: %s", jdk.Home, jdk.Error)
			continue
		}
		out, err := exec.Command(jdk.Java(), "-version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"`+jdk.Version) {
			t.Errorf("%s says version %s, -version says %s (%v)", jdk.Home, jdk.Version, out, err)
		}
		if jdk.Arch != runtime.GOARCH || jdk.Vendor == "" || jdk.DefaultCollector == "" {
			t.Errorf("%s: architecture %q, vendor %q, collector %q", jdk.Home, jdk.Arch, jdk.Vendor, jdk.DefaultCollector)
		}
		if jdk.DefaultMaxHeapBytes == 33<<20 || jdk.ThreadStackSizeBytes == 333<<10 {
			t.Errorf("%s is asked with options of the environment: %+v", jdk.Home, jdk)
		}
		if runtime.GOARCH == "amd64" && (jdk.ThreadStackSizeBytes != 1<<20 ||
			jdk.CompilerThreadStackSizeBytes != 1<<20 || jdk.VMThreadStackSizeBytes != 1<<20) {
			t.Errorf("%s has stacks of %d, %d, %d bytes, all should be 1 MiB", jdk.Home,
				jdk.ThreadStackSizeBytes, jdk.CompilerThreadStackSizeBytes, jdk.VMThreadStackSizeBytes)
		}
		if slices.Contains(jdk.Sources, "cache") && (!jdk.CDSArchive || filepath.Base(jdk.Home) != fmt.Sprint(jdk.Major)) {
			t.Errorf("in the cache: %+v", jdk)
		}
	}
}

func TestJDKAsJSON(t *testing.T) {
	text, err := json.Marshal([]JDK{
		{"/j", "17.0.12", 17, "Debian", "amd64", 1, 2, 3, "G1", 4, true, []string{"PATH"}, ""},
		{Home: "/broken", Sources: []string{"JAVA_HOME"}, Error: "why"},
	})
	want := `[{"home":"/j","version":"17.0.12","major":17,"vendor":"Debian","arch":"amd64",` +
		`"threadStackSizeBytes":1,"compilerThreadStackSizeBytes":2,"vmThreadStackSizeBytes":3,` +
		`"defaultCollector":"G1","defaultMaxHeapBytes":4,"cdsArchive":true,"foundBy":["PATH"]},` +
		`{"home":"/broken","cdsArchive":false,"foundBy":["JAVA_HOME"],"error":"why"}]`
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
}

// A JDK below HOME that belongs to another user is listed by its files, and its
// launcher is not run; named by JAVA_HOME, it is.
func TestFindForeign(t *testing.T) {
	tree := newJDKTree(t)
	tree.jdk("home/.sdkman/candidates/java/a", "jdk21.txt", release("21.0.9"))
	for _, part := range []string{"", "/bin", "/bin/java"} {
		if err := os.Chown(tree.path("home/.sdkman/candidates/java/a"+part), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	found := tree.find(tree.search())
	if len(found) != 1 || found[0].Version != "21.0.9" || found[0].DefaultCollector != "" || !strings.Contains(found[0].Error, "belongs to uid 12345 and is not run as uid 0") {
		t.Errorf("%+v", found)
	}
	found = tree.find(tree.search("JAVA_HOME=" + tree.path("home/.sdkman/candidates/java/a")))
	if len(found) != 1 || found[0].Error != "" || found[0].DefaultCollector == "" {
		t.Errorf("%+v", found)
	}
}
