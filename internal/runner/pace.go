package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// paceEntries of four bytes are what the work goes through, at random: more than the second-level caches
	// that are usual, and little of the third. paceSteps is how far it goes at a time.
	paceEntries = 1 << 18
	paceSteps   = 8000
)

// errCoarseClock is of a machine whose scheduler counts by ticks: without a counter of its
// processor's that it trusts (sched_clock in Linux's Documentation/timers/timekeeping.rst).
var errCoarseClock = errors.New("clock of a thread: it stood still during the work, so it is too coarse to tell how fast the machine is")

var pace struct {
	sync.Mutex
	next []uint32
	at   uint32
}

// Pace follows a chain through memory.
func (thisHost) Pace(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	pace.Lock()
	defer pace.Unlock()
	if pace.next == nil {
		order := rand.New(rand.NewPCG(1, 1)).Perm(paceEntries)
		pace.next = make([]uint32, paceEntries)
		for i, n := range order {
			pace.next[n] = uint32(order[(i+1)%len(order)])
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := threadTime()
	if err != nil {
		return 0, err
	}
	for range paceSteps {
		pace.at = pace.next[pace.at]
	}
	end, err := threadTime()
	if err != nil {
		return 0, err
	}
	if end <= begin {
		return 0, errCoarseClock
	}
	return end - begin, nil
}

func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("clock of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
