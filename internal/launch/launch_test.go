package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ran is what a program did.
type ran struct {
	code           int
	stdout, stderr string
	path           string
	args, env      []string
	thp            bool
	dir            string
}

// try runs the launcher with an Exec that only notes its call.
func try(t *testing.T, s System, env []string, args ...string) ran {
	t.Helper()
	var r ran
	var out, errs bytes.Buffer
	p := Program{Args: args, Env: env, Dir: t.TempDir(), Stdout: &out, Stderr: &errs, System: s,
		Exec:       func(path string, args, env []string) error { r.path, r.args, r.env = path, args, env; return nil },
		DisableTHP: func() error { r.thp = true; return nil }, Chdir: func(dir string) error { r.dir = dir; return nil }}
	r.code = p.Run()
	r.stdout, r.stderr = out.String(), errs.String()
	return r
}

func TestRun(t *testing.T) {
	java, jar := javaOf(t, 17), jvmtest.Jar(t, "sysinfo.jar")
	r := try(t, limited(t, 128*mib), []string{"A=b"}, "tare-exec", "--", java, "-Dx=y", "-jar", jar, "-Xmx1g")
	if r.code != 0 || r.path != java || r.args[0] != java || !slices.Equal(r.args[len(r.args)-4:], []string{"-Dx=y", "-jar", jar, "-Xmx1g"}) ||
		!slices.Contains(r.env, "MALLOC_ARENA_MAX=1") || r.env[0] != "A=b" || r.stdout+r.stderr != "" || r.thp {
		t.Errorf("%+v", r)
	}
	// Called as java: JAVA_HOME, and flags from a variable.
	newer := javaOf(t, 21)
	r = try(t, limited(t, 128*mib), []string{"JAVA_HOME=" + filepath.Dir(filepath.Dir(newer)), "TARE_EXEC_FLAGS=--explain"}, "/usr/bin/java", "-jar", jar)
	if r.code != 0 || r.path != newer || r.args[0] != "java" || !strings.Contains(r.stderr, "java 21.") {
		t.Errorf("%+v", r)
	}
	// Java that only prints something is started too.
	if r := try(t, limited(t, 128*mib), nil, "tare-exec", java, "-version"); r.code != 0 || r.args[len(r.args)-1] != "-version" {
		t.Errorf("%+v", r)
	}
	exposed := container(t, v2Systemd, map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"})
	if r := try(t, exposed, nil, "tare-exec", "--", javaOf(t, 11), "-jar", jar); !r.thp || r.code != 0 {
		t.Errorf("%+v", r)
	}
	if r := try(t, exposed, nil, "tare-exec", "--dry-run", "--", javaOf(t, 11), "-jar", jar); r.thp || r.path != "" {
		t.Errorf("a dry run did something: %+v", r)
	}
}

// One line, an exit code and the next step.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	java, noMain := javaOf(t, 17), filepath.Join(dir, "nomain.jar")
	writeFile(t, noMain, string(emptyZip))
	writeFile(t, filepath.Join(dir, "tare.json"), `{"schema":"tare.profile/1","jdk":"17.0.12","limitBytes":999999999,"options":[]}`)
	for _, c := range []struct {
		what, want string
		code       int
		env, args  []string
	}{
		{"nothing", "no java command: give one after --", 2, nil, nil},
		{"a flag", "not defined: -nonsense: see tare-exec --help", 2, nil, []string{"--nonsense"}},
		{"json alone", "add --dry-run", 2, nil, []string{"--json", "--", java}},
		{"no java", "there is no java in /nonexistent: install", 3, []string{"PATH=/nonexistent"}, []string{"--", "java", "-jar", "x.jar"}},
		{"not java", "not a java command", 2, nil, []string{"--", "/bin/sh", "-c", "x"}},
		{"no jar", "no such jar: gone.jar: build it", 3, nil, []string{"--", java, "-jar", "gone.jar"}},
		{"no main class", "names no main class in its manifest: name one, as in java -cp", 2, nil, []string{"--", java, "-jar", noMain}},
		{"contradiction", "contradict each other", 2, nil, []string{"--", java, "-XX:+UseSerialGC", "-XX:+UseG1GC", "Main"}},
		{"too small", "raise the limit, or start it all the same with --force", 6, []string{"TARE_PROFILE=" + dir + "/tare.json"}, []string{"--", java, "Main"}},
	} {
		r := try(t, limited(t, 256*mib), c.env, append([]string{"tare-exec"}, c.args...)...)
		if r.code != c.code || r.path != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "tare: ") || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %d, %s", c.what, r.code, r.stderr)
		}
	}
}

// emptyZip is an archive without entries.
var emptyZip = append([]byte("PK\x05\x06"), make([]byte, 18)...)

// A tuning problem is said in a line, and java starts.
func TestStartsAllTheSame(t *testing.T) {
	java := javaOf(t, 17)
	nonsense := container(t, v2Systemd, map[string]string{appFiles + "memory.max": "-1\n"})
	for _, c := range []struct {
		what, want string
		system     System
		env, args  []string
	}{
		{"limit", "the memory limit cannot be read", nonsense, nil, nil},
		{"argument file", "@gone", limited(t, 256*mib), nil, []string{"@gone"}},
		{"options file", "VMOptionsFile=gone", limited(t, 256*mib), []string{"JAVA_TOOL_OPTIONS=-XX:VMOptionsFile=gone"}, nil},
		{"hint", "BPL_JVM_HEAD_ROOM", limited(t, 256*mib), []string{"BPL_JVM_HEAD_ROOM=12.5"}, nil},
		{"profile", "tare.json", limited(t, 256*mib), []string{"TARE_PROFILE=/gone/tare.json"}, nil},
	} {
		r := try(t, c.system, c.env, slices.Concat([]string{"tare-exec", "--", java}, c.args, []string{"Main"})...)
		if r.code != 0 || r.path != java || !strings.Contains(r.stderr, c.want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %d, %s", c.what, r.code, r.stderr)
		}
	}
}

func TestExecFails(t *testing.T) {
	var errs bytes.Buffer
	p := Program{Args: []string{"tare-exec", "--", javaOf(t, 17), "-version"}, Dir: "/", Stdout: &errs, Stderr: &errs, System: limited(t, 256*mib),
		Exec: func(string, []string, []string) error { return syscall.ENOEXEC }}
	if code := p.Run(); code != 3 || !strings.Contains(errs.String(), "cannot be started: exec format error: check that it is a java") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

func TestDiagnostics(t *testing.T) {
	dir := t.TempDir()
	system := limited(t, 256*mib)
	all := Options{NMT: "summary", GCLog: dir + "/gc.log", HeapDump: dir, ErrorFile: dir}
	for major, want := range map[int][]string{
		17: {"-XX:NativeMemoryTracking=summary", "-Xlog:gc*:file=" + dir + "/gc.log:time,uptime,level,tags", "-XX:+HeapDumpOnOutOfMemoryError",
			"-XX:HeapDumpPath=" + dir, "-XX:ErrorFile=" + dir + "/hs_err_pid%p.log"},
		8: {"-Xloggc:" + dir + "/gc.log", "-XX:+PrintGCDetails", "-XX:+HeapDumpOnOutOfMemoryError"},
	} {
		p := planFor(t, system, runtimeOf(t, major), nil, all, "-cp", "x", "Main")
		for _, w := range want {
			if !has(p, w) || len(p.warnings) > 0 {
				t.Errorf("JDK %d: no %s in %q, %q", major, w, p.options.Added(), p.warnings)
			}
		}
	}
	for want, o := range map[string]Options{
		"no such file":       {HeapDump: dir + "/gone"},
		"is no folder":       {HeapDump: os.Args[0]},
		"cannot be written":  {ErrorFile: "/nonexistent/x"},
		"no GC log is asked": {GCLog: "/nonexistent/gc.log"},
		"MiB free, and the":  {HeapDump: "/proc"}, // a file system without room
	} {
		p := planFor(t, system, runtimeOf(t, 17), nil, o, "-cp", "x", "Main")
		if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], want) && want != "MiB free, and the" || has(p, "-XX:+HeapDumpOnOutOfMemoryError") {
			t.Errorf("%+v: %q", o, p.warnings)
		}
	}
}

// The table and the JSON, for a fixed container and JDK.
func TestExplain(t *testing.T) {
	s := limited(t, 256*mib)
	s.CPUs = 1
	p := planFor(t, s, runtimeOf(t, 21), []string{"JAVA_TOOL_OPTIONS=-Xss512k -XX:MaxHeapFreeRatio=50", "BPL_JVM_LOADED_CLASS_COUNT=9000"}, Options{GCLog: "stdout"}, "-Dx=\x1b[2J", "-XX:+UseSerialGC", "Main")
	var table, text bytes.Buffer
	args, _ := p.commandLine("java", nil)
	if err := errors.Join(p.explain(&table), p.writeJSON(&text, args)); err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(text.Bytes(), &parsed); err != nil || parsed["schema"] != Schema {
		t.Errorf("%v, %v", err, parsed["schema"])
	}
	root := filepath.Dir(s.Sys)
	for name, got := range map[string]string{"explain.txt": table.String(), "explain.json": text.String()} {
		got = strings.NewReplacer(root, "", filepath.Dir(filepath.Dir(p.java.Java)), "/opt/jdk-21").Replace(got)
		golden(t, filepath.Join("testdata", name), got)
	}
	if strings.Contains(table.String(), "\x1b") {
		t.Error("a control character reached the terminal")
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		writeFile(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s (%v) differs; write it anew with -update:\n%s", path, err, got)
	}
}
