package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"time"
)

// The neighbour of noisy cells is a process of its own that takes half a processor for
// noisyTime, and nothing for the next noisyTime. It is longer than a start and shorter
// than a trial, so that trials have differing shares of it.
const (
	noisyTime  = 7 * time.Second
	noisySlice = 10 * time.Millisecond // of each, half is taken
)

// neighbourCommand is the argument with which the program is the neighbour.
const neighbourCommand = "neighbour"

// beNeighbour runs until its starter has gone.
func beNeighbour() {
	parent := os.Getppid()
	for begin := time.Now(); os.Getppid() == parent; {
		if time.Since(begin)/noisyTime%2 == 1 {
			time.Sleep(noisyTime / 20)
			continue
		}
		for slice := time.Now(); time.Since(slice) < noisySlice/2; {
		}
		time.Sleep(noisySlice / 2)
	}
}

// startNeighbour starts it; the function returned ends it.
func startNeighbour(ctx context.Context) (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, neighbourCommand)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}, nil
}

func isNeighbour() bool { return flag.Arg(0) == neighbourCommand }
