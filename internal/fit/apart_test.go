package fit

import (
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

// A JVM that the command starts has its own options and release. Options of the command do not
// reach it; those that go by JAVA_TOOL_OPTIONS do, and variables always.
func TestLeversOfAnotherJVM(t *testing.T) {
	heap := Lever{ID: "heap", Options: []string{"-Xmx64m"}}
	arenas := Lever{ID: "arenas", Env: []string{"MALLOC_ARENA_MAX=1"}}
	for _, c := range []struct {
		name       string
		byVariable bool
		program    *runner.Program
		heapOpen   bool
		release    int
		maxHeap    int64
	}{
		{"the command's own", false, nil, true, 25, 250},
		{"a child's", false, &runner.Program{Child: true, Options: []string{"-XX:MaxRAMPercentage=50"}}, false, 17, 500},
		{"a script's", true, &runner.Program{Child: true, Options: []string{"-XX:MaxRAMPercentage=50"}}, true, 17, 500},
		{"of a script that became it", true, &runner.Program{Options: []string{"-Xmx300m"}}, false, 25, 300},
	} {
		f := Facts{Release: jvmopts.Release{Feature: 25}, ByVariable: c.byVariable}
		f.readFrom(c.program, "17.0.15+6-Debian-1")
		if _, ok, reason := heap.open(f); ok != c.heapOpen || !ok && reason == "" {
			t.Errorf("%s: the heap is open: %v (%s)", c.name, ok, reason)
		}
		if _, ok, reason := arenas.open(f); !ok {
			t.Errorf("%s: arenas are closed: %s", c.name, reason)
		}
		if f.Release.Feature != c.release || f.Given.MaxHeap(1000*mib) != c.maxHeap*mib {
			t.Errorf("%s: release %d, heap %d MiB", c.name, f.Release.Feature, f.Given.MaxHeap(1000*mib)/mib)
		}
	}
}
