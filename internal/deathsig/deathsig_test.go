package deathsig

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/testkit/polltest"
)

const parentRole = "TARE_TEST_DEATHSIG_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentRole) != "" {
		parent()
	}
	os.Exit(m.Run())
}

// parent starts a child, says its id, and waits to be killed.
func parent() {
	cmd := exec.Command("sleep", "600")
	if err := Start(cmd, syscall.SIGKILL); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A child outlives the thread of the goroutine that asked for it.
func TestThreadsEnd(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	thread := startOnThread(func() { started <- Start(cmd, syscall.SIGKILL) })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	gone := fmt.Sprintf("/proc/self/task/%d", thread)
	polltest.Until(t, "the thread's end", func() bool { _, err := os.Stat(gone); return err != nil })
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// startOnThread runs f on a thread that ends with it, and returns the thread's
// id. It cannot be the main thread, which never ends.
func startOnThread(f func()) int {
	thread := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked
		if syscall.Gettid() == os.Getpid() {
			thread <- startOnThread(f)
			return
		}
		thread <- syscall.Gettid()
		f()
	}()
	return <-thread
}

// A child ends with the process that started it.
func TestProcessEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), parentRole+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	polltest.Until(t, "the child's end", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestNotStarted(t *testing.T) {
	if err := Start(exec.Command("/nonexistent"), syscall.SIGKILL); err == nil {
		t.Error("started")
	}
}
