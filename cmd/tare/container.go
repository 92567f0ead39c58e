package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// container is the flag --container of the commands that look at a JVM.
type container string

func (c *container) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(c), "container", "", "the JVM of this Docker `container` (name or id); with several, name one as well")
}

// enough says whether n arguments name one JVM: one does, none with a container.
func (c container) enough(n int) bool { return n == 1 || n == 0 && c != "" }

// resolve finds the JVM that a user names: of the container if one is given,
// else on the whole machine. Of a container, no name is the only JVM.
func (c container) resolve(ctx context.Context, proc linux.FS, args []string) (*process.Target, error) {
	if c == "" {
		t, err := process.Resolve(proc, args[0])
		return t, targetError(err)
	}
	engine, err := docker.NewEngine("")
	if err != nil {
		return nil, containerError(err)
	}
	all, err := engine.JVMs(ctx, proc, string(c))
	if err != nil {
		return nil, containerError(err)
	}
	if len(args) > 0 {
		t, err := process.Choose(all, args[0])
		if err != nil {
			err = &exitError{exitTarget, fmt.Errorf("container %.100q: %w\n%s", string(c), err, listOf(all))}
		}
		return t, err
	}
	if len(all) > 1 {
		return nil, &exitError{exitTarget, fmt.Errorf("container %.100q has %d JVMs: name one after it\n%s", string(c), len(all), listOf(all))}
	}
	return all[0], nil
}

// listOf is the JVMs of a container on one line.
func listOf(all []*process.Target) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = fmt.Sprintf("%d (%s)", t.PID, t.Name)
	}
	return "its JVMs: " + strings.Join(names, ", ")
}

// containerError adds the next step and the exit code to an error of finding a
// container's JVM.
func containerError(err error) error {
	with := func(code int, next string) error { return &exitError{code, fmt.Errorf("%w\n%s", err, next)} }
	var closed *process.AccessError
	switch {
	case errors.As(err, &closed):
		return targetError(err)
	case errors.Is(err, process.ErrNoPermission):
		return with(exitPermission, "run tare as root, or as a member of the group docker")
	case errors.Is(err, docker.ErrNoEngine):
		return with(exitTarget, "say where it listens: DOCKER_HOST=unix:///path/to/docker.sock")
	case errors.Is(err, docker.ErrNoImage):
		return with(exitTarget, "build or pull it first; list the images with: docker images")
	case errors.Is(err, docker.ErrNoContainer), errors.Is(err, docker.ErrNotRunning):
		return with(exitTarget, "list the containers with: docker ps")
	case errors.Is(err, process.ErrNotJVM):
		return with(exitTarget, "list the JVMs on this machine with: tare weigh --list")
	case errors.Is(err, docker.ErrElsewhere):
		return &exitError{exitTarget, err}
	}
	return err
}
