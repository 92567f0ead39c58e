package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/deathsig"
)

const (
	maxSummaryLine = 4 << 10
	maxSummary     = int64(1e15) // requests
	outputDelay    = 2 * time.Second
)

// RunCommand puts load with an external generator: args is the program and its
// arguments, env its environment (nil: this process's), stdout and stderr take
// its output (nil: discarded).
//
// The whole run counts as one request, which failed when the exit status is
// not 0. A generator can say more: when its last line on stdout is
//
//	{"requests":1000,"failed":3,"p50Millis":1.5,"p99Millis":20}
//
// these are the counts and quantiles. Only "requests" must be there; a line
// with it and with anything but these four is an error. An exit status that is
// not 0 then still counts as one failed request more. Latency is as the
// generator measured it, so Mean and the others stay 0.
//
// The generator runs in a process group of its own, all of which is killed when
// ctx ends, or when the generator itself has ended; the error is then that of
// ctx. The generator is killed as well when this process dies.
func RunCommand(ctx context.Context, args, env []string, stdout, stderr io.Writer) (Result, error) {
	if len(args) == 0 {
		return Result{}, errors.New("load command is empty: name a program")
	}
	last := &lastLine{}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = last, stderr
	if stdout != nil {
		cmd.Stdout = io.MultiWriter(last, stdout)
	}
	cmd.WaitDelay = outputDelay // a process that left the group may hold the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	start := time.Now()
	err := runGroup(ctx, cmd)
	elapsed := time.Since(start)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("load command %s stopped before its end: %w", args[0], context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return Result{}, fmt.Errorf("load command %s: %w: check its name and its permissions", args[0], err)
	}
	result, err := parseSummary(last.line())
	if err != nil {
		return Result{}, fmt.Errorf("load command %s: last line of its output: %w", args[0], err)
	}
	return result.withExit(exit, elapsed), nil
}

// runGroup runs cmd, and kills what is left of its process group once the
// command has ended, or when ctx ends.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := deathsig.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // ESRCH: nothing is left
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		kill()
	})
	if awaitExit(cmd.Process.Pid) == nil {
		kill() // not reaped yet, so the number of the group cannot be another's
	}
	if !stop() {
		<-killed
	}
	if err := cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// awaitExit waits for the child to end and leaves it to be reaped.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// withExit adds what the exit status says.
func (r Result) withExit(exit *exec.ExitError, elapsed time.Duration) Result {
	r.Elapsed = elapsed
	summarized := r.Errors != nil
	if !summarized {
		r.Errors = make(map[string]int64)
	}
	switch {
	case exit != nil:
		r.Sent++
		r.Failed++
		r.Errors[exit.ProcessState.String()]++ // "exit status 3", "signal: killed"
	case !summarized:
		r.Sent++
		r.OK++
	}
	r.Due = r.Sent
	return r
}

// parseSummary reads the generator's last line. A line that is no JSON object
// with "requests" is no summary: the result is zero, with nil Errors.
func parseSummary(line []byte) (Result, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || fields["requests"] == nil {
		return Result{}, nil
	}
	r := Result{Errors: make(map[string]int64)}
	for name, raw := range fields {
		var err error
		switch name {
		case "requests":
			r.Sent, err = parseCount(raw)
		case "failed":
			r.Failed, err = parseCount(raw)
		case "p50Millis":
			r.Latency.P50, err = parseMillis(raw)
		case "p99Millis":
			r.Latency.P99, err = parseMillis(raw)
		default:
			err = errors.New("unknown: print only requests, failed, p50Millis and p99Millis")
		}
		if err != nil {
			return Result{}, fmt.Errorf("%.40q: %w", name, err)
		}
	}
	if r.Failed > r.Sent {
		return Result{}, fmt.Errorf("failed %d of %d requests: count each failed one as a request", r.Failed, r.Sent)
	}
	if r.Failed > 0 {
		r.Errors[otherKind] = r.Failed
	}
	r.OK = r.Sent - r.Failed
	r.Due = r.Sent
	return r, nil
}

func parseCount(raw json.RawMessage) (int64, error) {
	n, err := parseDigits(raw)
	if err != nil || n > maxSummary {
		return 0, fmt.Errorf("%.40q is not a count: print an integer from 0 to %d", raw, maxSummary)
	}
	return n, nil
}

func parseMillis(raw json.RawMessage) (time.Duration, error) {
	var ms float64
	limit := float64(24 * time.Hour / time.Millisecond)
	if strings.TrimSpace(string(raw)) == "null" || json.Unmarshal(raw, &ms) != nil || !(ms >= 0 && ms <= limit) {
		return 0, fmt.Errorf("%.40q is not a time: print milliseconds from 0 to a day", raw)
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))), nil
}

// lastLine keeps the last line with text of what is written to it, if it is
// not longer than maxSummaryLine.
type lastLine struct {
	current, complete []byte
	long              bool // current is beyond the maximum
}

func (l *lastLine) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(l.current)+len(part) > maxSummaryLine {
			l.long, l.current = true, l.current[:0]
		} else if !l.long {
			l.current = append(l.current, part...)
		}
		if ended {
			l.endLine()
		}
	}
	return len(p), nil
}

func (l *lastLine) endLine() {
	if l.long || len(bytes.TrimSpace(l.current)) > 0 {
		l.complete = append(l.complete[:0], l.current...)
	}
	l.current, l.long = l.current[:0], false
}

// line is the last line, at the end of all writing.
func (l *lastLine) line() []byte {
	l.endLine()
	return bytes.TrimSpace(l.complete)
}
