package runner

import (
	"fmt"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
)

// Threads that end, are renamed, or have the number of one that ended.
func TestThreadTimes(t *testing.T) {
	const ms = time.Millisecond
	clock := func(tid int, name string, start uint64, n time.Duration) linux.ThreadClock {
		return linux.ThreadClock{TID: tid, Name: name, StartTicks: start, Time: n * ms}
	}
	var times threadTimes
	first := times.add([]linux.ThreadClock{clock(1, "java", 1, 10), clock(2, "java", 2, 20), clock(3, "C2 CompilerThre", 3, 30)}, nil)
	if want := (Times{Compiler: 30 * ms}); first != want {
		t.Errorf("%+v, want %+v", first, want)
	}
	// 2 has got its name; 3 has ended, and a worker of the application has its number.
	second := times.add([]linux.ThreadClock{clock(1, "java", 1, 10), clock(2, "VM Thread", 2, 40), clock(3, "worker", 9, 50)}, nil)
	if want := (Times{Collector: 40 * ms, Compiler: 30 * ms, JVM: true}); second != want {
		t.Errorf("%+v, want %+v", second, want)
	}
	if second.Group = 150 * ms; second.Application() != 80*ms {
		t.Errorf("application %v", second.Application())
	}
	for range 2 {
		if last := times.add(nil, nil); last.Collector != 40*ms || last.Compiler != 30*ms || !last.JVM {
			t.Errorf("after the end %+v", last)
		}
	}
}

// Of many threads of the application few are read at a time, each in its turn, and those
// of the JVM always.
func TestThreadTimesSkips(t *testing.T) {
	const threads = 6400
	var times threadTimes
	all := []linux.ThreadClock{{TID: 1, Name: "VM Thread", StartTicks: 1}}
	for i := range threads {
		all = append(all, linux.ThreadClock{TID: 2 + i, Name: fmt.Sprint("worker-", i), StartTicks: 1})
	}
	read := map[int]int{}
	look := func() int {
		var clocks []linux.ThreadClock
		var skipped []int
		for _, c := range all {
			if times.skips(c.TID) {
				skipped = append(skipped, c.TID)
				continue
			}
			read[c.TID]++
			c.Time = time.Duration(read[1]) * time.Second
			clocks = append(clocks, c)
		}
		if got := times.add(clocks, skipped); got.Collector != time.Duration(read[1])*time.Second {
			t.Fatalf("%+v after %d readings", got, read[1])
		}
		return len(clocks)
	}
	for i := range certain + someRounds {
		if n := look(); i >= certain && n != 1+threads/someRounds {
			t.Fatalf("reading %d: %d threads", i, n)
		}
	}
	for tid, n := range read {
		if tid != 1 && n != certain+1 {
			t.Fatalf("thread %d was read %d times", tid, n)
		}
	}
}
