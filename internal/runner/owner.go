package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/linux"
)

// owner is the process that made a group. A PID comes back, but not with the
// same start time; both hold in one PID namespace only.
type owner struct {
	pidns uint64 // inode number of the PID namespace
	pid   int
	start uint64 // clock ticks since boot
}

// thisProcess is the owner of what is made here.
func thisProcess(proc linux.FS) (owner, error) {
	link := proc.Path(os.Getpid(), "ns", "pid")
	text, err := os.Readlink(link)
	if err != nil {
		return owner{}, err
	}
	o := owner{pid: os.Getpid()}
	if _, err := fmt.Sscanf(text, "pid:[%d]", &o.pidns); err != nil {
		return owner{}, fmt.Errorf("%s: want pid:[number]: %q", link, text)
	}
	birth, err := proc.Birth(o.pid)
	o.start = birth.StartTicks
	return o, err
}

// groupName is the name of the owner's group number seq.
func (o owner) groupName(seq uint64) string {
	return fmt.Sprintf("tare-%d-%d-%d-%d", o.pidns, o.pid, o.start, seq)
}

// leafName is the name of the group that the owner itself moves to.
func (o owner) leafName() string {
	return fmt.Sprintf("tare-self-%d-%d-%d", o.pidns, o.pid, o.start)
}

// ownedName matches names that groupName or leafName make, numbers without
// leading zeroes included.
var ownedName = lazy.Regexp(`^tare-(self-)?(0|[1-9]\d*)-([1-9]\d*)-(0|[1-9]\d*)(-(?:0|[1-9]\d*))?$`)

// ownerOf reads the owner from the name of a group or leaf.
func ownerOf(name string) (owner, bool) {
	m := ownedName().FindStringSubmatch(name)
	if m == nil || (m[1] == "") == (m[5] == "") {
		return owner{}, false
	}
	pidns, err1 := strconv.ParseUint(m[2], 10, 64)
	pid, err2 := strconv.ParseInt(m[3], 10, 32)
	start, err3 := strconv.ParseUint(m[4], 10, 64)
	return owner{pidns, int(pid), start}, err1 == nil && err2 == nil && err3 == nil
}

// gone says for sure that the owner has ended, as seen by an owner that lives.
// Of another PID namespace the PID tells nothing here.
func (o owner) gone(proc linux.FS, here owner) bool {
	if o.pidns != here.pidns {
		return false
	}
	birth, err := proc.Birth(o.pid)
	if err != nil {
		// /proc may hide other users' processes (hidepid).
		return errors.Is(syscall.Kill(o.pid, 0), syscall.ESRCH)
	}
	return birth.StartTicks != o.start || birth.Ended
}
