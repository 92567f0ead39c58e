package process

import (
	"fmt"
	"os"

	"tare.dev/tare/internal/linux"
)

// AccessError says that the kernel does not let tare read a part of a process
// (ptrace(2), "Ptrace access mode checking"). It wraps ErrNoPermission.
type AccessError struct {
	PID  int
	Name string
	UID  int    // the user id of the process
	Self int    // the user id of tare
	What string // the part, such as "mappings"
	// Ptrace says that tare has CAP_SYS_PTRACE already.
	Ptrace bool
}

// Closed is the AccessError for a part of the process, such as "mappings".
func (t *Target) Closed(what string) error {
	self, err := linux.NewFS("/proc").Status(os.Getpid())
	return &AccessError{PID: t.PID, Name: t.Status.Name, UID: t.Status.UID, Self: os.Geteuid(), What: what, Ptrace: err == nil && self.Has(linux.CapSysPtrace)}
}

// Error says which part of which process is closed to whom.
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

// Remedy says, in one line, how tare would be allowed to read it.
func (e *AccessError) Remedy() string {
	capability := "give tare CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
	if e.Ptrace { // and yet the kernel does not open the file: it looks at its owner first
		capability = "give tare CAP_DAC_READ_SEARCH (docker run --cap-add DAC_READ_SEARCH)"
	}
	switch {
	case e.Self == 0 && e.UID != 0:
		return fmt.Sprintf("%s, or run it as uid %d", capability, e.UID)
	case e.UID == e.Self:
		return capability
	}
	return fmt.Sprintf("run tare as root or as uid %d, or %s", e.UID, capability)
}

// MemoryLock says, in one line, why tare may read the mappings of a process but not
// its memory, and how it would be allowed to.
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
