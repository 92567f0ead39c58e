package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"tare.dev/tare/internal/testkit/program"
	"tare.dev/tare/internal/testkit/pty"
	"tare.dev/tare/internal/testkit/results"
)

const (
	watchRepeats = 3
	watchGoal    = 1.0 // percent of a processor
)

// mode is a way to run tare watch.
type mode struct {
	name     string
	terminal bool
	record   bool
}

var modes = []mode{
	{name: "lines"},
	{name: "live view", terminal: true},
	{name: "lines and a record", record: true},
	{name: "live view and a record", terminal: true, record: true},
}

// watches measures the processor time of tare watch at one weighing a second.
func watches(opts options) (string, error) {
	p, err := program.Filler(filepath.Join(opts.home("17"), "bin", "java"), []string{"-Xmx128m"}, 100, 100, 100)
	if err != nil {
		return "", err
	}
	defer p.Stop()
	var b strings.Builder
	fmt.Fprintf(&b, "## tare watch\n\nProcessor time of `tare watch --interval 1s --count %d` (user and system, its start included) by its duration, in percent of\n"+
		"one processor; an idle memory filler with 100 threads, JDK 17. Median (minimum … maximum) of %d, in turn.\n\n"+
		"| mode | %% of a processor | goal 1 %% |\n|---|---|---|\n", opts.watched, watchRepeats)
	shares := make([][]float64, len(modes))
	for range watchRepeats {
		for i, m := range modes {
			share, err := m.share(p.PID(), opts.watched)
			if err != nil {
				return "", fmt.Errorf("%s: %w", m.name, err)
			}
			shares[i] = append(shares[i], share)
		}
	}
	for i, m := range modes {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.name, results.Spread(shares[i], "%.2f"), results.Reached(results.Median(shares[i]) <= watchGoal))
	}
	b.WriteString("\n")
	return b.String(), nil
}

// share runs tare watch for some seconds, and returns its processor time in
// percent of them.
func (m mode) share(pid, seconds int) (float64, error) {
	args := []string{"watch", strconv.Itoa(pid), "--interval", "1s", "--count", strconv.Itoa(seconds)}
	if m.record {
		dir, err := os.MkdirTemp("", "tare-bench")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		args = append(args, "--record", filepath.Join(dir, "record.jsonl"))
	}
	cmd := exec.Command("bin/tare", args...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.Stdout = io.Discard
	if m.terminal {
		master, slave, err := pty.Open(100, 30)
		if err != nil {
			return 0, err
		}
		defer master.Close()
		defer slave.Close()
		go func() { _, _ = io.Copy(io.Discard, master) }()
		cmd.Stdin, cmd.Stdout = slave, slave
	}
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return 100 * used.Seconds() / float64(seconds), nil
}
