package runjava

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/jvmopts"
)

// payloads would leave a file named canary if a shell, awk, sed or expr were to
// evaluate them, or break what takes values apart.
var payloads = []string{
	"$(touch @/canary)", "`touch @/canary`", "';touch @/canary;'", "\";touch @/canary;\"", ";touch @/canary", "|touch @/canary", "\ntouch @/canary\n",
	"a[$(touch @/canary)]", "${IFS:=$(touch @/canary)}", "x' $(touch @/canary) '", "http://h';touch @/canary;x='", "http://$(touch @/canary):80", "\")system(\"touch @/canary\")(\"",
	"-XX:OnOutOfMemoryError=touch @/canary", "\xff\xfe\x01\x7f\x1b[31m", "-e", "-", "--", "*", "%s%n%d", "\\", "'", "\"", "$", "=", ":", "@", "[", "|", "9223372036854775808", "-1", "1e308", "NaN", "0x10", "٣",
	strings.Repeat("a", 128<<10-64), strings.Repeat("-Da ", 30<<10), strings.Repeat("$(touch @/canary)", 5<<10), strings.Repeat("[:/@", 30<<10), strings.Repeat("9", 120<<10),
}

// programs are files that make the launcher run a shell in the hostile
// environment.
var programs = with(oneJar, "deploy/run-env.sh", "EXTRA=1\n", "opt/run-java-options", "echo -Dfrom=file\n")

// TestHostileEnvironment puts each payload into each variable, with /bin/sh
// being dash and bash, and checks that nothing of it is run and that no
// variable but JAVA_OPTIONS adds options of the reader's choice.
func TestHostileEnvironment(t *testing.T) {
	names := append(slices.Clone(known), "PS4", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "IFS", "BASH_FUNC_printf%%", "BASH_FUNC_umask%%", "JAVA_TOOL_OPTIONS", "JAVA_HOME", "OLDPWD", "CDPATH", "a b", "0")
	for _, sh := range []string{"dash", "bash"} {
		s := scene{java: "8", files: programs, memory: 512 * megabyte, quota: 150_000}
		root := s.build(t)
		for _, name := range names {
			for i, p := range payloads {
				// The shells are what costs time; a part of the payloads is for them.
				in := s.input(root)
				in.Env = append(in.Env, name+"="+strings.ReplaceAll(p, "@/", root+"/"))
				if i%3 == 0 {
					in.Run = by(t, sh)
				} else {
					in.ScriptDir, in.OptionsFile = root+"/srv", root+"/none"
					in.Env = append(in.Env, "JAVA_MAIN_CLASS=a.B")
				}
				checkHostile(t, in, name, p)
			}
		}
		if _, err := os.Stat(root + "/canary"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a value was run (%v)", sh, err)
		}
	}
}

// by runs programs with another shell as /bin/sh.
func by(t *testing.T, sh string) func(Process) ([]byte, int, error) {
	return func(p Process) ([]byte, int, error) {
		if p.Path == shell {
			p.Path = "/bin/" + sh
		}
		out, status, err := Start(p)
		if err != nil && !errors.Is(err, syscall.E2BIG) {
			t.Errorf("%q: %v", p.Args, err)
		}
		return out, status, err
	}
}

func checkHostile(t *testing.T, in Input, name, payload string) {
	t.Helper()
	plan, err := Make(in)
	var e *ExitError
	if errors.As(err, &e) {
		if strings.Contains(e.Line, "\n") || e.Code == 0 {
			t.Errorf("%s=%.40q: exit code %d, line %q", name, payload, e.Code, e.Line)
		}
		return
	}
	if line := plan.Line(plan.Argv(true)); strings.ContainsAny(line, "\n\x1b") {
		t.Errorf("%s=%.40q: prints control characters: %.100q", name, payload, line)
	}
	for _, o := range plan.Options {
		if o.From != "JAVA_OPTIONS" && o.From != optionsProgram && !fixedShape(o.Text) {
			t.Errorf("%s=%.40q: option %.100q", name, payload, o.Text)
		}
	}
}

// fixedShape says whether an option is one that this package makes.
func fixedShape(option string) bool {
	if strings.ContainsAny(option, " \t\r\n") {
		return false
	}
	return slices.ContainsFunc([]string{"-Xms", "-Xmx", "-XX:ParallelGCThreads=", "-XX:ConcGCThreads=", "-XX:CICompilerCount=", "-XX:ActiveProcessorCount=",
		"-XX:TieredStopAtLevel=1", "-XX:NativeMemoryTracking=summary", "-Xlog:gc*:stdout:time", "-XX:+PrintGC", "-XX:+UnlockDiagnosticVMOptions", "-XX:+UseParallelGC",
		"-XX:GCTimeRatio=4", "-XX:AdaptiveSizePolicyWeight=90", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40", "-XX:+ExitOnOutOfMemoryError",
		"-Dhttp.proxyHost=", "-Dhttp.proxyPort=", "-Dhttps.proxyHost=", "-Dhttps.proxyPort=", "-Dhttp.nonProxyHosts=",
		"-Djava.util.concurrent.ForkJoinPool.common.parallelism=", "-agentlib:jdwp=transport=dt_socket,server=y,suspend="},
		func(prefix string) bool { return strings.HasPrefix(option, prefix) })
}

// TestBashTrace: bash would expand PS4 for each command if SHELLOPTS had it
// trace, and would take a function for a command.
func TestBashTrace(t *testing.T) {
	s := scene{java: "17", files: programs}
	root := s.build(t)
	touch := "touch " + root + "/canary"
	in := s.input(root)
	in.Env = append(in.Env, "SHELLOPTS=xtrace", "PS4=$("+touch+")", "BASH_FUNC_printf%%=() { "+touch+"; }", "BASH_FUNC_command%%=() { "+touch+"; }")
	in.Run = by(t, "bash")
	plan, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/canary"); err == nil {
		t.Error("a variable was run")
	}
	for _, name := range []string{"SHELLOPTS", "PS4", "BASH_FUNC_printf%%"} {
		if want, _ := jvmopts.LookupEnv(in.Env, name); !slices.Contains(plan.Env, name+"="+want) {
			t.Errorf("%s is not handed on", name)
		}
	}
	// The same without the precaution runs it, or this test would show nothing.
	cmd := exec.Cmd{Path: "/bin/bash", Args: []string{"sh", "-c", "printf x"}, Env: in.Env, Dir: root}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(root + "/canary"); err != nil {
		t.Errorf("bash itself did not run it: %v", err)
	}
}

// TestShellState checks that the umask and the limits of run-env.sh are kept.
func TestShellState(t *testing.T) {
	for _, sh := range []string{"dash", "bash"} {
		s := scene{java: "17", files: with(oneJar, "deploy/run-env.sh", "umask 027\nulimit -c 0\nulimit -n 777\n")}
		in := s.input(s.build(t))
		in.Run = by(t, sh)
		plan, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Shell == nil || plan.Shell.Umask != 0o27 || len(plan.Shell.Limits) != 16 {
			t.Fatalf("%s: %+v", sh, plan.Shell)
		}
		if l := plan.Shell.Limits[syscall.RLIMIT_NOFILE]; l != (syscall.Rlimit{Cur: 777, Max: 777}) {
			t.Errorf("%s: open files %+v", sh, l)
		}
		var own syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &own); err != nil || plan.Shell.Limits[syscall.RLIMIT_STACK] != own {
			t.Errorf("%s: stack %+v, want %+v (%v)", sh, plan.Shell.Limits[syscall.RLIMIT_STACK], own, err)
		}
	}
}

// TestWithoutShell checks the plain lines that an image without a shell may
// have, and that /bin/sh means the same by them.
func TestWithoutShell(t *testing.T) {
	const file = "# comment\n\nexport A='x y'\nB=\"z;'q\"\nC=a/b:c,d=e@f%g+h-i.j\nexport D=\nJAVA_OPTIONS='-Da=$b -Dc'\nJAVA_APP_DIR=@/app\r\n"
	s := scene{java: "17", files: env{"deploy/run-env.sh": strings.ReplaceAll(file, "\r", ""), "app/run-env.sh": "JAVA_APP_JAR=b.jar", "app/b.jar": "", "app/a.jar": ""}}
	in := s.input(s.build(t))
	withShell := s.ours(in)
	in.Run = func(Process) ([]byte, int, error) { return nil, 0, os.ErrNotExist }
	without := s.ours(in)
	if !same(withShell, without) || !without.has("-Da=$b") {
		t.Errorf("with a shell:\n%v\nwithout:\n%v", withShell, without)
	}
	for _, line := range []string{"A=$B", "A=`b`", "A=a b", "A=\"\\\"\"", "export A", "a b=c", "echo x", "A=x;B=y", "A='x'y'", "if true", "A=~", "A=*", "1=2", "A=#", "A=(x)", "A=\"$B\""} {
		if _, err := parseAssignments("OK=1\n" + line); err == nil || !strings.HasPrefix(err.Error(), "2: ") {
			t.Errorf("%q: %v", line, err)
		}
	}
	if err := os.WriteFile(filepath.Join(in.ScriptDir, envFile), []byte("A=$(date)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := s.ours(in); o.code != 1 || !strings.Contains(o.line, "run-env.sh:1: ") {
		t.Errorf("code %d, line %q", o.code, o.line)
	}
}
