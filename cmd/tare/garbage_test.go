package main

import (
	"runtime/debug"
	"testing"
)

func TestLetGarbageLie(t *testing.T) {
	gcPercent := func() int {
		now := debug.SetGCPercent(77)
		debug.SetGCPercent(now)
		return now
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	t.Setenv("GOGC", "")
	undo := letGarbageLie(weighGC)
	if got := gcPercent(); got != weighGC {
		t.Errorf("the heap may grow by %d %%, want %d", got, weighGC)
	}
	undo()
	if got := gcPercent(); got != 50 {
		t.Errorf("it is %d %% afterwards, want 50", got)
	}
	t.Setenv("GOGC", "50")
	defer letGarbageLie(weighGC)()
	if got := gcPercent(); got != 50 {
		t.Errorf("GOGC was set, and it is %d %%", got)
	}
}
