package runner_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/runnertest"
)

// nobody owns what is delegated; it needs no entry in /etc/passwd.
const nobody = 65534

// delegatedEnv is set in the process that TestDelegated starts.
const delegatedEnv = "TARE_TEST_DELEGATED"

// Without root, in a group that was delegated to the user, and that has nobody
// else in it: what systemd-run --user --scope -p Delegate=yes makes. The
// default parent is that group itself.
func TestDelegated(t *testing.T) {
	if os.Getenv(delegatedEnv) != "" {
		beDelegated(t)
		return
	}
	out, err := delegate(t, delegatedEnv+"=1")
	if err != nil {
		t.Errorf("as user %d: %v", nobody, err)
	}
	t.Logf("%s", out)
	if !strings.Contains(out, "--- PASS: TestDelegated/SweepDead") {
		t.Error("the suite did not run to its end")
	}
}

// With another process in the group nobody can divide it on v2, and the error
// says what to do. Version 1 knows no such rule.
func TestDelegatedNotAlone(t *testing.T) {
	if os.Getenv(delegatedEnv) != "" {
		beNotAlone(t)
		return
	}
	if out, err := delegate(t, delegatedEnv+"=1"); err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

// What this user may not write to is named, and the way out.
func TestNotDelegated(t *testing.T) {
	if os.Getenv(delegatedEnv) != "" {
		_, err := runner.NewCgroup(runner.CgroupOptions{Parent: os.Getenv(parentEnv)})
		expectUnavailable(t, err, "permission denied; run tare as root, or in a group delegated")
		return
	}
	if out, err := delegate(t, delegatedEnv+"=1", parentEnv+"="+testParent(t)); err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

func beDelegated(t *testing.T) {
	parent := os.Getenv(parentEnv)
	if parent == "" {
		g, _ := memoryGroup(t)
		t.Setenv(parentEnv, g.Path)
	}
	runnertest.Run(t, runnertest.Groups, func(t *testing.T) runner.Runner { return newCgroup(t, parent) })
	if g, _ := memoryGroup(t); parent == "" && g.Path != os.Getenv(parentEnv) {
		t.Errorf("this process was left in %s, it came from %s", g.Path, os.Getenv(parentEnv))
	}
}

func beNotAlone(t *testing.T) {
	g, _ := memoryGroup(t)
	cmd := exec.Command("/proc/self/exe", "hold")
	cmd.Env = []string{"TARE_RUNNERTEST_HELPER=1"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if g.Version == 1 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	expectUnavailable(t, err, "other processes are in it; start tare in one of its own: systemd-run --scope")
	if r != nil {
		t.Error("a runner beside the error")
	}
	if now, _ := memoryGroup(t); now.Path != g.Path {
		t.Errorf("this process was moved from %s to %s", g.Path, now.Path)
	}
}

// delegate runs the same test as nobody, in a fresh group that belongs to it.
func delegate(t *testing.T, env ...string) (string, error) {
	t.Helper()
	alone.Measures(t, "control groups")
	env = append(env, alone.Part+"=1")
	c := newCgroup(t, testParent(t))
	// Limits that limit nothing, so that there is a group in every hierarchy.
	g, err := runner.MakeGroup(c, runner.Limits{CPUs: 1000, Cpuset: cpuList(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	for _, dir := range g.Dirs() {
		giveAway(t, dir)
	}
	cmd := exec.Command(publicCopy(t), "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	runErr := g.Run(cmd)
	return read(t, out.Name()), runErr
}

// giveAway delegates a directory as the kernel's documentation says
// ("Model of Delegation"), and likewise on v1.
func giveAway(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "tasks"} {
		if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// publicCopy copies the test binary to where everybody may run it.
func publicCopy(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runner.test")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
