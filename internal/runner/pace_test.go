package runner

import (
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/polltest"
)

// The work goes through all of its memory before it comes back, so that no cache of
// the processor's holds what comes next.
func TestPace(t *testing.T) {
	polltest.UntilNil(t, func() error { // a coarse clock moves now and then
		d, err := ThisHost().Pace(t.Context())
		if err == nil && (d <= 0 || d > time.Second) {
			t.Errorf("a pace of %v", d)
		}
		return err
	})
	at, steps := pace.at, 0
	for next := pace.next[at]; next != at; next = pace.next[next] {
		steps++
	}
	if steps != paceEntries-1 {
		t.Errorf("it comes back after %d of %d", steps, paceEntries)
	}
}
