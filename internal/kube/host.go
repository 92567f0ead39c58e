package kube

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"tare.dev/tare/internal/runner"
)

// Machine is the node of the trials; it is known from the first process on.
func (r *Runner) Machine(context.Context) (runner.Machine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machine == nil {
		return runner.Machine{}, errNoNode
	}
	return *r.machine, nil
}

// Available is of the node, and as old as what Machine says.
func (r *Runner) Available(context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machine == nil {
		return 0, errNoNode
	}
	return r.available, nil
}

var (
	errNoNode = errors.New("the node is not known before the first pod")
	errInPod  = errors.New("in a cluster there is no machine to ask before a pod is there")
)

// Busy is asked by the agent, in each trial.
func (r *Runner) Busy(context.Context) (runner.Busy, error) { return runner.Busy{}, errInPod }

// Pace is asked by the agent, in each trial.
func (r *Runner) Pace(context.Context) (time.Duration, error) { return 0, errInPod }

// FreePorts are of no use: each pod has its own.
func (r *Runner) FreePorts(context.Context, int) ([]int, error) { return nil, errInPod }

// Listening is nobody: each pod has a network of its own.
func (r *Runner) Listening(context.Context, string) (string, error) { return "", nil }

// FindJava is not known before a pod is there.
func (r *Runner) FindJava(context.Context, string) (runner.Java, error) {
	return runner.Java{}, errInPod
}

// File describes a file in the folder of archives, and of the application's jar whether it
// holds jars; others are not known before a pod is there.
func (r *Runner) File(ctx context.Context, name string) (runner.File, error) {
	if r.Has(name) {
		return runner.ThisHost().File(ctx, name)
	}
	if nested, _ := r.isNested(name); nested {
		return runner.File{NestedJars: true}, nil
	}
	return runner.File{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ClassPath knows the names alone: what an image holds is not known before a pod is there.
func (r *Runner) ClassPath(_ context.Context, q runner.ClassPathQuery) (runner.ClassPath, error) {
	return runner.ClassPath{Files: q.Paths}, nil
}

// Flush has nothing to do.
func (r *Runner) Flush(context.Context, string) error { return nil }

// Remove has nothing to remove.
func (r *Runner) Remove(context.Context, string) error { return nil }
