package jvmtest

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/polltest"
)

// Holder is a JVM that takes memory as it is told, and knows how much.
type Holder struct {
	*Process
	in    io.WriteCloser
	steps int
}

// StartHolder starts the holder of workloads.jar, and waits until its threads
// stand.
func StartHolder(t testing.TB, java string, options []string, threads int) *Holder {
	t.Helper()
	return StartHolderFrom(t, "", java, options, threads)
}

// StartHolderFrom does so from a shell, which first does something to itself
// that the holder inherits: "ulimit -s 2048; ".
func StartHolderFrom(t testing.TB, before, java string, options []string, threads int) *Holder {
	t.Helper()
	args := append([]string{"-c", before + `exec "$0" "$@"`, java, "-Xint"}, options...)
	cmd := exec.Command("/bin/sh", append(args, "-jar", Jar(t, "workloads.jar"), "holder", strconv.Itoa(threads))...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &Holder{Process: start(t, cmd), in: in}
	h.Await(t, "ready")
	return h
}

// Take has the holder do one step, such as "direct 1024" (the steps:
// Holder.java), and returns how many bytes it has written for that.
func (h *Holder) Take(t testing.TB, step string) int64 {
	t.Helper()
	if _, err := fmt.Fprintln(h.in, step); err != nil {
		t.Fatalf("%s: %v\n%s", step, err, h.Output())
	}
	h.steps++
	line := h.Await(t, fmt.Sprintf("step %d holds ", h.steps))
	n, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	return n
}

// Try is Take for a step that may be too much: it says whether the holder lived.
func (h *Holder) Try(t testing.TB, step string) bool {
	t.Helper()
	if _, err := fmt.Fprintln(h.in, step); err != nil {
		<-h.Ended()
		return false
	}
	h.steps++
	lived := false
	polltest.Until(t, "the answer to "+step, func() bool {
		lived = strings.Contains(h.Output(), fmt.Sprintf("step %d holds ", h.steps))
		select {
		case <-h.Ended():
			return true
		default:
			return lived
		}
	})
	return lived
}

// Close ends the input of a holder, which ends by itself then.
func (h *Holder) Close(t testing.TB) {
	t.Helper()
	if err := h.in.Close(); err != nil {
		t.Fatal(err)
	}
}
