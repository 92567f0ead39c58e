// Package program starts what benchmarks measure, and ends it.
package program

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"tare.dev/tare/internal/deathsig"
)

// Program is a program that runs until Stop, or until this process ends.
type Program struct {
	*exec.Cmd
	// Ready is what the first group of the pattern matched, or all that did.
	Ready string
}

// StartTimeout bounds how long a program may take until it is ready.
const StartTimeout = 2 * time.Minute

// Start starts a program and waits until a line of its output matches ready.
func Start(ready *regexp.Regexp, name string, args ...string) (*Program, error) {
	p := &Program{Cmd: exec.Command(name, args...)}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := deathsig.Start(p.Cmd, syscall.SIGKILL); err != nil {
		return nil, err
	}
	late := time.AfterFunc(StartTimeout, func() { _ = p.Process.Kill() })
	p.Ready, err = await(out, ready)
	if !late.Stop() || err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s was not ready within %s, or ended before: %w", filepath.Base(name), StartTimeout, err)
	}
	return p, nil
}

// await reads the output up to the line that says that the program is ready,
// and throws the rest away.
func await(out io.Reader, ready *regexp.Regexp) (string, error) {
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if m := ready.FindStringSubmatch(sc.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return m[len(m)-1], nil
		}
	}
	return "", io.ErrUnexpectedEOF
}

// Stop ends the program.
func (p *Program) Stop() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// PID is the program's process id.
func (p *Program) PID() int { return p.Process.Pid }

// Filler starts the memory filler of workloads.jar.
func Filler(java string, options []string, threads, heapKB, frames int) (*Program, error) {
	args := append(append([]string{}, options...), "-jar", "bin/workloads.jar", "memory-filler",
		strconv.Itoa(threads), strconv.Itoa(heapKB), strconv.Itoa(frames))
	return Start(regexp.MustCompile("^ready$"), java, args...)
}
