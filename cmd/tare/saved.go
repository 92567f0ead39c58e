package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
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

// inLedger opens the ledger in a folder, and finds the JVM in it that a name means. It
// has a footprint.
func inLedger(dir, name string) (*ledger.Reader, ledger.Process, error) {
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return nil, ledger.Process{}, ledgerReadError(err)
	}
	all, _, err := r.Processes()
	if err != nil {
		return nil, ledger.Process{}, ledgerReadError(err)
	}
	p, found := autopsy.Choose(all, name)
	if !found {
		return nil, p.Process, &exitError{exitTarget, fmt.Errorf("the ledger %s has no JVM %.100q\nlist what ended with: tare autopsy --since 24h --ledger %s; what lives with: tare weigh --list", dir, name, dir)}
	}
	if _, err := r.At(p.Process, p.Last); err != nil {
		return nil, p.Process, footprintError(p.Process, err)
	}
	return r, p.Process, nil
}

// footprintError adds the next step where a ledger has no footprint of a JVM.
func footprintError(p ledger.Process, err error) error {
	if !errors.Is(err, ledger.ErrNoFootprint) {
		return ledgerReadError(err)
	}
	return &exitError{exitTarget, fmt.Errorf("the ledger has %w of process %d (%s) by then\na JVM is weighed first when it is 3 s old, and the oldest footprints of a full ledger are gone", err, p.ID.PID, linux.Printable(p.Name))}
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
