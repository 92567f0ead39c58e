package runjava

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxOutput bounds what a program may tell: more than fits an environment.
const maxOutput = 4 << 20

// Process is a program to run and listen to.
type Process struct {
	// Path is the program's file, Args its command line.
	Path string
	Args []string
	Env  []string
	Dir  string
	// FD is the descriptor that is listened to: 1, or 3. The others up to 2 are
	// those of the caller.
	FD int
}

// Start runs a program to its end and returns what it wrote and its exit status,
// 128 and the signal's number when one killed it. An error means that it was not
// run, or wrote more than is taken.
func Start(p Process) (output []byte, status int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, nil}
	files[p.FD] = w
	process, err := os.StartProcess(p.Path, p.Args, &os.ProcAttr{Dir: p.Dir, Env: p.Env, Files: files})
	w.Close()
	if err != nil {
		return nil, 0, err
	}
	output, err = io.ReadAll(io.LimitReader(r, maxOutput+1))
	if err == nil && len(output) > maxOutput {
		err = fmt.Errorf("it wrote more than %d bytes: check what it prints", maxOutput)
	}
	if err != nil {
		process.Kill() // it has ended already, or shall
	}
	state, waitErr := process.Wait()
	if err == nil {
		err = waitErr
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", p.Path, err)
	}
	return output, exitStatus(state), nil
}

// exitStatus is the status as a shell counts it.
func exitStatus(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
