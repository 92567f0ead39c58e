package runner

import (
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
)

// Threads that end, are renamed, or have the number of one that ended.
func TestThreadTimes(t *testing.T) {
	clock := func(tid int, name string, start uint64, ms int) linux.ThreadClock {
		return linux.ThreadClock{TID: tid, Name: name, StartTicks: start, Time: time.Duration(ms) * time.Millisecond}
	}
	var times threadTimes
	first := times.add([]linux.ThreadClock{clock(1, "java", 1, 10), clock(2, "java", 2, 20), clock(3, "C2 CompilerThre", 3, 30)})
	if want := (Times{Application: 30 * time.Millisecond, Compiler: 30 * time.Millisecond}); first != want {
		t.Errorf("%+v, want %+v", first, want)
	}
	// 2 has got its name; 3 has ended, and a worker of the application has its number.
	second := times.add([]linux.ThreadClock{clock(1, "java", 1, 10), clock(2, "VM Thread", 2, 40), clock(3, "worker", 9, 50)})
	if want := (Times{Application: 60 * time.Millisecond, Collector: 40 * time.Millisecond, Compiler: 30 * time.Millisecond, JVM: true}); second != want {
		t.Errorf("%+v, want %+v", second, want)
	}
	second.Group = 150 * time.Millisecond
	if rest := second.Rest(); rest != 20*time.Millisecond {
		t.Errorf("rest %v", rest)
	}
	if last := times.add(nil); last.Collector != second.Collector || last.Application != second.Application || last.Compiler != second.Compiler || !last.JVM {
		t.Errorf("after the end %+v, before %+v", last, second)
	}
	if again := times.add(nil); again.Application != second.Application {
		t.Errorf("counted twice: %+v", again)
	}
}
