// Package vmtest runs tests in a virtual machine with a real Debian kernel and cgroup v2, whatever the host has. It is
// for tests only, and drives scripts/vm.sh: see there for what the machine is made of. Each call boots a machine of its
// own, which costs some ten seconds without hardware virtualisation: ask much of one boot.
package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options describes the machine. The zero value is a usable one.
type Options struct {
	Kernel   string        // Debian suite of the kernel: bookworm (default, Linux 6.1), trixie (6.12) or sid
	Memory   int64         // bytes, in whole MiB; default 1 GiB
	CPUs     int           // default 2
	Disk     int64         // free bytes on the root disk, in whole MiB; default 512 MiB
	Timeout  time.Duration // for boot and command together, in whole seconds; default 5 minutes
	Copies   []Copy        // what the command needs
	HostLibs bool          // copy the host's C and C++ runtime too: a JDK needs it
	Env      []string      // NAME=VALUE; the host's environment is not passed on
	Dir      string        // working directory in the guest; default /
}

// Copy is a file or directory of the host and its absolute path in the guest; an empty Guest is the host's path.
type Copy struct{ Host, Guest string }

// Result is what the command left.
type Result struct {
	Output   string // stdout and stderr, at most maxOutput bytes of them
	ExitCode int    // 128 + signal for a command that a signal ended
}

const (
	defaultTimeout = 5 * time.Minute
	maxOutput      = 16 << 20
	// vm.sh exits so when the command's exit code is not known: time was up, no machine.
	exitTimeout, exitMachine = 124, 125
	// mebibyte is the unit of vm.sh's sizes.
	mebibyte = 1 << 20
	// insideEnv is set in the guest by RunTests.
	insideEnv = "TARE_VMTEST_GUEST"
)

// Inside reports whether the process runs in a machine started by RunTests. A test that calls RunTests on its own
// package asks it, if -test.run does not leave the test out anyway.
func Inside() bool { return os.Getenv(insideEnv) == "1" }

// Run boots a machine, runs the command in it as root, logs its output and returns it with the exit code. It fails the
// test if the machine cannot be made, does not boot or takes longer than Options.Timeout, with the last kernel lines.
func Run(t testing.TB, opts Options, command string, args ...string) Result {
	t.Helper()
	result, err := run(t.Context(), opts, append([]string{command}, args...))
	if result.Output != "" {
		t.Logf("output of the machine:\n%s", result.Output)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// RunTests compiles the tests of a package (an import path, or one relative to the module's root such as
// ./internal/runner) to a static binary and runs it in a machine, in a directory that has the package's testdata. The
// arguments are the binary's (-test.run=…). It fails the test if they fail or if none ran.
func RunTests(t testing.TB, opts Options, pkg string, args ...string) Result {
	t.Helper()
	opts, binary, err := compile(t.Context(), opts, pkg, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	result := Run(t, opts, binary, testArgs(opts, args)...)
	if err := verdict(pkg, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// compile builds the test binary of pkg into dir and returns the options to run it with, and its path in the guest.
func compile(ctx context.Context, opts Options, pkg, dir string) (Options, string, error) {
	root, err := moduleRoot()
	if err != nil {
		return opts, "", err
	}
	source, err := output(ctx, root, "go", "list", "-f", "{{.Dir}}", pkg)
	if err != nil {
		return opts, "", err
	}
	binary := filepath.Join(dir, "guest.test")
	// The guest has no C library.
	if _, err := output(ctx, root, "env", "CGO_ENABLED=0", "go", "test", "-c", "-o", binary, pkg); err != nil {
		return opts, "", err
	}
	if _, err := os.Stat(binary); err != nil {
		return opts, "", fmt.Errorf("package %s has no tests to run in a machine: %w", pkg, err)
	}
	const guest = "/test/guest.test"
	opts.Copies = append([]Copy{{binary, guest}}, opts.Copies...)
	if testdata := filepath.Join(source, "testdata"); isDir(testdata) {
		opts.Copies = append(opts.Copies, Copy{testdata, "/test/testdata"})
	}
	opts.Env = append([]string{insideEnv + "=1"}, opts.Env...)
	if opts.Dir == "" {
		opts.Dir = "/test"
	}
	return opts, guest, nil
}

// testArgs adds -test.v, and a time limit before the machine's, so that a test that hangs shows its goroutines.
func testArgs(opts Options, args []string) []string {
	limit := opts.Timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	return append([]string{"-test.v", "-test.timeout=" + (limit * 3 / 4).String()}, args...)
}

func verdict(pkg string, result Result) error {
	if result.ExitCode != 0 {
		return fmt.Errorf("tests of %s failed in the machine: exit code %d, see the output above", pkg, result.ExitCode)
	}
	if strings.Contains(result.Output, "testing: warning: no tests to run") {
		return fmt.Errorf("no test of %s ran in the machine: correct -test.run", pkg)
	}
	return nil
}

// run runs vm.sh. The error says why there is no exit code of the command.
func run(ctx context.Context, opts Options, command []string) (Result, error) {
	root, err := moduleRoot()
	if err != nil {
		return Result{}, err
	}
	args, err := opts.args()
	if err != nil {
		return Result{}, err
	}
	script := filepath.Join(root, "scripts", "vm.sh")
	cmd := exec.CommandContext(ctx, script, append(append(args, "--"), command...)...)
	stdout, stderr := limited{max: maxOutput}, limited{max: maxOutput}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// On SIGTERM the script ends the machine and removes its files; also when this process is killed. The kernel sends
	// the signal when the thread ends that started the script, so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	err = cmd.Run()
	result := Result{Output: stdout.String(), ExitCode: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return result, fmt.Errorf("%s: %w", script, err)
	}
	if code := result.ExitCode; code < 0 || code == exitTimeout || code == exitMachine {
		return result, fmt.Errorf("%s ended with %s: %s", script, cmd.ProcessState, stderr.String())
	}
	return result, nil
}

// args are the options of vm.sh.
func (o Options) args() ([]string, error) {
	if o.Memory%mebibyte != 0 || o.Disk%mebibyte != 0 || o.Timeout%time.Second != 0 {
		return nil, fmt.Errorf("memory %d, disk %d, timeout %s: give whole MiB and whole seconds",
			o.Memory, o.Disk, o.Timeout)
	}
	var args []string
	add := func(option, value string, given bool) {
		if given {
			args = append(args, option, value)
		}
	}
	add("--kernel", o.Kernel, o.Kernel != "")
	add("--memory", strconv.FormatInt(o.Memory/mebibyte, 10)+"M", o.Memory != 0)
	add("--cpus", strconv.Itoa(o.CPUs), o.CPUs != 0)
	add("--disk", strconv.FormatInt(o.Disk/mebibyte, 10), o.Disk != 0)
	add("--timeout", strconv.FormatInt(int64(o.Timeout/time.Second), 10), o.Timeout != 0)
	add("--dir", o.Dir, o.Dir != "")
	for _, c := range o.Copies {
		host, err := filepath.Abs(c.Host)
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", c.Host, err)
		}
		guest := c.Guest
		if guest == "" {
			guest = host
		}
		if !filepath.IsAbs(guest) || strings.Contains(guest, ":") {
			return nil, fmt.Errorf("copy %s: the guest's path %q must be absolute and without colon", host, guest)
		}
		add("--copy", host+":"+guest, true)
	}
	for _, e := range o.Env {
		add("--env", e, true)
	}
	if o.HostLibs {
		args = append(args, "--host-libs")
	}
	return args, nil
}

// moduleRoot is the nearest directory above the working one that has a go.mod: go test starts a test in its package.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the module's root: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s: run the test in the source tree", start)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// output runs a command of the host in dir and returns its stdout without the final newline.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// limited keeps the first max bytes and counts the others.
type limited struct {
	kept    bytes.Buffer
	max     int
	dropped int64
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.max-l.kept.Len())
	l.kept.Write(p[:n])
	l.dropped += int64(len(p) - n)
	return len(p), nil
}

func (l *limited) String() string {
	if l.dropped == 0 {
		return l.kept.String()
	}
	return fmt.Sprintf("%s\n[%d more bytes]\n", l.kept.String(), l.dropped)
}
