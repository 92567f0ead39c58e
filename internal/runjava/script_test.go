package runjava

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// recordVar makes this test's program stand where java is looked for: it writes
// what it was started with to the file named, which a shell cannot tell.
const recordVar = "RUNJAVA_RECORD"

// record is how a program was started.
type record struct {
	Args, Env []string
	Dir       string
}

func TestMain(m *testing.M) {
	if file := os.Getenv(recordVar); file != "" {
		os.Exit(writeRecord(file))
	}
	os.Exit(m.Run())
}

func writeRecord(file string) int {
	if slices.Contains(os.Args[1:], "-version") && len(os.Args) == 2 {
		fmt.Fprintf(os.Stderr, "openjdk version %q\n", os.Getenv("RUNJAVA_VERSION"))
		return 0
	}
	dir, err := os.Getwd()
	if err == nil {
		var text []byte
		text, err = json.Marshal(record{os.Args, os.Environ(), dir})
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return 0
}

const scriptSum = "1340dd7eddbf65ef50e17d1037d632c68774a0f17dde02c7f9a680f4290f70e6"

// originalScript is run-java.sh with the files of the machine replaced by those
// of a folder.
func originalScript(t *testing.T, root string) []byte {
	t.Helper()
	alone.Uses(t, "run-java.sh")
	jar := filepath.Join(jvmtest.Cache(t), "run-java-sh", "run-java-sh-1.3.7.jar")
	text, err := os.ReadFile(jar)
	if err != nil {
		t.Fatalf("run-java.sh is not in the cache: run scripts/run-java-sh.sh (%v)", err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != scriptSum {
		t.Fatalf("%s is not the file that is expected: remove it and run scripts/run-java-sh.sh", jar)
	}
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	file, err := archive.Open("run-java-sh/fp-files/run-java.sh")
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		path string
		n    int
	}{{"/sys/fs/cgroup/", 3}, {"/proc/meminfo", 1}, {OptionsFile, 3}} {
		if n := bytes.Count(script, []byte(r.path)); n != r.n {
			t.Fatalf("run-java.sh names %s %d times, expected %d", r.path, n, r.n)
		}
		script = bytes.ReplaceAll(script, []byte(r.path), []byte(root+r.path))
	}
	return script
}

// scene is a container in which both launchers are called. In values and
// contents @/ stands for the root.
type scene struct {
	name  string
	env   map[string]string
	args  []string
	files map[string]string
	// java is the version that java -version tells.
	java string
	// memory is the limit in bytes, 0 for none; quota in µs of a period of
	// 100 000, 0 for none.
	memory, quota int64
}

// outcome is what a launcher did.
type outcome struct {
	code int
	line string // what it printed, blanks folded
	argv []string
	env  map[string]string
	dir  string
}

func (o outcome) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "  code %d, dir %s\n  line %q\n", o.code, o.dir, o.line)
	for _, a := range o.argv {
		fmt.Fprintf(&s, "  arg %q\n", a)
	}
	for _, k := range slices.Sorted(maps.Keys(o.env)) {
		fmt.Fprintf(&s, "  env %s=%q\n", k, o.env[k])
	}
	return s.String()
}

func (o outcome) has(word string) bool {
	return slices.Contains(o.argv, word) || slices.Contains(strings.Fields(o.line), word)
}

const machineMemory = 64 << 30

// build lays a scene out.
func (s scene) build(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	limit, quota := int64(9223372036854771712), int64(-1)
	if s.memory > 0 {
		limit = s.memory
	}
	if s.quota > 0 {
		quota = s.quota
	}
	cgroup := "sys/fs/cgroup/"
	write(cgroup+"memory/memory.limit_in_bytes", fmt.Sprintln(limit), 0o644)
	write(cgroup+"cpu/cpu.cfs_quota_us", fmt.Sprintln(quota), 0o644)
	write(cgroup+"cpu/cpu.cfs_period_us", "100000\n", 0o644)
	write("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\n", machineMemory/1024), 0o644)
	write("srv/.keep", "", 0o644)
	write("deploy/run-java.sh", string(originalScript(t, root)), 0o755)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(root, "bin/java")); err != nil {
		t.Fatal(err)
	}
	for name, text := range s.files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		write(name, strings.ReplaceAll(text, "@/", root+"/"), mode)
	}
	return root
}

func (s scene) environ(root string) []string {
	env := []string{"PATH=" + root + "/bin:/usr/bin:/bin", recordVar + "=" + root + "/record", "RUNJAVA_VERSION=" + s.java}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		env = append(env, name+"="+strings.ReplaceAll(s.env[name], "@/", root+"/"))
	}
	return env
}

// original runs run-java.sh with a shell.
func (s scene) original(t *testing.T, root, sh string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), sh, append([]string{root + "/deploy/run-java.sh"}, s.args...)...)
	cmd.Env, cmd.Dir = s.environ(root), root+"/srv"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	t.Logf("%s: stderr %q", sh, stderr.String())
	o := outcome{code: cmd.ProcessState.ExitCode(), line: fold(string(out))}
	text, err := os.ReadFile(root + "/record")
	if errors.Is(err, os.ErrNotExist) {
		return o
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = os.Remove(root + "/record")
	}
	if err != nil {
		t.Fatal(err)
	}
	o.argv, o.dir, o.env = r.Args, r.Dir, environMap(r.Env)
	return o
}

// fold makes one line with single blanks.
func fold(s string) string { return strings.Join(words(s), " ") }

// environMap leaves out what shells set on their own.
func environMap(env []string) map[string]string {
	m := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if name != "_" && name != "SHLVL" && name != "OLDPWD" {
			m[name] = value
		}
	}
	return m
}

func (s scene) input(root string) Input {
	major, _ := parseMajor(s.java)
	cores := 0
	if s.quota > 0 {
		cores = int((s.quota + 99_999) / 100_000)
	}
	return Input{Args: s.args, Env: s.environ(root), Dir: root + "/srv", ScriptDir: root + "/deploy", Name: "run-java.sh",
		OptionsFile: root + OptionsFile, Budget: Budget{MemoryBytes: s.memory, Cores: cores},
		Major: func([]string) int { return major }, Lookup: userFlags, Run: Start}
}

// ours plans the same call.
func (s scene) ours(in Input) outcome {
	plan, err := Make(in)
	var e *ExitError
	if errors.As(err, &e) {
		return outcome{code: e.Code, line: fold(e.Line)}
	}
	argv := plan.Argv(true)
	o := outcome{}
	if !plan.Quiet {
		o.line = fold(plan.Line(argv))
	}
	if !plan.OnlyPrint {
		o.argv, o.dir, o.env = argv, plan.Dir, environMap(plan.Env)
	}
	return o
}

// same says whether two launchers did the same. After an error's text may
// stand the next step.
func same(script, ours outcome) bool {
	line := script.line == ours.line || script.code != 0 && strings.HasPrefix(ours.line, strings.TrimSuffix(script.line, ")"))
	return script.code == ours.code && line && slices.Equal(script.argv, ours.argv) && maps.Equal(script.env, ours.env) && script.dir == ours.dir
}

// compare checks a scene in which nothing is to differ.
func (s scene) compare(t *testing.T, sh string) outcome {
	t.Helper()
	root := s.build(t)
	script, ours := s.original(t, root, sh), s.ours(s.input(root))
	if !same(script, ours) {
		t.Errorf("%s\nthe script:\n%v\nthis package:\n%v", strconv.Quote(fmt.Sprint(s)), script, ours)
	}
	return ours
}
