// Package deathsig starts processes that the kernel ends with this one, also
// when this one is killed.
package deathsig

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts a command that gets the signal when this process ends.
//
// The kernel sends it when the thread ends that started the command (prctl(2),
// PR_SET_PDEATHSIG), and Go ends threads at will: those of goroutines that
// return with a thread locked. So one thread, which never ends, starts them all.
func Start(cmd *exec.Cmd, signal syscall.Signal) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = signal
	s := starting{cmd, make(chan error)}
	starter() <- s
	return <-s.done
}

type starting struct {
	cmd  *exec.Cmd
	done chan error
}

var starter = sync.OnceValue(func() chan<- starting {
	wanted := make(chan starting)
	go func() {
		runtime.LockOSThread()
		for s := range wanted {
			s.done <- s.cmd.Start()
		}
	}()
	return wanted
})
