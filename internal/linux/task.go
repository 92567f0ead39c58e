package linux

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrRunning says that a thread was running, so that its registers are
// unknown.
var ErrRunning = errors.New("thread is running")

// StackPointer reads the stack pointer of a thread that waits in a system
// call or was preempted, from /proc/PID/task/TID/syscall (kernel:
// Documentation/filesystems/proc.rst; the last two numbers are the stack
// pointer and the program counter).
func (fs FS) StackPointer(pid, tid int) (uint64, error) {
	path := fs.Path(pid, "task", strconv.Itoa(tid), "syscall")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return parseStackPointer(string(text))
}

func parseStackPointer(text string) (uint64, error) {
	f := strings.Fields(text)
	if len(f) == 1 && f[0] == "running" {
		return 0, ErrRunning
	}
	if len(f) < 3 {
		return 0, fmt.Errorf("too few numbers: %.80q", text)
	}
	sp, err := strconv.ParseUint(strings.TrimPrefix(f[len(f)-2], "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("bad stack pointer %.40q", f[len(f)-2])
	}
	return sp, nil
}

// ThreadName reads the name of a thread, of which the kernel keeps 15 bytes.
func (fs FS) ThreadName(pid, tid int) (string, error) {
	text, err := os.ReadFile(fs.Path(pid, "task", strconv.Itoa(tid), "comm"))
	if err != nil {
		return "", err
	}
	return PrintableName(strings.TrimSuffix(string(text), "\n")), nil
}
