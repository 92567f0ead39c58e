// Package neighbour disturbs measurements as another tenant of a machine does: by a process
// of its own that takes half a processor for half of the time.
package neighbour

import (
	"context"
	"os"
	"os/exec"
	"time"
)

const (
	// turn is for how long it takes half a processor, and then nothing. It is longer than a
	// start and shorter than a trial of a fit, so that trials have differing shares of it.
	turn  = 7 * time.Second
	slice = 10 * time.Millisecond // of each, half is taken

	// command is the argument with which a program is the neighbour.
	command = "neighbour"
)

// Main is the neighbour, until its starter has gone, where this process was started by
// Start; else it returns false. A program that calls Start calls it first.
func Main() bool {
	if len(os.Args) != 2 || os.Args[1] != command {
		return false
	}
	parent := os.Getppid()
	for begin := time.Now(); os.Getppid() == parent; {
		if time.Since(begin)/turn%2 == 1 {
			time.Sleep(turn / 20)
			continue
		}
		for begin := time.Now(); time.Since(begin) < slice/2; {
		}
		time.Sleep(slice / 2)
	}
	return true
}

// Start starts this program once more, as the neighbour; end ends it.
func Start(ctx context.Context) (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, command)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}, nil
}
