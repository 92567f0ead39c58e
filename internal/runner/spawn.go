package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// entrance puts a process into its group as it starts.
type entrance interface {
	// enter is called on the thread that starts the process, directly before.
	enter(cmd *exec.Cmd) error
	// leave undoes enter, on the same thread.
	leave() error
}

// spawn starts the command through the entrance, from a thread of its own that
// lives until ended is closed.
//
// The thread must live because the parent-death signal that ends the process
// when tare is killed is tied to the thread that made it (prctl(2),
// PR_SET_PDEATHSIG). And it must be the process's own, because on cgroup v1
// the thread goes through the group: it ends with its goroutine and is not used
// for anything else. Threads that the Go runtime needs meanwhile are not cloned
// from it (runtime.startTemplateThread), so none is born inside the group.
func spawn(cmd *exec.Cmd, in entrance, noHugePages bool, ended <-chan struct{}) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A session of its own: Ctrl-C on the terminal reaches the caller alone.
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go onOwnThread(func() {
		err := startInside(cmd, in, noHugePages)
		started <- err
		if err == nil {
			<-ended
		}
	})
	return <-started
}

// onOwnThread runs f on a thread that is not the main one and that ends after
// f. The kernel charges the memory of a whole process to the group of its main
// thread.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	// Keep the main thread until the other goroutine has another one.
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		f()
	}()
	<-locked
	runtime.UnlockOSThread()
}

func startInside(cmd *exec.Cmd, in entrance, noHugePages bool) error {
	if err := in.enter(cmd); err != nil {
		return also(err, in.leave())
	}
	err := startWith(cmd, noHugePages)
	leaveErr := in.leave()
	if err == nil && leaveErr != nil {
		// This thread is still in the group; it ends when this fails.
		cmd.Process.Kill()
		cmd.Wait()
	}
	return also(err, leaveErr)
}

// command is the process of a spec, its output aside. The environment is what
// the spec says, even when that is nothing.
func command(spec Spec) (*exec.Cmd, error) {
	if len(spec.Args) == 0 {
		return nil, errors.New("no command to start")
	}
	cmd := exec.Command(spec.Args[0], spec.Args[1:]...)
	cmd.Env = append([]string{}, spec.Env...)
	cmd.Dir = spec.Dir
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	if spec.Dir != "" {
		// Otherwise the error would name the command.
		if fi, err := os.Stat(spec.Dir); err != nil {
			return nil, fmt.Errorf("working directory: %w", err)
		} else if !fi.IsDir() {
			return nil, fmt.Errorf("working directory %s: %w", spec.Dir, syscall.ENOTDIR)
		}
	}
	return cmd, nil
}
