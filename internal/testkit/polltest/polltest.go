// Package polltest waits in tests for what comes about by itself.
package polltest

import (
	"fmt"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
)

const (
	// patience bounds each wait, on a machine that is very busy.
	patience = 2 * time.Minute
	// interval lies between two looks.
	interval = 10 * time.Millisecond
)

// UntilNil calls f until it returns nil. The test ends with its last error when
// that takes too long.
func UntilNil(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after %v: %v", patience, err)
		case <-tick.C:
		}
	}
}

// Until waits for what done tells of. The test ends when that takes too long.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	UntilNil(t, func() error {
		if !done() {
			return fmt.Errorf("still waiting for %s", what)
		}
		return nil
	})
}

// UntilState waits for a process's state, a letter as in /proc/PID/stat
// (proc_pid_stat(5)).
func UntilState(t testing.TB, pid int, want byte) {
	t.Helper()
	proc := linux.NewFS("/proc")
	UntilNil(t, func() error {
		switch st, err := proc.Status(pid); {
		case err != nil:
			return err
		case st.State != want:
			return fmt.Errorf("process %d is in state %c, not %c", pid, st.State, want)
		}
		return nil
	})
}
