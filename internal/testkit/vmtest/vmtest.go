// Package vmtest runs tests in a virtual machine with a real Debian kernel and cgroup v2, whatever the host has. It is
// for tests only, and drives scripts/vm.sh: see there for what the machine is made of. Each call boots a machine of its
// own, which costs some ten seconds without hardware virtualisation: ask much of one boot.
package vmtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/vm"
)

// Options describes the machine; see vm.Options.
type Options = vm.Options

// Copy is a file for the machine; see vm.Copy.
type Copy = vm.Copy

// Result is what the command left; see vm.Result.
type Result = vm.Result

// insideEnv is set in the guest by RunTests.
const insideEnv = "TARE_VMTEST_GUEST"

// Inside reports whether the process runs in a machine started by RunTests. A test that calls RunTests on its own
// package asks it, if -test.run does not leave the test out anyway.
func Inside() bool { return os.Getenv(insideEnv) == "1" }

// Run boots a machine, runs the command in it as root, logs its output and returns it with the exit code. It fails the
// test if the machine cannot be made, does not boot or takes longer than Options.Timeout, with the last kernel lines.
func Run(t testing.TB, opts Options, command string, args ...string) Result {
	t.Helper()
	alone.Uses(t, "a virtual machine")
	result, err := vm.Run(t.Context(), opts, append([]string{command}, args...))
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
	opts.Copies = append([]Copy{{Host: binary, Guest: guest}}, opts.Copies...)
	if testdata := filepath.Join(source, "testdata"); isDir(testdata) {
		opts.Copies = append(opts.Copies, Copy{Host: testdata, Guest: "/test/testdata"})
	}
	opts.Env = append([]string{insideEnv + "=1", alone.Part + "=1"}, opts.Env...)
	if opts.Dir == "" {
		opts.Dir = "/test"
	}
	return opts, guest, nil
}

// testArgs adds -test.v, and a time limit before the machine's, so that a test that hangs shows its goroutines.
func testArgs(opts Options, args []string) []string {
	limit := opts.Timeout
	if limit == 0 {
		limit = vm.DefaultTimeout
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
