package runner

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seize begins to trace the first thread of a process, which goes on (ptrace(2),
// PTRACE_SEIZE). Only the calling thread traces it; the process is killed when that ends,
// however it does.
func seize(pid int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_EXITKILL, 0, 0); errno != 0 {
		return fmt.Errorf("trace of process %d: %w; the agent's container needs the capability SYS_PTRACE", pid, errno)
	}
	return nil
}

// awaitChange waits until the traced process stops or has ended, and takes nothing of it:
// one that has ended is kept until it is waited for.
func awaitChange(pid int) (ended bool, err error) {
	// struct siginfo_t: si_signo, si_errno, si_code, of four bytes each.
	var info [128]byte
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return false, fmt.Errorf("wait for process %d: %w", pid, errno)
		}
		code := *(*int32)(unsafe.Pointer(&info[8]))
		return code == cldExited || code == cldKilled || code == cldDumped, nil
	}
}

// Values of si_code for SIGCHLD (sigaction(2)).
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// resume lets a thread go on that stopped, with the signal that it stopped for. A stop of
// the whole process is not undone (PTRACE_LISTEN).
func resume(pid int, status syscall.WaitStatus) {
	request, signal := uintptr(unix.PTRACE_CONT), uintptr(status.StopSignal())
	if status>>16 == unix.PTRACE_EVENT_STOP {
		signal = 0
		switch status.StopSignal() {
		case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
			request = unix.PTRACE_LISTEN
		}
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(pid), 0, signal, 0, 0)
	if errno != 0 && !errors.Is(errno, unix.ESRCH) { // it has been killed meanwhile
		_ = unix.Kill(pid, unix.SIGKILL) // it would stand still for ever
	}
}
