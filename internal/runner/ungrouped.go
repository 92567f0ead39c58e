package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ungrouped runs processes of this machine in no control group of their own, for who may
// make none. Nothing is limited, and Usage tells only processor time, that of the process
// itself until it has ended. What the process leaves behind ends with it where it stays in
// its process group.
type Ungrouped struct{ thisHost }

var _ Runner = (*Ungrouped)(nil)

// Name is "no control group".
func (*Ungrouped) Name() string { return "no control group" }

// Start starts the process of the spec. With limits the error wraps ErrUnavailable.
func (*Ungrouped) Start(ctx context.Context, spec Spec) (Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.Limits != (Limits{}) {
		return nil, errUnlimited
	}
	spec.Cold.drop()
	g := &noGroup{}
	p, err := start(spec, g)
	if err != nil {
		return nil, err
	}
	g.process = p
	return p, nil
}

// Sweep finds nothing: a process ends with the one that started it, and leaves no group.
func (*Ungrouped) Sweep(context.Context) ([]string, error) { return nil, nil }

var errUnlimited = unavailable(errors.New("without a control group nothing can be limited"), writeRemedy)

// noGroup stands for the group of a process that has none of its own.
type noGroup struct{ process *process }

func (*noGroup) enter(*exec.Cmd) error { return nil }
func (*noGroup) leave() error          { return nil }
func (*noGroup) dirs() []string        { return nil }
func (*noGroup) release()              {}

func (*noGroup) setMemoryLimit(bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return errUnlimited
}

// usage reads the clock of the process (clock_getcpuclockid(3)), or what it used when it
// was waited for.
func (g *noGroup) usage() (Usage, error) {
	u := Usage{Time: time.Now()}
	const sched = 2 // CPUCLOCK_SCHED: user and system time
	var t unix.Timespec
	err := unix.ClockGettime(int32(^g.process.pid<<3|sched), &t)
	u.CPUTime = time.Duration(t.Nano())
	select {
	case <-g.process.ended:
		state := g.process.cmd.ProcessState
		u.CPUTime = state.UserTime() + state.SystemTime()
	default:
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ESRCH) { // it ends just now
			return u, fmt.Errorf("processor time: %w", err)
		}
	}
	return u, nil
}

// kill kills the process group, whose number is the process's: it begins a session. The
// number is no other's while one of the group is there.
func (g *noGroup) kill() error {
	if err := syscall.Kill(-g.process.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}
