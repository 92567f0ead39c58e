package linux

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// ThreadClock is what a thread of a process has used.
type ThreadClock struct {
	TID int
	// Name is as ThreadName gives it. A new thread has its maker's.
	Name string
	// StartTicks tells two threads that had the same TID apart: clock ticks since
	// boot.
	StartTicks uint64
	// Time is the processor time, to a tick of 10 ms of user and of system time.
	Time time.Duration
}

// UserHZ is the unit of times in /proc: 100 on every architecture that Go builds Linux
// programs for (include/asm-generic/param.h).
const UserHZ = 100

// maxStat bounds /proc/PID/task/TID/stat: fifty numbers and a name of 15 bytes, which
// may be escaped.
const maxStat = 2048

// ThreadClocks reads what living threads of process pid have used, from
// /proc/PID/task/TID/stat (proc_pid_stat(5)), which is read once for each: ten
// microseconds or more. Those that skip says are only named; nil skips none. A thread that
// ends meanwhile is left out.
func (fs FS) ThreadClocks(pid int, skip func(tid int) bool) (clocks []ThreadClock, skipped []int, err error) {
	dir, err := os.Open(fs.Path(pid, "task"))
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	buffer := make([]byte, maxStat)
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if skip != nil && skip(tid) {
			skipped = append(skipped, tid)
			continue
		}
		text, err := readAt(int(dir.Fd()), name+"/stat", buffer)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s/%d/stat: %w", dir.Name(), tid, err)
		}
		c, err := parseThreadClock(text)
		if err != nil {
			return nil, nil, fmt.Errorf("%s/%d/stat: %w", dir.Name(), tid, err)
		}
		c.TID = tid
		clocks = append(clocks, c)
	}
	return clocks, skipped, nil
}

// readAt reads a small file below an open folder without what package os does for each
// file that it opens: of ten thousand files that is half the time.
func readAt(dir int, name string, buffer []byte) ([]byte, error) {
	fd, err := syscall.Openat(dir, name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, buffer)
	if err != nil {
		return nil, err
	}
	return buffer[:n], nil
}

// parseThreadClock takes the name, and the fields 14, 15 and 22: user and system time,
// and the start. The name may hold blanks and parentheses: the fields count from the
// last closing one.
func parseThreadClock(text []byte) (ThreadClock, error) {
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if first < 0 || last < first {
		return ThreadClock{}, fmt.Errorf("no name: %.80q", text)
	}
	c := ThreadClock{Name: PrintableName(string(text[first+1 : last]))}
	var ticks uint64
	field := 3
	for word := range bytes.FieldsSeq(text[last+1:]) {
		if field == 14 || field == 15 || field == 22 {
			n, err := strconv.ParseUint(string(word), 10, 63)
			if err != nil {
				return ThreadClock{}, fmt.Errorf("field %d is no number: %.40q", field, word)
			}
			if field == 22 {
				c.StartTicks = n
				break
			}
			ticks += n
		}
		field++
	}
	if field != 22 {
		return ThreadClock{}, fmt.Errorf("too few fields: %.80q", text)
	}
	if ticks > math.MaxInt64/uint64(time.Second/UserHZ) {
		return ThreadClock{}, fmt.Errorf("%d ticks are more than a thread can have used", ticks)
	}
	c.Time = time.Duration(ticks) * (time.Second / UserHZ)
	return c, nil
}
