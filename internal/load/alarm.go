package load

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm waits for a moment, to some 20 µs. Timers of the Go runtime wait in
// epoll_wait(2), whose unit is a millisecond: half of one too late on average,
// which would be part of every latency of an open loop. A timerfd_create(2)
// descriptor ends the same wait exactly.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer for the open loop (timerfd_create): %w: lower the concurrency or raise ulimit -n", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timerfd"), fd}, nil
}

// wait returns at t, or once it was stopped, or when the timer does not work.
func (a *alarm) wait(t time.Time) error {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
		if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
			return fmt.Errorf("set timer: %w", err)
		}
		var expirations [8]byte
		if _, err := a.file.Read(expirations[:]); err != nil {
			return fmt.Errorf("wait for timer: %w", err)
		}
	}
	return nil
}

// stop ends the wait, now and from then on; from another goroutine.
func (a *alarm) stop() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }

func (a *alarm) close() { a.file.Close() }

// pause waits for d, to a millisecond or so, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
