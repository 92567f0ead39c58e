package autopsy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
)

// ErrNotFound says that neither ledger nor log has what was asked for.
var ErrNotFound = errors.New("neither the ledger nor the kernel's log has it")

// Sources are where autopsies are made from. Either part may be missing.
type Sources struct {
	Ledger *ledger.Reader
	Log    *kernellog.Events
	// LogBoot is the boot that the log is of, where its lines do not say.
	LogBoot string
	Proc    linux.FS
	// Crash is an hs_err file that a user named.
	Crash *Crash
}

// Find makes the autopsy of the JVM that a name means: a process id of any namespace, a
// container's id or its beginning, the name of a container, a pod or a jar, or a
// main class; of several the one that was seen last. The error is ErrNotFound.
func (s Sources) Find(name string) (*Report, error) {
	all, err := s.processes()
	if err != nil {
		return nil, err
	}
	if p, found := Choose(all, name); found {
		return s.examine(p)
	}
	pid, err := strconv.Atoi(name)
	if k := s.lastKill(func(k *kernellog.Kill) bool {
		return err == nil && k.PID == pid || len(name) >= 12 && strings.Contains(k.TaskGroup, name)
	}); k != nil {
		return s.ofKill(k), nil
	}
	return nil, fmt.Errorf("%.100q: %w", name, ErrNotFound)
}

// Choose chooses of the JVMs of a ledger, the one last seen first, that which a name
// means, as for Find.
func Choose(all []ledger.Summary, name string) (ledger.Summary, bool) {
	for i := range all {
		if matches(&all[i].Process, name) {
			return all[i], true
		}
	}
	return ledger.Summary{}, false
}

// FindPod makes the autopsy of the JVM of a pod: of the one that ended last, or where none
// has, of the one that runs. container may be empty; uids are what the pod's groups may be
// named after, any where there are none: a pod that is made anew may have the name of an
// older one. The error is ErrNotFound.
func (s Sources) FindPod(namespace, pod, container string, uids ...string) (*Report, error) {
	all, err := s.processes()
	if err != nil {
		return nil, err
	}
	var runs *ledger.Summary
	for i := range all {
		p := &all[i]
		if p.Namespace != namespace || p.Pod != pod || container != "" && p.ContainerName != container || len(uids) > 0 && !slices.Contains(uids, p.PodUID) {
			continue
		}
		if p.Ended || !s.lives(p.Process) {
			return s.examine(*p)
		}
		if runs == nil {
			runs = p
		}
	}
	if runs != nil {
		return s.examine(*runs)
	}
	return nil, fmt.Errorf("pod %.253s of namespace %.253s: %w", pod, namespace, ErrNotFound)
}

// Last makes the autopsy of what ended last: of the JVMs of the ledger, or, without
// one, of what the kernel killed.
func (s Sources) Last() (*Report, error) {
	all, err := s.processes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.Ended || !s.lives(p.Process) {
			return s.examine(p)
		}
	}
	if k := s.lastKill(func(*kernellog.Kill) bool { return true }); k != nil {
		return s.ofKill(k), nil
	}
	return nil, fmt.Errorf("no end of a JVM: %w", ErrNotFound)
}

// Since makes the autopsies of all JVMs of the ledger that were last seen after a
// time, and have ended; the last one first.
func (s Sources) Since(after time.Time) ([]*Report, error) {
	all, err := s.processes()
	if err != nil {
		return nil, err
	}
	out := []*Report{}
	for _, p := range all {
		if p.Last.Before(after) || !p.Ended && s.lives(p.Process) {
			continue
		}
		r, err := s.examine(p)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// processes are the JVMs of the ledger, the one last seen first.
func (s Sources) processes() ([]ledger.Summary, error) {
	if s.Ledger == nil {
		return nil, nil
	}
	all, _, err := s.Ledger.Processes()
	return all, err
}

func matches(p *ledger.Process, name string) bool {
	if name == "" {
		return false
	}
	if pid, err := strconv.Atoi(name); err == nil {
		if p.ID.PID == pid {
			return true
		}
		for _, n := range p.PIDs {
			if n == pid {
				return true
			}
		}
	}
	const shortID = 12 // what engines show of an id
	switch name {
	case p.Name, path.Base(p.Name), p.ContainerName, p.Pod, p.PodUID, p.Container, p.Namespace + "/" + p.Pod, p.Pod + "/" + p.ContainerName:
		return true
	}
	return len(name) >= shortID && strings.HasPrefix(p.Container, name)
}

// lives says that the process still runs.
func (s Sources) lives(p ledger.Process) bool { return p.ID.Lives(s.Proc) }

func (s Sources) examine(p ledger.Summary) (*Report, error) {
	in := Input{Process: p.Process, Log: s.Log, LogBoot: s.LogBoot, Crash: s.Crash}
	if _, err := s.Ledger.Read(p.ID, func(r ledger.Record) bool {
		if r.Start == nil { // p has the newest
			in.Records = append(in.Records, r)
		}
		return true
	}); err != nil {
		return nil, err
	}
	in.Alive = !p.Ended && s.lives(p.Process)
	files := FindFiles(p.Process, p.Started.Add(-apart))
	in.HeapDump = files.HeapDump
	if in.Crash == nil && !in.Alive {
		in.Crash = files.Crash
	}
	return Examine(in), nil
}

// lastKill is the last kill of the log that is meant.
func (s Sources) lastKill(meant func(*kernellog.Kill) bool) *kernellog.Kill {
	if s.Log == nil {
		return nil
	}
	for i := len(s.Log.Kills) - 1; i >= 0; i-- {
		if k := &s.Log.Kills[i]; meant(k) {
			return k
		}
	}
	return nil
}

// ofKill makes the autopsy of a process that only the kernel's log knows.
func (s Sources) ofKill(k *kernellog.Kill) *Report {
	p := ledger.Process{ID: ledger.ID{Boot: k.Boot, PID: k.PID}, PIDs: []int{k.PID}, Name: fmt.Sprintf("%s (process %d)", k.Name, k.PID), UID: k.UID}
	p.Group.Path = k.TaskGroup
	p.Container, p.PodUID = ledger.ContainerOf(k.TaskGroup)
	log := &kernellog.Events{Kills: []kernellog.Kill{*k}, Lines: s.Log.Lines}
	return Examine(Input{Process: p, Log: log, LogBoot: k.Boot, Crash: s.Crash})
}
