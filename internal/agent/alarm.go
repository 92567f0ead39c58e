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

// alarms has the kernel tell when a group of cgroup v1 passes nine tenths of its
// limit, or has reached it: a glance may be late on a busy machine, and a JVM may
// grow faster than glances are made for. (Kernel:
// Documentation/admin-guide/cgroup-v1/memory.rst, sections 9 and 10.)
type alarms struct {
	epoll int
	ring  chan int // ids of processes whose alarm has rung

	mu   sync.Mutex
	pids map[int]int // by eventfd
}

// alarmAt are the shares of the limit that ring.
var alarmAt = []float64{0.9, 0.97}

// newAlarms makes alarms, of which none is set.
func newAlarms() (*alarms, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	a := &alarms{epoll: epoll, ring: make(chan int, 64), pids: map[int]int{}}
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
	var count [8]byte
	a.mu.Lock()
	pid, ok := a.pids[fd]
	if ok {
		_, _ = unix.Read(fd, count[:]) // it does not block, and the count says nothing
	}
	a.mu.Unlock()
	if pid < 0 {
		return false
	}
	if ok {
		select {
		case a.ring <- pid:
		default:
		}
	}
	return true
}

// set sets the alarm of a process for its group. It returns how it is taken back.
func (a *alarms) set(pid int, g linux.MemoryGroup, limit int64) (unset func(), err error) {
	usage, err := os.Open(filepath.Join(g.Dir, "memory.usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	defer usage.Close() // the kernel needs it for the registration alone
	fd, err := a.add(pid)
	if err != nil {
		return nil, err
	}
	unset = func() { a.remove(fd) }
	for _, share := range alarmAt {
		line := fmt.Sprintf("%d %d %d", fd, usage.Fd(), int64(share*float64(limit)))
		if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.event_control"), []byte(line), 0); err != nil {
			unset()
			return nil, err
		}
	}
	return unset, nil
}

// add makes an eventfd that is listened to.
func (a *alarms) add(pid int) (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, fmt.Errorf("eventfd: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("epoll: %w", err)
	}
	a.pids[fd] = pid
	return fd, nil
}

// remove closes an eventfd, with which the kernel forgets what it was for.
func (a *alarms) remove(fd int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pids, fd)
	unix.Close(fd)
}

// close ends the listening.
func (a *alarms) close() {
	fd, err := a.add(-1)
	if err != nil {
		return // it ends with the process
	}
	one := [8]byte{1}
	_, _ = unix.Write(fd, one[:])
}
