// Package guest is what the tests of vmtest run in the machine.
package guest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"tare.dev/tare/internal/testkit/vmtest"
)

// A process can be started in a group of its own, as only a kernel with cgroup v2 allows (clone3, CLONE_INTO_CGROUP).
func TestIntoCgroup(t *testing.T) {
	if !vmtest.Inside() {
		t.Fatal("not in a machine of vmtest")
	}
	if data, err := os.ReadFile("testdata/lines"); err != nil || string(data) != "first\nsecond\n" {
		t.Errorf("testdata/lines: %q, %v", data, err)
	}
	const group = "/sys/fs/cgroup/guest"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("cat", "/proc/self/cgroup")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if out, err := cmd.Output(); err != nil || string(out) != "0::/guest\n" {
		t.Errorf("group of the process: %q, %v", out, err)
	}
}

func TestFails(t *testing.T) { t.Fatal("on purpose") }
