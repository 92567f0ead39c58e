package runner

import (
	"errors"
	"testing"
)

// The work finds what it looks up, and all numbers have their turn.
func TestPace(t *testing.T) {
	if _, err := ThisHost().Pace(t.Context()); err != nil && !errors.Is(err, errCoarseClock) {
		t.Fatal(err)
	}
	at, seen := pace.at, 0
	for n := (at + paceStride) % paceEntries; n != at; n = (n + paceStride) % paceEntries {
		if found, ok := pace.table[paceKey(n)]; !ok || found != n {
			t.Fatalf("number %d: found %d, %v", n, found, ok)
		}
		seen++
	}
	if seen != paceEntries-1 {
		t.Errorf("the same number after %d of %d lookups", seen, paceEntries)
	}
}
