package runner_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/polltest"
)

// ungroupedEnv is set in the process that TestUngrouped starts.
const ungroupedEnv = "TARE_TEST_UNGROUPED"

// Without any right a process runs, its processor time is known while it runs and after,
// and what it left behind ends with it; limits are refused.
func TestUngrouped(t *testing.T) {
	if os.Getenv(ungroupedEnv) == "" && os.Geteuid() == 0 {
		cmd := exec.Command(publicCopy(t), "-test.run=^TestUngrouped$", "-test.v")
		cmd.Dir, cmd.Env = "/", append(os.Environ(), ungroupedEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestUngrouped") {
			t.Errorf("as user %d: %v\n%s", nobody, err, out)
		}
		return
	}
	r := &runner.Ungrouped{}
	if _, err := r.Start(t.Context(), runner.Spec{Args: []string{"true"}, Limits: runner.Limits{MemoryBytes: 64 << 20}}); !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("with a limit: %v", err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := r.Start(t.Context(), runner.Spec{Args: []string{"sh", "-c", "sleep 1000 & echo $!; while :; do :; done"}, Env: os.Environ(), Stdout: stdout})
	if err := errors.Join(err, stdout.Close()); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// The start of the shell alone takes more processor time on a slow machine than is
	// waited for below.
	var child int
	if _, err := fmt.Fscanln(out, &child); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "processor time of the process", func() bool {
		u, err := p.Usage(t.Context())
		return err == nil && u.CPUTime > 20*time.Millisecond && u.UsageBytes == 0
	})
	if err := p.SetMemoryLimit(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := p.Stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Signal != syscall.SIGTERM {
		t.Errorf("%+v", e)
	}
	if u, err := p.Usage(t.Context()); err != nil || u.CPUTime < 20*time.Millisecond {
		t.Errorf("after the end: %v, %+v", err, u)
	}
	polltest.Until(t, "the end of the child", func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) })
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
