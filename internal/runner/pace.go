package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// paceEntries are in the table that the work looks numbers up in, which is larger than the usual caches
	// of the second level. No lookup needs the one before it: so the work keeps the units of a core busy,
	// as applications do, and is slower where others use the same core, cache or memory. A chain through
	// memory waits for one load at a time, and does not feel who else is on the core.
	paceEntries = 200_000
	paceLookups = 5000
	// paceStride is between the numbers of lookups that follow each other: a prime number, so that all
	// have their turn.
	paceStride = 7919
)

// PaceWork names the work of a Host's Pace. Paces of different works do not compare.
const PaceWork = "lookups"

// errCoarseClock is of a machine whose scheduler counts by ticks: without a counter of its
// processor's that it trusts (sched_clock in Linux's Documentation/timers/timekeeping.rst).
var errCoarseClock = errors.New("clock of a thread: it stood still during the work, so it is too coarse to tell how fast the machine is")

var pace struct {
	sync.Mutex
	table map[uint64]uint64
	at    uint64 // the number of the last lookup
	sum   uint64 // of what was found, so that the compiler leaves the work
}

// Pace looks numbers up in a table.
func (thisHost) Pace(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	pace.Lock()
	defer pace.Unlock()
	if pace.table == nil {
		pace.table = make(map[uint64]uint64, paceEntries)
		for n := range uint64(paceEntries) {
			pace.table[paceKey(n)] = n
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := threadTime()
	if err != nil {
		return 0, err
	}
	for range paceLookups {
		pace.at = (pace.at + paceStride) % paceEntries
		pace.sum += pace.table[paceKey(pace.at)]
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

// paceKey spreads numbers over all keys (multiplication by the golden ratio, Knuth, The Art of
// Computer Programming, volume 3, section 6.4).
func paceKey(n uint64) uint64 { return n * 2654435761 }

func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("clock of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
