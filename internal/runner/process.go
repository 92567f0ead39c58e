package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
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
}

// process is a process in a group.
type process struct {
	cmd    *exec.Cmd
	output *output
	ended  chan struct{} // the process has been waited for
	done   chan struct{} // and its output has been copied
	exit   Exit

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
	p := &process{cmd: cmd, output: out, group: g, ended: make(chan struct{}), done: make(chan struct{})}
	if err := spawn(cmd, g, p.ended); err != nil {
		out.close()
		return nil, err
	}
	out.started()
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	p.exit = exitOf(p.cmd.ProcessState, err)
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

func (p *process) PID() int { return p.cmd.Process.Pid }

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

func (p *process) Usage() (Usage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Usage{}, fmt.Errorf("usage of process %d: its group: %w", p.PID(), os.ErrClosed)
	}
	u, err := p.group.usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", p.PID(), err)
	}
	p.peak = max(p.peak, u.UsageBytes, u.PeakBytes)
	u.PeakBytes = p.peak
	return u, nil
}

func (p *process) SetMemoryLimit(bytes int64) error {
	if err := checkMemory(bytes); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("memory limit of process %d: its group: %w", p.PID(), os.ErrClosed)
	}
	return p.group.setMemoryLimit(bytes)
}

// Stop also kills what the process leaves behind in its group when SIGTERM was
// enough for itself.
func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", p.PID(), err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.kill(); err != nil {
		return fmt.Errorf("stop process %d: %w", p.PID(), err)
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
	if err := killTree(p.group.dirs(), killTime); err != nil {
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
		err = removeTrees(p.group.dirs(), killTime)
	}
	if err != nil {
		// Not closed: a later call may have more luck.
		return fmt.Errorf("remove the group of process %d: %w", p.PID(), err)
	}
	p.closed = true
	if !p.output.wait(killTime) {
		p.output.close()
	}
	<-p.done
	return nil
}
