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
	// Compiler and Service are what the JVM's compilers and its other threads used. Of
	// a thread that has ended these three count what was last seen of it.
	Compiler, Service time.Duration
	// JVM says that threads of a JVM were seen. Without, the process is none, or has
	// not begun to be.
	JVM bool
}

// Application is all that is left of the group's time: what threads of the application
// used, those that have ended too, and children of the process; also the last moments of
// ended threads of the JVM, and up to two ticks of each that lives.
func (t Times) Application() time.Duration {
	return max(0, t.Group-t.Collector-t.Compiler-t.Service)
}

// Since is what was used after an earlier reading.
func (t Times) Since(a Times) Times {
	return Times{Age: t.Age - a.Age, Group: t.Group - a.Group, Collector: t.Collector - a.Collector, Compiler: t.Compiler - a.Compiler,
		Service: t.Service - a.Service, JVM: t.JVM}
}

// threadTimes adds up what the threads of one process used, those that have ended too.
type threadTimes struct {
	mu    sync.Mutex
	round int
	alive map[int]seenThread
	ended Times
}

type seenThread struct {
	clock linux.ThreadClock
	times int
}

// A thread has its maker's name at first. One that is the application's after certain
// readings is read again in one of someRounds: an application of ten thousand threads
// would else cost more than a trial may.
const certain, someRounds = 3, 64

// skips says that a thread need not be read.
func (t *threadTimes) skips(tid int) bool {
	seen, ok := t.alive[tid]
	return ok && seen.times >= certain && tid%someRounds != t.round%someRounds && hotspot.KindOfThread(seen.clock.Name) == hotspot.ApplicationThread
}

// add takes a reading of threads, and which of those that were known live on unread.
func (t *threadTimes) add(clocks []linux.ThreadClock, skipped []int) Times {
	t.round++
	alive := make(map[int]seenThread, len(clocks)+len(skipped))
	for _, tid := range skipped {
		alive[tid] = t.alive[tid]
	}
	for _, c := range clocks {
		seen := seenThread{clock: c, times: 1}
		if was, ok := t.alive[c.TID]; ok && was.clock.StartTicks == c.StartTicks {
			seen.times = was.times + 1
		}
		alive[c.TID] = seen
	}
	for tid, was := range t.alive {
		if is, ok := alive[tid]; !ok || is.clock.StartTicks != was.clock.StartTicks {
			t.ended.charge(was.clock)
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

// charge adds what a thread of the JVM used.
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
	case hotspot.ApplicationThread: // it is the rest
	}
}

// of reads the threads of a process, of which there are none once it has ended, and right
// after them what its group used: that is never less.
func (t *threadTimes) of(ctx context.Context, proc linux.FS, pid int, living bool, usage func(context.Context) (Usage, error)) (Times, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var clocks []linux.ThreadClock
	var skipped []int
	if living {
		var err error
		clocks, skipped, err = proc.ThreadClocks(pid, t.skips)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return Times{}, err
		}
	}
	sum := t.add(clocks, skipped)
	u, err := usage(ctx)
	sum.Age, sum.Group = u.Age, u.CPUTime
	return sum, err
}
