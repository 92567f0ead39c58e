package runner

import (
	"errors"
	"testing"
)

// The work goes through all of its memory before it comes back, so that no cache of
// the processor's holds what comes next.
func TestPace(t *testing.T) {
	if _, err := ThisHost().Pace(t.Context()); err != nil && !errors.Is(err, errCoarseClock) {
		t.Fatal(err)
	}
	at, steps := pace.at, 0
	for next := pace.next[at]; next != at; next = pace.next[next] {
		steps++
	}
	if steps != paceEntries-1 {
		t.Errorf("it comes back after %d of %d", steps, paceEntries)
	}
}
