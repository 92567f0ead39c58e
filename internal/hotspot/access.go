package hotspot

import (
	"fmt"
	"os"

	"tare/internal/linux"
)

// AccessError says what of a process the kernel does not let this one read
// (ptrace(2), "Ptrace access mode checking"). It is an ErrNoPermission.
type AccessError struct {
	PID  int
	Name string
	UID  int    // the process's
	Self int    // ours
	What string // such as "mappings"
}

// Closed is the error for a part of the process that may not be read.
func (t *Target) Closed(what string) error {
	return &AccessError{PID: t.PID, Name: t.Status.Name, UID: t.Status.UID, Self: os.Geteuid(), What: what}
}

// Error says who may not read what.
func (e *AccessError) Error() string {
	if e.UID == e.Self {
		return fmt.Sprintf("%v to read the %s of process %d (%s), although it has the same uid %d: it is not dumpable, or has capabilities that tare lacks",
			ErrNoPermission, e.What, e.PID, e.Name, e.UID)
	}
	return fmt.Sprintf("%v to read the %s of process %d (%s): it belongs to uid %d, tare runs as uid %d",
		ErrNoPermission, e.What, e.PID, e.Name, e.UID, e.Self)
}

// Unwrap is ErrNoPermission.
func (e *AccessError) Unwrap() error { return ErrNoPermission }

// Remedy says what would open it.
func (e *AccessError) Remedy() string {
	const capability = "give tare CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
	switch {
	case e.Self == 0 && e.UID != 0:
		return fmt.Sprintf("%s, or run it as uid %d", capability, e.UID)
	case e.UID == e.Self:
		return capability
	}
	return fmt.Sprintf("run tare as root or as uid %d, or %s", e.UID, capability)
}

// MemoryLock says why the memory of a process may not be read although its
// mappings may, and what would open it, in one line.
func MemoryLock() string {
	switch scope, err := linux.YamaScope("/proc"); {
	case err != nil || scope == 0:
		return "a security module of the kernel closes it; to open it, run tare as root with CAP_SYS_PTRACE"
	case scope >= 3:
		return fmt.Sprintf("Yama's kernel.yama.ptrace_scope is %d, which closes it to everyone until the next boot", scope)
	default:
		return fmt.Sprintf("Yama's kernel.yama.ptrace_scope is %d; to open it, run tare as root or with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)", scope)
	}
}
