package agent

import (
	"errors"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// finder finds JVMs as they come. Looking at every process of a machine is dear:
// one that is no JVM is looked at again after ever more rounds, for a shell may
// yet become one (exec), or a program load one, and then only if its address space has
// another size than before. A young one is looked at as soon as that has grown as by a JVM.
type finder struct {
	proc  linux.FS
	round int
	seen  map[int]*other
}

// other is a process that was no JVM when it was looked at.
type other struct {
	birth      linux.Birth
	pages      int64
	first      int // the round in which it was looked at first
	next, step int // the round in which it is looked at again
}

// unread is the size of one that could not be looked at.
const unread = -1

const (
	// longestStep bounds for how many rounds a process is left alone.
	longestStep = 64
	// youth is for how many rounds the size of a process is read in each: where many start
	// at once, a shell needs that long to become a JVM.
	youth = 10
	// grown is by how many pages at least a JVM makes an address space larger: its class
	// space alone reserves more.
	grown = 32 << 20 / 4096
)

func newFinder(proc linux.FS) *finder { return &finder{proc: proc, seen: map[int]*other{}} }

// find returns the JVMs that known does not have, and the processes that are gone
// are forgotten. It stops when more is false, and goes on in the next round.
func (f *finder) find(known func(pid int) bool, more func() bool) ([]*process.Target, error) {
	pids, err := f.proc.PIDs()
	if err != nil {
		return nil, err
	}
	f.round++
	f.forget(pids)
	var out []*process.Target
	self := f.proc.Self()
	for _, pid := range pids {
		if pid == self || known(pid) || !f.due(pid) {
			continue
		}
		if !more() {
			break
		}
		// Before the look: what is loaded meanwhile shows the next time.
		pages, err := f.proc.Pages(pid)
		if o := f.seen[pid]; o != nil && err == nil && pages == o.pages {
			f.wait(o)
			continue
		}
		t, err := process.Find(f.proc, pid)
		if err != nil {
			if !errors.Is(err, process.ErrNotJVM) {
				pages = unread
			}
			f.leave(pid, pages)
			continue
		}
		delete(f.seen, pid)
		t.VMAs = nil
		out = append(out, t)
	}
	return out, nil
}

func (f *finder) forget(pids []int) {
	there := make(map[int]bool, len(pids))
	for _, pid := range pids {
		there[pid] = true
	}
	for pid := range f.seen {
		if !there[pid] {
			delete(f.seen, pid)
		}
	}
}

// due says whether a process is to be looked at in this round.
func (f *finder) due(pid int) bool {
	o := f.seen[pid]
	if o == nil || f.round >= o.next {
		return true
	}
	if f.round-o.first >= youth || o.pages == unread {
		return false
	}
	pages, err := f.proc.Pages(pid)
	return err == nil && pages-o.pages >= grown
}

// leave leaves a process alone for some rounds.
func (f *finder) leave(pid int, pages int64) {
	birth, err := f.proc.Birth(pid)
	if err != nil {
		delete(f.seen, pid)
		return
	}
	o := f.seen[pid]
	if o == nil || o.birth.StartTicks != birth.StartTicks {
		o = &other{birth: birth, first: f.round, step: 1}
		f.seen[pid] = o
	}
	o.pages = pages
	f.wait(o)
}

// wait leaves it alone for twice as many rounds as before.
func (f *finder) wait(o *other) {
	o.next = f.round + o.step
	o.step = min(2*o.step, longestStep)
}

// findEvery is how long a new JVM may go unseen.
func findEvery(interval time.Duration) time.Duration { return min(interval, 2*time.Second) }
