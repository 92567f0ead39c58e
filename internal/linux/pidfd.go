package linux

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// Exit is how a process ended.
type Exit struct {
	// Code is what it exited with; 0 when Signal is set.
	Code int
	// Signal ended it; 0 when it exited by itself.
	Signal int
	// Core says that the kernel dumped its memory.
	Core bool
}

// waitStatus takes the kernel's form of an exit, as in wait(2).
func waitStatus(status int) Exit {
	if signal := status & 0x7f; signal != 0 {
		return Exit{Signal: signal, Core: status&0x80 != 0}
	}
	return Exit{Code: status >> 8 & 0xff}
}

// pidfdOpen is the number of pidfd_open(2), the same on all architectures.
const pidfdOpen = 434

// PidFD opens a descriptor of a process (pidfd_open(2), Linux 5.3), which poll(2)
// finds readable when the process has ended.
func PidFD(pid int) (int, error) {
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("pidfd of process %d: %w", pid, errno)
	}
	return int(fd), nil
}

// errNoExit says that the kernel no longer, or never, told how a process ended.
var errNoExit = errors.New("how it ended is not told")

// ExitOf tells how a process ended. While its parent has not waited for it /proc
// tells (proc_pid_stat(5), field 52, to those who may trace it); after that the
// descriptor does, since Linux 6.15 (PIDFD_GET_INFO).
func (fs FS) ExitOf(pid, pidfd int, birth Birth) (Exit, error) {
	for range 2 { // the parent may wait for it in between
		if e, err := open(fs, pid, "stat", func(r io.Reader) (Exit, error) { return parseExit(r, birth) }); err == nil {
			return e, nil
		}
		if e, err := exitInfo(pidfd); err == nil {
			return e, nil
		}
	}
	return Exit{}, errNoExit
}

// parseExit reads the exit of a process that waits for its parent.
func parseExit(r io.Reader, birth Birth) (Exit, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil {
		return Exit{}, err
	}
	now, err := parseBirth(strings.NewReader(string(text)))
	if err != nil || !now.Ended || now.StartTicks != birth.StartTicks {
		return Exit{}, errors.Join(errNoExit, err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 50 {
		return Exit{}, fmt.Errorf("too few fields: %.80q", text)
	}
	status, err := strconv.Atoi(fields[49])
	if err != nil {
		return Exit{}, fmt.Errorf("bad exit code %q", fields[49])
	}
	return waitStatus(status), nil
}

const (
	// pidfdGetInfo is _IOWR(0xff, 11, struct pidfd_info) with the first version of
	// the struct (include/uapi/linux/pidfd.h).
	pidfdGetInfo = 0xc040ff0b
	// pidfdInfoExit is PIDFD_INFO_EXIT.
	pidfdInfoExit = 1 << 3
)

// pidfdInfo is struct pidfd_info.
type pidfdInfo struct {
	mask, cgroup uint64
	ids          [11]uint32
	exitCode     int32
}

func exitInfo(pidfd int) (Exit, error) {
	info := pidfdInfo{mask: pidfdInfoExit}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info))); errno != 0 {
		return Exit{}, errno
	}
	if info.mask&pidfdInfoExit == 0 {
		return Exit{}, errNoExit
	}
	return waitStatus(int(info.exitCode)), nil
}
