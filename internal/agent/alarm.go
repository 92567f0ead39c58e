package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
// Documentation/admin-guide/cgroup-v2.rst), and when it waits for memory
// (memory.pressure there, triggers of Documentation/accounting/psi.rst). The machine
// rings when any of its processes wait for memory.
type alarms struct {
	epoll int
	proc  linux.FS
	ring  chan int // ids of processes whose alarm has rung

	mu    sync.Mutex
	bells map[int]bell // by descriptor
	exits map[int]linux.Exit
	// stalls are the processes whose group has waited for memory since somebody asked.
	stalls map[int]bool

	// machine bounds what the pressure of the whole machine makes the agent do.
	machine pause
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
	pressure                  // a trigger of memory.pressure
	ending                    // a pidfd
	closing                   // an eventfd that ends the listening
)

// alarmAt are the shares of the limit that ring.
var alarmAt = []float64{0.9, 0.97}

const (
	// wholeMachine is the process id of the machine's own alarm.
	wholeMachine = 0
	// stallTrigger rings when some process has waited for memory for a tenth of two
	// seconds, in microseconds. The kernel lets those without CAP_SYS_RESOURCE choose
	// multiples of two seconds alone, since Linux 6.5.
	stallTrigger = "some 200000 2000000"
)

// newAlarms makes alarms, of which none is set.
func newAlarms(proc linux.FS) (*alarms, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	a := &alarms{epoll: epoll, proc: proc, ring: make(chan int, 64), bells: map[int]bell{}, exits: map[int]linux.Exit{}, stalls: map[int]bool{}}
	go a.listen()
	// Without it, a kernel that keeps no pressure, JVMs without a limit have no alarm.
	_, _ = a.setPressure(wholeMachine, filepath.Join(proc.Root(), "pressure", "memory"))
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
	case pressure: // the kernel rings once for each of its windows
		a.stalls[b.pid] = true
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

// stalled says whether the group of a process, or the machine, has waited for memory
// since this was asked last.
func (a *alarms) stalled(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	rang := a.stalls[pid]
	delete(a.stalls, pid)
	return rang
}

// setPressure rings when what a file of pressure tells of has waited for memory.
func (a *alarms) setPressure(pid int, file string) (unset func(), err error) {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := unix.Write(fd, []byte(stallTrigger)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return a.add(fd, unix.EPOLLPRI, bell{pid: pid, kind: pressure})
}

// setV2 rings for a group of cgroup v2: at its limit, and when it waits for memory.
func (a *alarms) setV2(pid int, g linux.MemoryGroup) (unset func(), err error) {
	unsetEvents, err := a.setEvents(pid, g)
	if err != nil {
		return nil, err
	}
	unsetPressure, err := a.setPressure(pid, filepath.Join(g.Dir, "memory.pressure"))
	if err != nil {
		return unsetEvents, nil // the kernel keeps none, or tells no one
	}
	return func() { unsetEvents(); unsetPressure() }, nil
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
		return a.setV2(pid, g)
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
	delete(a.stalls, a.bells[fd].pid)
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

// pause keeps what pressure causes apart: for as long as there is some, the time to the
// next doubles, up to longestCalm.
type pause struct{ last, wait time.Duration }

// over says whether it is time again, and begins the next pause.
func (p *pause) over(up time.Duration) bool {
	switch since := up - p.last; {
	case p.wait == 0 || since > 2*longestCalm:
		p.wait = shortestCalm
	case since < p.wait:
		return false
	default:
		p.wait = min(2*p.wait, longestCalm)
	}
	p.last = up
	return true
}

const (
	// scarce is the share of the machine's memory below which it is the machine that
	// runs out, and not a group on it.
	scarce = 0.1
	// heaviest is how many JVMs are weighed then: the kernel kills one of the largest.
	heaviest = 3
)

// press has a JVM weighed whose group waits for memory, however much the kernel could
// still drop: what waits uses what would be dropped.
func (a *Agent) press(j *jvm, up time.Duration) {
	if j.pressed.over(up) {
		a.lastLook(j, headroom(&j.counters), up)
	}
}

// pressMachine has the heaviest JVMs weighed while the machine waits for memory and has
// little left.
func (a *Agent) pressMachine(up time.Duration) {
	m, err := a.cfg.Proc.MemInfo()
	if err != nil || float64(m.Available) > scarce*float64(m.Total) || !a.alarms.machine.over(up) {
		return
	}
	all := slices.SortedFunc(maps.Values(a.jvms), func(x, y *jvm) int { return cmp.Compare(y.counters.Resident, x.counters.Resident) })
	for _, j := range all[:min(len(all), heaviest)] {
		a.press(j, up)
	}
}
