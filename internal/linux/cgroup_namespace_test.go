package linux_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/polltest"
)

// siblingVariable has the test be the reader: it names a process of another group.
const siblingVariable = "TARE_TEST_SIBLING"

// The kernel's own paths of a sibling group lead to it from a cgroup namespace.
func TestGroupFromNamespace(t *testing.T) {
	live := linux.NewCgroupFS(linux.NewFS("/proc"), "/")
	if pid, err := strconv.Atoi(os.Getenv(siblingVariable)); err == nil {
		g, _ := live.Group(pid) // of its memory the namespace may hide more where that is v1
		fmt.Printf("group %s\n", g.Dirs[""])
		return
	}
	if testing.Short() {
		t.Skip("makes control groups")
	}
	own, err := live.Group(os.Getpid())
	if err != nil || own.Dirs[""] == "" || os.Getuid() != 0 {
		t.Skipf("needs root and a hierarchy of cgroup v2: %v", err)
	}
	pod, err := os.MkdirTemp(own.Dirs[""], "tare-test-")
	if err != nil {
		t.Skipf("no group can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(pod); err != nil {
			t.Error(err)
		}
	})
	app, reader := filepath.Join(pod, "app"), filepath.Join(pod, "reader")
	sibling := inGroup(t, app, exec.CommandContext(t.Context(), "sleep", "60"))
	if err := sibling.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sibling.Process.Kill(); _ = sibling.Wait() })
	again := inGroup(t, reader, exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGroupFromNamespace$"))
	again.SysProcAttr.Unshareflags = syscall.CLONE_NEWCGROUP
	again.Env = append(os.Environ(), fmt.Sprintf("%s=%d", siblingVariable, sibling.Process.Pid))
	var out bytes.Buffer
	again.Stdout = &out
	if err := again.Run(); err != nil || !strings.HasPrefix(out.String(), "group "+app+"\n") {
		t.Errorf("%q, %v, want %s", &out, err, app)
	}
}

// inGroup has a command start in a new v2 group, which is removed after it.
func inGroup(t *testing.T, dir string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { polltest.UntilNil(t, func() error { return os.Remove(dir) }) }) // its process may still be leaving
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	return cmd
}
