package runner

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// Times is the processor time that a group has used, and which threads of its process
// used it (hotspot.KindOfThread). The kernel counts a thread in ticks of 10 ms, and the
// group in nanoseconds.
type Times struct {
	// Age is as in Usage.
	Age time.Duration
	// Group is what the whole group used.
	Group time.Duration
	// Collector is what threads that collect used, and the VM Thread: Serial collects
	// in it, and the other collectors do there what of a pause is not parallel.
	Collector time.Duration
	// Compiler and Service are what the JVM's compilers and its other threads used.
	Compiler, Service time.Duration
	// Application is what the process's other threads used. Of threads that have ended
	// each of the four counts what was last seen of them.
	Application time.Duration
	// JVM says that threads of a JVM were seen. Without, the process is none, or has
	// not begun to be.
	JVM bool
}

// Rest is what no thread was seen to use: children of the process, threads that began
// and ended between two readings, the last moments of others, and up to two ticks of
// each thread. It is the application's, for the JVM's own threads live long.
func (t Times) Rest() time.Duration {
	return max(0, t.Group-t.Collector-t.Compiler-t.Service-t.Application)
}

// Since is what was used after an earlier reading.
func (t Times) Since(a Times) Times {
	return Times{Age: t.Age - a.Age, Group: t.Group - a.Group, Collector: t.Collector - a.Collector, Compiler: t.Compiler - a.Compiler,
		Service: t.Service - a.Service, Application: t.Application - a.Application, JVM: t.JVM}
}

// threadTimes adds up what the threads of one process used, those that have ended too.
type threadTimes struct {
	mu    sync.Mutex
	alive map[int]linux.ThreadClock
	ended Times
}

// add takes a reading of all threads that live.
func (t *threadTimes) add(clocks []linux.ThreadClock) Times {
	t.mu.Lock()
	defer t.mu.Unlock()
	alive := make(map[int]linux.ThreadClock, len(clocks))
	for _, c := range clocks {
		alive[c.TID] = c
	}
	for tid, was := range t.alive {
		if is, ok := alive[tid]; !ok || is.StartTicks != was.StartTicks {
			t.ended.charge(was)
		}
	}
	t.alive = alive
	sum := t.ended
	for _, c := range clocks {
		sum.charge(c)
	}
	t.ended.JVM = sum.JVM
	return sum
}

// charge adds what a thread used.
func (t *Times) charge(c linux.ThreadClock) {
	switch hotspot.KindOfThread(c.Name) {
	case hotspot.CollectorThread:
		t.Collector += c.Time
	case hotspot.OperationsThread:
		t.Collector += c.Time
		t.JVM = true
	case hotspot.CompilerThread:
		t.Compiler += c.Time
	case hotspot.ServiceThread:
		t.Service += c.Time
	case hotspot.ApplicationThread:
		t.Application += c.Time
	}
}

// timesOf reads the threads of a process first and what its group used right after, so
// that what threads use meanwhile is part of both or of the rest.
func (t *threadTimes) timesOf(ctx context.Context, proc linux.FS, pid int, living bool, usage func(context.Context) (Usage, error)) (Times, error) {
	var clocks []linux.ThreadClock
	if living {
		var err error
		clocks, err = proc.ThreadClocks(pid)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return Times{}, err
		}
	}
	sum := t.add(clocks)
	u, err := usage(ctx)
	sum.Age, sum.Group = u.Age, u.CPUTime
	return sum, err
}
