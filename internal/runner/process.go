package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"tare.dev/tare/internal/linux"
)

const (
	// drainTime is how long the end of a process waits for output that a
	// grandchild holds open.
	drainTime = time.Second
	// killTime is how long killed processes and their groups may take to
	// vanish. A process that the kernel has in hand cannot be ended sooner.
	killTime = 15 * time.Second
)

// group is a control group, in one or several hierarchies.
type group interface {
	entrance
	usage() (Usage, error)
	setMemoryLimit(bytes int64) error
	// dirs are its directories.
	dirs() []string
	// kill kills what is in it.
	kill() error
	// release lets go of what says that the group has an owner.
	release()
}

// process is a process in a group.
type process struct {
	jvm
	cmd    *exec.Cmd
	began  time.Time
	output *output
	ended  chan struct{} // the process has been waited for
	done   chan struct{} // and its output has been copied
	exit   Exit
	age    time.Duration // at its end

	mu     sync.Mutex // guards the group
	group  group
	peak   int64
	closed bool
}

// start starts the process of a spec in the group. On error the group is as
// it was.
func start(spec Spec, g group) (*process, error) {
	cmd, err := command(spec)
	if err != nil {
		return nil, err
	}
	out, err := connect(cmd, spec.Stdout, spec.Stderr)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, began: time.Now(), output: out, group: g, ended: make(chan struct{}), done: make(chan struct{})}
	if err := spawn(cmd, g, spec.NoHugePages, p.ended); err != nil {
		out.close()
		return nil, err
	}
	p.jvm.pid, p.jvm.proc, p.jvm.dirs = cmd.Process.Pid, linux.NewFS("/proc"), g.dirs()
	out.started()
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	p.exit, p.age = exitOf(p.cmd.ProcessState, err), time.Since(p.began)
	close(p.ended)
	p.drain()
	close(p.done)
}

// drain waits for the rest of the output. It gives up early only on what a
// grandchild in the group may still print: without one the end is near, but a
// process that is being started elsewhere may hold it up until its exec.
func (p *process) drain() {
	if p.output.wait(drainTime) {
		return
	}
	if pids, err := processesBelow(p.group.dirs()); err != nil || len(pids) == 0 {
		p.output.wait(killTime)
	}
}

func exitOf(state *os.ProcessState, err error) Exit {
	if state == nil {
		return Exit{Code: -1}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// ageNow is Usage.Age.
func (p *process) ageNow() time.Duration {
	select {
	case <-p.ended:
		return p.age
	default:
		return time.Since(p.began)
	}
}

func (p *process) Usage(ctx context.Context) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Usage{}, fmt.Errorf("usage of process %d: its group: %w", p.pid, os.ErrClosed)
	}
	u, err := p.group.usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", p.pid, err)
	}
	p.peak = max(p.peak, u.UsageBytes, u.PeakBytes)
	u.PeakBytes, u.Age = p.peak, p.ageNow()
	return u, nil
}

func (p *process) Times(ctx context.Context) (Times, error) {
	living := true
	select {
	case <-p.ended: // its id may be another's
		living = false
	default:
	}
	return p.threads.of(ctx, p.proc, p.worker(), living, p.Usage)
}

func (p *process) SetMemoryLimit(ctx context.Context, bytes int64) error {
	if err := cmp.Or(ctx.Err(), checkMemory(bytes)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("memory limit of process %d: its group: %w", p.pid, os.ErrClosed)
	}
	return p.group.setMemoryLimit(bytes)
}

// Stop also kills what the process leaves behind in its group when SIGTERM was
// enough for itself.
func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	grace = p.endFirst(ctx, grace)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", p.pid, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.kill(); err != nil {
		return fmt.Errorf("stop process %d: %w", p.pid, err)
	}
	<-p.done
	return nil
}

// kill kills the whole group, and returns when nothing is left in it and the
// process has been waited for.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if err := p.group.kill(); err != nil {
		return err
	}
	// The process may have left the group, which only root can do.
	p.cmd.Process.Kill()
	<-p.ended
	return nil
}

func (p *process) Close() error {
	err := p.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if err == nil {
		giveBackCache(p.group.dirs())
		err = removeTrees(p.group.dirs(), killTime)
	}
	if err != nil {
		// Not closed: a later call may have more luck.
		return fmt.Errorf("remove the group of process %d: %w", p.pid, err)
	}
	p.closed = true
	p.group.release()
	p.jvm.forget()
	if !p.output.wait(killTime) {
		p.output.close()
	}
	<-p.done
	return nil
}
