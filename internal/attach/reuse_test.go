package attach_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// reuseInside says that the test runs as the first process of a PID namespace
// of its own, where it may say which id comes next.
const reuseInside = "TARE_TEST_REUSE"

// A process id that was given to another process, after the JVM was found, is
// not taken for the JVM: nothing is read as its own, and nothing is sent.
func TestProcessIDReuse(t *testing.T) {
	alone.Uses(t, "a JVM")
	if os.Getenv(reuseInside) != "" {
		reuse(t)
		return
	}
	again := exec.Command("/proc/self/exe", "-test.run=^TestProcessIDReuse$", "-test.v")
	again.Env = append(os.Environ(), reuseInside+"=1", alone.Part+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := again.CombinedOutput()
	t.Logf("in a PID namespace:\n%s", out)
	if err != nil {
		t.Error(err)
	}
}

func reuse(t *testing.T) {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	proc := linux.NewFS("/proc")
	jvm := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx16m", "-Xint"}, 1, 1, 1)
	target, err := process.Find(proc, jvm.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := jvm.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-jvm.Ended()
	heir := startAsPID(t, jvm.PID())
	before, err := proc.Birth(heir.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if target.StillThere(proc) {
		t.Error("another process is taken for the JVM")
	}
	if err := attach.Ask(t.Context(), proc, target, "VM.version", nil); !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("asked another process: %v", err)
	}
	if _, err := footprint.WeighTarget(t.Context(), target, footprint.Options{}); !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("weighed another process: %v", err)
	}
	// It would have died of the signal.
	if now, err := proc.Birth(heir.Process.Pid); err != nil || now != before {
		t.Errorf("the other process was disturbed: %+v, %v", now, err)
	}
}

// startAsPID starts a program that is given a certain process id
// (pid_namespaces(7), ns_last_pid).
func startAsPID(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	for range 50 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		if cmd.Process.Pid == pid {
			return cmd
		}
	}
	t.Fatalf("process id %d was not given out again", pid)
	return nil
}
