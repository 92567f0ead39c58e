package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/pty"
)

// runAsTare makes the test binary be tare.
const runAsTare = "TARE_TEST_AS_TARE"

func TestMain(m *testing.M) {
	if os.Getenv(runAsTare) != "" || os.Args[0] == runner.InContainer {
		main()
	}
	flag.Parse()
	if err := shareTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(runTests(m))
}

// longTests are those that take longest. Where all tests are run, package beside runs
// them, at the same time as this one the others.
const longTests = "^Test(Docs$|Fit|Lab)"

// shareTests leaves out what the other package runs, unless tests are chosen by name.
func shareTests() error {
	run, skip := flag.Lookup("test.run").Value, flag.Lookup("test.skip").Value
	switch {
	case os.Getenv("TARE_TESTS") == "long":
		return run.Set(longTests)
	case run.String() == "" && skip.String() == "" && !testing.Short():
		return skip.Set(longTests)
	}
	return nil
}

// runTests runs the tests with a history of their own.
func runTests(m *testing.M) int {
	state, err := os.MkdirTemp("", "tare-test-state-")
	if err == nil {
		defer os.RemoveAll(state)
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// tareTime is how long a process of tare may take in a test before it is killed: one
// that does not end fails its test, and not all that come after it.
const tareTime = 5 * time.Minute

// tareCommand is tare as a process of its own, that ends with the test.
func tareCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), tareTime)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), runAsTare+"=1")
	return cmd
}

func TestWatchLines(t *testing.T) {
	p := startFiller(t)
	code, out, errs := tare(t, "watch", fmt.Sprint(p.PID()), "--count", "3", "--interval", "100ms")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || errs != "" || len(lines) != 5 {
		t.Fatalf("exit code %d, %s\n%s", code, errs, out)
	}
	if !strings.HasPrefix(lines[0], "java 17.") || !strings.HasPrefix(lines[1], "time ") {
		t.Errorf("begins\n%s\n%s", lines[0], lines[1])
	}
	names := strings.Fields(lines[1])
	for _, l := range lines[2:] {
		if n := len(strings.Fields(l)); n != len(names) {
			t.Errorf("%d numbers under %d names: %s", n, len(names), l)
		}
	}
}

// The watch ends with the JVM, and that is no failure.
func TestWatchUntilTheJVMEnds(t *testing.T) {
	p := startFiller(t)
	record := filepath.Join(t.TempDir(), "r.jsonl")
	cmd := tareCommand(t, "watch", fmt.Sprint(p.PID()), "--interval", "100ms", "--record", record)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitSize(t, record, 1)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.HasSuffix(out.String(), "\nthe JVM has ended\n") {
		t.Errorf("%v:\n%s", err, &out)
	}
	checkRecord(t, record, 0)
}

// awaitSize waits until a file has so many bytes, and returns how many it has.
func awaitSize(t *testing.T, path string, atLeast int64) (size int64) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		if st, err := os.Stat(path); err == nil {
			size = st.Size()
		}
		if size < atLeast {
			return fmt.Errorf("%s has %d of %d bytes", path, size, atLeast)
		}
		return nil
	})
	return size
}

// checkRecord checks that all lines but so many are whole footprints, and
// returns how many are.
func checkRecord(t *testing.T, path string, torn int) (whole int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f, err := footprint.Read(strings.NewReader(line))
		switch {
		case err == nil && f.PSSBytes > 0 && f.Host != nil:
			whole++
		case err != nil && torn > 0:
			torn--
		default:
			t.Errorf("%.200q: %v", line, err)
		}
	}
	return whole
}

// A recorder that is killed at any moment leaves a record that can be read and
// continued.
func TestWatchKilledWhileRecording(t *testing.T) {
	p := startFiller(t)
	pid := fmt.Sprint(p.PID())
	record := filepath.Join(t.TempDir(), "r.jsonl")
	r := rand.New(rand.NewPCG(3, 4))
	const kills = 8
	size, before := int64(0), 0
	for range kills {
		cmd := tareCommand(t, "watch", pid, "--interval", "100ms", "--record", record)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitSize(t, record, size+1+r.Int64N(40_000))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		whole := checkRecord(t, record, kills)
		if whole <= before {
			t.Errorf("%d lines, %d before", whole, before)
		}
		before = whole
		if code, out, errs := tare(t, "diff", record, pid); code != exitOK || !strings.Contains(out, "= Rss") {
			t.Fatalf("diff: exit code %d\n%s%s", code, out, errs)
		}
		st, err := os.Stat(record)
		if err != nil {
			t.Fatal(err)
		}
		size = st.Size()
	}
	if code, _, errs := tare(t, "watch", pid, "--count", "2", "--interval", "100ms", "--record", record); code != exitOK {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	if whole := checkRecord(t, record, kills); whole != before+2 {
		t.Errorf("%d lines, want %d", whole, before+2)
	}
}

func TestWatchRefuses(t *testing.T) {
	p := startFiller(t)
	pid := fmt.Sprint(p.PID())
	dir := t.TempDir()
	jar := filepath.Join(dir, "app.jar")
	if err := os.WriteFile(jar, []byte("PK"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "watch takes one JVM"},
		{[]string{pid, "--interval", "1ms"}, exitUsage, "--interval 1ms is less than 100ms"},
		{[]string{pid, "--interval", "soon"}, exitUsage, "tare watch --help"},
		{[]string{pid, "--count", "-1"}, exitUsage, "--count -1"},
		{[]string{"99999999"}, exitTarget, "no such process"},
		{[]string{fmt.Sprint(os.Getpid())}, exitTarget, "is not a JVM"},
		{[]string{pid, "--record", filepath.Join(dir, "none", "r.jsonl")}, exitFailure, "cannot record: open " + dir + "/none/r.jsonl: no such file or directory"},
		{[]string{pid, "--record", dir}, exitFailure, "is a directory"},
		{[]string{pid, "--record", jar}, exitFailure, "app.jar holds something else than footprints"},
		{[]string{pid, "--record", "/dev/full"}, exitFailure, "cannot record: write /dev/full: no space left on device"},
	} {
		code, _, errs := tare(t, append([]string{"watch"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") > 2 {
			t.Errorf("%q: exit code %d, want %d: %q", c.args, code, c.code, errs)
		}
	}
}

// terminal is a pseudo-terminal, and what was written to it.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	text          bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, slave, err := pty.Open(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	term := &terminal{master: master, slave: slave}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term
}

func (term *terminal) resize(t *testing.T, width, height uint16) {
	t.Helper()
	if err := pty.Resize(term.master, width, height); err != nil {
		t.Fatal(err)
	}
}

func (term *terminal) state(t *testing.T) unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *state
}

func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

func (term *terminal) await(t *testing.T, text string) {
	t.Helper()
	term.awaitAfter(t, "", text)
}

// awaitAfter waits until text stands behind the first mark.
func (term *terminal) awaitAfter(t *testing.T, mark, text string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		if _, after, ok := strings.Cut(term.screen(), mark); !ok || !strings.Contains(after, text) {
			return fmt.Errorf("no %q on the terminal:\n%q", text, term.screen())
		}
		return nil
	})
}

// run runs tare on the terminal.
func (term *terminal) run(t *testing.T, kind string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := tareCommand(t, args...)
	cmd.Env = append(cmd.Env, "TERM="+kind)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.slave, term.slave, term.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

const enterScreen, leaveScreen, showCursor = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"

// However the live view ends, the terminal is as before, the last picture
// stands on it, and the exit code is 0.
func TestWatchOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, term *terminal, cmd *exec.Cmd, jvm *jvmtest.Process)
		says string
	}{
		{"q", func(t *testing.T, term *terminal, _ *exec.Cmd, _ *jvmtest.Process) { term.typed(t, "q") }, ""},
		{"ctrl-c", func(t *testing.T, term *terminal, _ *exec.Cmd, _ *jvmtest.Process) { term.typed(t, "\x03") }, ""},
		{"paused, q", func(t *testing.T, term *terminal, _ *exec.Cmd, _ *jvmtest.Process) {
			term.typed(t, "p")
			term.await(t, "paused")
			term.typed(t, "q")
		}, ""},
		{"resized, q", func(t *testing.T, term *terminal, _ *exec.Cmd, _ *jvmtest.Process) {
			term.resize(t, 100, 12)
			term.await(t, "smaller rows")
			term.typed(t, "q")
		}, "smaller rows"},
		{"SIGTERM", func(t *testing.T, _ *terminal, cmd *exec.Cmd, _ *jvmtest.Process) {
			sendSignal(t, cmd.Process, syscall.SIGTERM)
		}, ""},
		{"SIGINT", func(t *testing.T, _ *terminal, cmd *exec.Cmd, _ *jvmtest.Process) {
			sendSignal(t, cmd.Process, syscall.SIGINT)
		}, ""},
		{"the JVM's end", func(t *testing.T, _ *terminal, _ *exec.Cmd, jvm *jvmtest.Process) {
			sendSignal(t, jvm.Process, syscall.SIGKILL)
		}, "the JVM has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jvm := startFiller(t)
			term := newTerminal(t)
			before := term.state(t)
			cmd := term.run(t, "xterm-256color", "watch", fmt.Sprint(jvm.PID()), "--interval", "100ms")
			term.await(t, "q quit")
			if term.state(t) == before {
				t.Error("the terminal is not in raw mode: keys would wait for a newline")
			}
			c.end(t, term, cmd, jvm)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v:\n%s", err, term.screen())
			}
			if term.state(t) != before {
				t.Errorf("the terminal is not as before")
			}
			for _, want := range []string{"java 17.", "Java heap", "= Rss", c.says} {
				term.awaitAfter(t, leaveScreen, want)
			}
			if all := term.screen(); !strings.Contains(all, enterScreen) || !strings.Contains(all, showCursor) {
				t.Errorf("%q", all)
			}
		})
	}
}

func (term *terminal) typed(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func sendSignal(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestWatchOnADumbTerminal(t *testing.T) {
	jvm := startFiller(t)
	term := newTerminal(t)
	cmd := term.run(t, "dumb", "watch", fmt.Sprint(jvm.PID()), "--count", "1")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	term.await(t, "headroom")
	if s := term.screen(); strings.Contains(s, "\x1b") {
		t.Errorf("%q", s)
	}
}
