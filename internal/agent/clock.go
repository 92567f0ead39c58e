package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// machineClock is the clock of the machine.
type machineClock struct{}

// Now is the wall time.
func (machineClock) Now() time.Time { return time.Now() }

// Uptime is the time since boot, with the time that the machine slept.
func (machineClock) Uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// Processor is the time that all threads of this process have taken.
func (machineClock) Processor() time.Duration { return Processor() }

// Processor is the time that all threads of this process have taken.
func Processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
