package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// program builds tare where every user can run it.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(openDir(t), "tare")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// openDir is a directory that every user can look into.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openJDK is JDK 17, and the workloads, where every user can run them.
func openJDK(t *testing.T) (java, jar string) {
	t.Helper()
	dir := openDir(t)
	for _, from := range []string{jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar")} {
		if err := linkTree(from, filepath.Join(dir, filepath.Base(from))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "17", "bin", "java"), filepath.Join(dir, "workloads.jar")
}

// linkTree makes a tree of links to the files of another; where that lies on
// another file system, of copies.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil // links into parts that a JVM does not need to run
		case os.Link(path, target) == nil:
			return nil
		}
		return exec.Command("cp", path, target).Run()
	})
}

// start starts a program and ends it with the test.
func start(t *testing.T, cmd *exec.Cmd, ready string) *watched {
	t.Helper()
	w := &watched{Cmd: cmd, name: filepath.Join(t.TempDir(), "out")}
	out, err := os.Create(w.name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := deathsig.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	polltest.Until(t, "the program to write "+ready, func() bool { return strings.Contains(w.output(t), ready) })
	return w
}

// watched is a program of which it is known when it was disturbed.
type watched struct {
	*exec.Cmd
	name string
}

func (w *watched) pid() int { return w.Process.Pid }

func (w *watched) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(w.name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// trace is what shows that a process was disturbed.
type trace struct {
	state  byte
	birth  linux.Birth
	output string
	rss    int64
}

func (w *watched) trace(t *testing.T) trace {
	t.Helper()
	proc := linux.NewFS("/proc")
	st, err := proc.Status(w.pid())
	if err != nil {
		t.Fatal(err)
	}
	if st.State == 'R' || st.State == 'D' {
		st.State = 'S' // it is at work, or waits
	}
	birth, err := proc.Birth(w.pid())
	if err != nil {
		t.Fatal(err)
	}
	sum, _ := proc.SmapsRollup(w.pid()) // a zombie has none
	return trace{st.State, birth, w.output(t), sum.RSS}
}

// undisturbed checks that the process is as before. An idle JVM's own timers
// touch a page now and then; to listen it opens a socket, which takes memory.
func (w *watched) undisturbed(t *testing.T, before trace, listens bool) {
	t.Helper()
	after := w.trace(t)
	grown := after.rss - before.rss
	if after.rss = before.rss; after != before {
		t.Errorf("disturbed: %+v before, %+v after", before, after)
	}
	if grown > 64<<10 && !listens {
		t.Errorf("Rss grew by %d bytes", grown)
	}
}

// answer is what tare is to answer.
type answer struct {
	code int
	says string // in stderr of an error, else in stdout
}

// check checks what tare answered: of errors, that it is one line and the next
// step.
func (a answer) check(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	text := stdout
	if a.code != exitOK {
		text = stderr
		if stdout != "" || strings.Count(stderr, "\n") > 2 {
			t.Errorf("stdout %q, stderr of several lines:\n%s", stdout, stderr)
		}
	}
	if flat := strings.Join(strings.Fields(text), " "); code != a.code || !strings.Contains(flat, a.says) {
		t.Errorf("exit code %d, want %d and %q:\n%s%s", code, a.code, a.says, stdout, stderr)
	}
}

func filler(t *testing.T, options ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"-Xmx32m", "-Xint", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=detail"}, options...)
	return exec.Command(jvmtest.Java(t, 17), append(args, "-jar", jvmtest.Jar(t, "workloads.jar"), "memory-filler", "2", "1", "1")...)
}

// Every process that must be handled with care is left as it was, with and
// without --attach, and the answer is one clear line.
func TestHazards(t *testing.T) {
	for _, c := range []struct {
		name    string
		start   func(t *testing.T) *watched
		plain   answer
		attach  answer
		listens bool // it may be attached to
	}{
		{"-Xrs", func(t *testing.T) *watched { return start(t, filler(t, "-Xrs"), "ready") },
			answer{exitOK, "nothing was sent to the JVM"}, answer{exitOK, "native memory tracking"}, true},
		{"DisableAttachMechanism", func(t *testing.T) *watched { return start(t, filler(t, "-XX:+DisableAttachMechanism"), "ready") },
			answer{exitOK, "nothing was sent to the JVM"}, answer{exitPermission, "DisableAttachMechanism and would answer with a thread dump"}, false},
		{"stopped", stopped, answer{exitOK, "nothing was sent to the JVM"}, answer{exitPermission, "is stopped and would never answer"}, false},
		{"early start-up", starting, answer{exitOK, "the JVM is still starting"}, answer{exitPermission, "does not handle SIGQUIT"}, false},
		{"no JVM, dies of SIGQUIT", sleeper,
			answer{exitTarget, "(sleep) is not a JVM"}, answer{exitTarget, "(sleep) is not a JVM"}, false},
		{"zombie", zombie, answer{exitTarget, "has ended"}, answer{exitTarget, "has ended"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.start(t)
			before := w.trace(t)
			for _, command := range []string{"weigh", "doctor", "watch"} {
				args := []string{command, fmt.Sprint(w.pid())}
				want := c.plain
				if command == "watch" {
					args = append(args, "--count", "1")
				}
				if command != "weigh" && want.code == exitOK {
					want.says = ""
				}
				code, out, errs := tare(t, args...)
				want.check(t, code, out, errs)
			}
			w.undisturbed(t, before, false)
			code, out, errs := tare(t, "weigh", fmt.Sprint(w.pid()), "--attach")
			c.attach.check(t, code, out, errs)
			w.undisturbed(t, before, c.listens)
		})
	}
}

func sleeper(t *testing.T) *watched {
	w := start(t, exec.Command("sleep", "600"), "")
	polltest.Until(t, "sleep to sleep", func() bool {
		st, err := linux.NewFS("/proc").Status(w.pid())
		return err == nil && st.Name == "sleep" && st.State == 'S'
	})
	return w
}

func stopped(t *testing.T) *watched {
	w := start(t, filler(t), "ready")
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	polltest.UntilState(t, w.pid(), 'T')
	return w
}

// starting is a JVM that waits before it makes its heap and handles signals:
// PauseAtStartup makes it create a file, and wait until that is removed.
func starting(t *testing.T) *watched {
	file := filepath.Join(t.TempDir(), "paused")
	w := start(t, filler(t, "-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", "-XX:PauseAtStartupFile="+file), "")
	polltest.Until(t, "the JVM to pause", func() bool { _, err := os.Stat(file); return err == nil })
	return w
}

func zombie(t *testing.T) *watched {
	w := start(t, exec.Command("true"), "")
	polltest.UntilState(t, w.pid(), 'Z')
	return w
}

// From its first moment on a JVM that is weighed and asked again and again
// starts as if it were not.
func TestStartUpIsNotDisturbed(t *testing.T) {
	w := start(t, filler(t), "")
	for !strings.Contains(w.output(t), "ready") {
		code, _, errs := tare(t, "weigh", fmt.Sprint(w.pid()), "--attach")
		if st, err := linux.NewFS("/proc").Status(w.pid()); err != nil || st.State == 'Z' {
			t.Fatalf("the JVM died: exit code %d, %s\n%s", code, errs, w.output(t))
		}
		if code != exitOK && code != exitTarget && code != exitPermission {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
	if strings.Contains(w.output(t), "thread dump") {
		t.Errorf("it was asked for a thread dump:\n%s", w.output(t))
	}
}

// as runs tare as another user, in other namespaces.
func as(t *testing.T, tare string, attr *syscall.SysProcAttr, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(tare, args...)
	cmd.SysProcAttr = attr
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

const nobody = 65534

// Another user's JVM is closed to a user without rights, and open to root,
// who answers to it by its own user.
func TestOtherUser(t *testing.T) {
	tare := program(t)
	java, jar := openJDK(t)
	unprivileged := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	options := []string{"-Xmx32m", "-Xint", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=detail", "-jar", jar, "memory-filler", "2", "1", "1"}

	roots := start(t, exec.Command(java, options...), "ready")
	before := roots.trace(t)
	for _, args := range [][]string{{"weigh"}, {"weigh", "--attach"}, {"doctor"}, {"watch"}} {
		code, out, errs := as(t, tare, unprivileged, append(args, fmt.Sprint(roots.pid()))...)
		answer{exitPermission, "it belongs to uid 0, tare runs as uid 65534 run tare as root or as uid 0, or give tare CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"}.check(t, code, out, errs)
	}
	roots.undisturbed(t, before, false)

	mine := exec.Command(java, options...)
	mine.SysProcAttr = unprivileged
	theirs := start(t, mine, "ready")
	before = theirs.trace(t)
	for _, attr := range []*syscall.SysProcAttr{nil, unprivileged} {
		code, out, errs := as(t, tare, attr, "weigh", fmt.Sprint(theirs.pid()))
		answer{exitOK, "nothing was sent to the JVM"}.check(t, code, out, errs)
		theirs.undisturbed(t, before, false)
	}
	for _, attr := range []*syscall.SysProcAttr{nil, unprivileged} {
		code, out, errs := as(t, tare, attr, "weigh", fmt.Sprint(theirs.pid()), "--attach")
		answer{exitOK, "native memory tracking"}.check(t, code, out, errs)
		if strings.Contains(out, "could not be read") {
			t.Errorf("not asked:\n%s", out)
		}
		theirs.undisturbed(t, before, true)
	}
}

// A PID that was read in another namespace names no JVM here, or another
// process: the answer says where the JVM is. With the proc file system of
// another namespace than its own, tare weighs, and signals nobody.
func TestOtherNamespace(t *testing.T) {
	tare := program(t)
	cmd := filler(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	inside := start(t, cmd, "ready")
	// The next JVM with this id in its namespace shares /tmp.
	t.Cleanup(func() { _ = os.Remove("/tmp/.java_pid1") })
	before := inside.trace(t)
	code, out, errs := as(t, tare, nil, "weigh", "1")
	if code != exitTarget && code != exitPermission || !strings.Contains(errs, "inside of a container, 1 may mean process") || !strings.Contains(errs, fmt.Sprint(inside.pid())) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}

	own := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	code, out, errs = as(t, tare, own, "weigh", fmt.Sprint(inside.pid()))
	answer{exitOK, "nothing was sent to the JVM"}.check(t, code, out, errs)
	code, out, errs = as(t, tare, own, "weigh", fmt.Sprint(inside.pid()), "--attach")
	answer{exitPermission, "/proc is of another PID namespace than tare's"}.check(t, code, out, errs)
	inside.undisturbed(t, before, false)

	code, out, errs = as(t, tare, nil, "weigh", fmt.Sprint(inside.pid()), "--attach")
	answer{exitOK, "native memory tracking"}.check(t, code, out, errs)
	inside.undisturbed(t, before, true)
}

// A JVM in a user namespace that maps its root to nobody in particular is
// weighed, and asked as its own user.
func TestUserNamespace(t *testing.T) {
	java, jar := openJDK(t)
	const outer = 231072
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: outer, Size: 65536}}
	cmd := exec.Command(java, "-Xmx32m", "-Xint", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=detail", "-jar", jar, "memory-filler", "2", "1", "1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{Uid: 1, Gid: 1}, // a user with a name, which the data file's folder has
	}
	w := start(t, cmd, "ready")
	t.Cleanup(func() { _ = os.Remove("/tmp/.java_pid1") })
	before := w.trace(t)
	f := weighJSON(t, fmt.Sprint(w.pid()))
	w.undisturbed(t, before, false)
	if jvmtest.Warned(f.Warnings) || !strings.HasPrefix(f.JDK, "17.") || f.Heap == nil {
		t.Errorf("JDK %q, heap %+v, %q", f.JDK, f.Heap, f.Warnings)
	}
	perf, err := hotspot.OpenPerfData("/proc", w.pid())
	if err != nil {
		t.Fatal(err)
	}
	defer perf.Close()
	if _, err := perf.Read(); err != nil {
		t.Error(err)
	}
	for _, s := range weighJSON(t, fmt.Sprint(w.pid()), "--attach").Sources {
		if s.Error != nil {
			t.Errorf("%s: %s", s.Name, *s.Error)
		}
	}
	w.undisturbed(t, before, true)
}
