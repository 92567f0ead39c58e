package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

// footprintOf weighs a running JVM, or reads a saved footprint.
func footprintOf(ctx context.Context, stdin io.Reader, c container, args ...string) (*footprint.Footprint, error) {
	if c == "" && isSaved(args[0]) {
		f, err := savedFootprint(stdin, args[0])
		if err != nil {
			return nil, &exitError{exitTarget, fmt.Errorf("%w\nsave a footprint with: tare weigh PID --json > footprint.json", err)}
		}
		return f, nil
	}
	defer letGarbageLie(weighGC)()
	proc := linux.NewFS("/proc")
	target, err := c.resolve(ctx, proc, args)
	if err != nil {
		return nil, err
	}
	f, err := footprint.WeighTarget(ctx, target, footprint.Options{Proc: proc})
	if err != nil {
		return nil, targetError(err)
	}
	return f, nil
}

// isSaved says that a name is that of a saved footprint or a record. Only its
// form tells: a file that is named like a JVM may lie in the working directory.
func isSaved(name string) bool {
	return name == "-" || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonl") || strings.HasPrefix(name, "/dev/fd/")
}

// savedFootprint reads the file name, or standard input for "-".
func savedFootprint(stdin io.Reader, name string) (*footprint.Footprint, error) {
	if name == "-" {
		f, err := footprint.Read(stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return f, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := footprint.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
