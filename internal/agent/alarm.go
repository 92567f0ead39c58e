package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
)

// alarms has the kernel tell when a group comes near its limit, and when a process
// ends: a glance may be late on a busy machine, and a JVM may grow faster than
// glances are made for. On cgroup v1 a group rings when it passes nine tenths of its
// limit (Documentation/admin-guide/cgroup-v1/memory.rst, sections 9 and 10), on v2
// when it reached the limit (memory.events of
// Documentation/admin-guide/cgroup-v2.rst).
type alarms struct {
	epoll int
	proc  linux.FS
	ring  chan int // ids of processes whose alarm has rung

	mu    sync.Mutex
	bells map[int]bell // by descriptor
	exits map[int]linux.Exit
}

// bell is what a descriptor rings for.
type bell struct {
	pid  int
	kind bellKind
	// birth is of the process whose end it rings for.
	birth linux.Birth
}

type bellKind int

const (
	threshold bellKind = iota // an eventfd of cgroup v1
	events                    // memory.events of cgroup v2
	ending                    // a pidfd
	closing                   // an eventfd that ends the listening
)

// alarmAt are the shares of the limit that ring.
var alarmAt = []float64{0.9, 0.97}

// newAlarms makes alarms, of which none is set.
func newAlarms(proc linux.FS) (*alarms, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	a := &alarms{epoll: epoll, proc: proc, ring: make(chan int, 64), bells: map[int]bell{}, exits: map[int]linux.Exit{}}
	go a.listen()
	return a, nil
}

// listen hands on what rings until the alarms are closed. When nobody takes it, the
// agent is at work, and glances soon.
func (a *alarms) listen() {
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(a.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if !a.rang(int(e.Fd)) {
				return
			}
		}
		// For a group that goes up and down there the kernel rings thousands of
		// times a second.
		time.Sleep(shortestStep)
	}
}

// rang takes up one event; false when it is the one that ends the listening.
func (a *alarms) rang(fd int) bool {
	a.mu.Lock()
	b, ok := a.bells[fd]
	if ok {
		a.answer(fd, b)
	}
	a.mu.Unlock()
	if ok && b.kind == closing {
		return false
	}
	if ok {
		select {
		case a.ring <- b.pid:
		default:
		}
	}
	return true
}

// answer has a bell ring again only for what is new. Reads do not block, and what
// they give says nothing that a glance does not.
func (a *alarms) answer(fd int, b bell) {
	var some [256]byte
	switch b.kind {
	case events:
		_, _ = unix.Pread(fd, some[:], 0)
	case ending: // at once: its parent may wait for it at any moment
		if _, told := a.exits[b.pid]; told {
			return
		}
		if e, err := a.proc.ExitOf(b.pid, fd, b.birth); err == nil {
			a.exits[b.pid] = e
		}
	default:
		_, _ = unix.Read(fd, some[:8])
	}
}

// exit is how a process ended whose end was to ring, if the kernel told. It may not
// have rung yet.
func (a *alarms) exit(pid int) (linux.Exit, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for fd, b := range a.bells {
		if b.pid == pid && b.kind == ending {
			a.answer(fd, b)
			break
		}
	}
	e, ok := a.exits[pid]
	delete(a.exits, pid)
	return e, ok
}

// setEnd rings when a process ends. It returns how it is taken back.
func (a *alarms) setEnd(pid int, birth linux.Birth) (unset func(), err error) {
	fd, err := linux.PidFD(pid)
	if err != nil {
		return nil, err
	}
	if now, err := a.proc.Birth(pid); err == nil && now.StartTicks != birth.StartTicks {
		unix.Close(fd)
		return nil, fmt.Errorf("process %d is another one now", pid)
	}
	return a.add(fd, unix.EPOLLIN|unix.EPOLLONESHOT, bell{pid, ending, birth})
}

// setEvents rings when a group of cgroup v2 reached its limit, or lost a process.
func (a *alarms) setEvents(pid int, g linux.MemoryGroup) (unset func(), err error) {
	fd, err := unix.Open(filepath.Join(g.Dir, "memory.events"), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	b := bell{pid: pid, kind: events}
	a.answer(fd, b) // what happened before is no news
	return a.add(fd, unix.EPOLLPRI, b)
}

// set sets the alarm of a process for its group. It returns how it is taken back.
func (a *alarms) set(pid int, g linux.MemoryGroup, limit int64) (unset func(), err error) {
	if g.Version == 2 {
		return a.setEvents(pid, g)
	}
	usage, err := os.Open(filepath.Join(g.Dir, "memory.usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	defer usage.Close() // the kernel needs it for the registration alone
	fd, err := eventFD()
	if err != nil {
		return nil, err
	}
	if unset, err = a.add(fd, unix.EPOLLIN, bell{pid: pid}); err != nil {
		return nil, err
	}
	for _, share := range alarmAt {
		line := fmt.Sprintf("%d %d %d", fd, usage.Fd(), int64(share*float64(limit)))
		if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.event_control"), []byte(line), 0); err != nil {
			unset()
			return nil, err
		}
	}
	return unset, nil
}

func eventFD() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, fmt.Errorf("eventfd: %w", err)
	}
	return fd, nil
}

// add listens to a descriptor, which it owns from now on.
func (a *alarms) add(fd int, what uint32, b bell) (unset func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: what, Fd: int32(fd)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	a.bells[fd] = b
	return func() { a.remove(fd) }, nil
}

// remove closes a descriptor, with which the kernel forgets what it was for.
func (a *alarms) remove(fd int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.bells, fd)
	unix.Close(fd)
}

// close ends the listening.
func (a *alarms) close() {
	fd, err := eventFD()
	if err != nil {
		return // it ends with the process
	}
	if _, err = a.add(fd, unix.EPOLLIN, bell{kind: closing}); err != nil {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(fd, one[:])
}
