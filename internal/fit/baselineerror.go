package fit

import (
	"fmt"
	"slices"
	"strings"

	"tare.dev/tare/internal/trial"
)

// BaselineError says that the application fails with ample memory: there is
// nothing to search for.
type BaselineError struct {
	Trial Trial
	// HeapBytes is how large the heap may become where that is too little, else 0. HeapBy is
	// what of the user's sizes it; "" where it follows the memory.
	HeapBytes int64
	HeapBy    string
}

// Error says what happened.
func (e *BaselineError) Error() string {
	return fmt.Sprintf("with ample memory (%d MiB) the application fails, %s", e.Trial.LimitBytes/mib, e.Trial.Verdict)
}

// fails is the error of a baseline that failed.
func (s *Search) fails(b Trial) *BaselineError {
	e := &BaselineError{Trial: b}
	if !b.shortOfHeap() {
		return e
	}
	s.readFrom(b)
	if e.HeapBytes = mostHeap(b); e.HeapBytes == 0 {
		e.HeapBytes = s.Facts.Given.MaxHeap(b.LimitBytes)
	}
	if _, by, set := s.Facts.Given.Value("MaxHeapSize"); set {
		e.HeapBy = by.String()
	}
	return e
}

// shortOfHeap says that a larger heap is what a trial needed: collections took its time, or the JVM
// says so itself (JDK: src/hotspot/share/gc/shared/memAllocator.cpp).
func (t Trial) shortOfHeap() bool {
	said := func(line string) bool {
		return strings.Contains(line, "Java heap space") || strings.Contains(line, "GC overhead limit exceeded")
	}
	return t.Verdict == trial.Thrashing || t.Verdict == trial.OutOfMemory && t.Result != nil && slices.ContainsFunc(t.Result.Evidence, said)
}
