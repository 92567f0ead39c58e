// Package process finds the processes that run Java programs, tells their kinds
// apart, and explains what the kernel does not let tare read of them. It reads
// only /proc.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"tare.dev/tare/internal/elffile"
	"tare.dev/tare/internal/linux"
)

// Errors of finding a JVM. A caller tells them apart with errors.Is.
var (
	ErrNoProcess    = errors.New("no such process")
	ErrNotJVM       = errors.New("not a JVM")
	ErrNoPermission = errors.New("no permission")
	ErrAmbiguous    = errors.New("several JVMs match")
)

// Target is a running JVM that tare may read.
type Target struct {
	PID        int
	Name       string // jar, main class, or the process's name
	Birth      linux.Birth
	Status     linux.Status
	Kind       Kind
	Musl       bool // its C library is musl
	LibjvmBase uint64
	LibjvmPath string      // the executable, for a native image
	VMAs       []linux.VMA // the mappings, without page counts
	// ImageHeap is the part of a native image's executable that holds the heap
	// which was built into it.
	ImageHeap elffile.Section
}

// NSPID is the JVM's id in its own PID namespace.
func (t *Target) NSPID() int {
	if n := len(t.Status.NSpid); n > 0 {
		return t.Status.NSpid[n-1]
	}
	return t.PID
}

// Find checks that a process is a live JVM that tare may read. The error is
// ErrNoProcess, ErrNotJVM or an AccessError.
func Find(proc linux.FS, pid int) (*Target, error) {
	t, err := read(proc, pid)
	if err != nil {
		return nil, err
	}
	if !t.recognise(proc) {
		return nil, fmt.Errorf("process %d (%s) is %w", pid, t.Name, ErrNotJVM)
	}
	if args, err := proc.Cmdline(pid); err == nil {
		if name := programName(args); name != "" {
			t.Name = linux.PrintableName(name)
		}
	}
	return t, nil
}

// Anew reads the status and the mappings of the same process again. It keeps the
// name and the kind of the JVM, which do not change. The error is ErrNoProcess
// when the process has ended, even if another one has its id by now.
func (t *Target) Anew(proc linux.FS) (*Target, error) {
	now, err := read(proc, t.PID)
	if err == nil && now.Birth != t.Birth {
		err = fmt.Errorf("process %d: %w", t.PID, ErrNoProcess)
	}
	if err != nil {
		return nil, err
	}
	now.Name, now.Kind, now.Musl = t.Name, t.Kind, t.Musl
	now.LibjvmBase, now.LibjvmPath, now.ImageHeap = t.LibjvmBase, t.LibjvmPath, t.ImageHeap
	return now, nil
}

// read reads what the kernel says of a live process, JVM or not.
func read(proc linux.FS, pid int) (*Target, error) {
	st, err := proc.Status(pid)
	if err != nil {
		return nil, Gone(pid, err)
	}
	if st.State == 'Z' || st.State == 'X' {
		return nil, fmt.Errorf("process %d (%s) has ended: %w", pid, st.Name, ErrNoProcess)
	}
	t := &Target{PID: pid, Name: st.Name, Status: st}
	if t.Birth, err = proc.Birth(pid); err != nil {
		return nil, Gone(pid, err)
	}
	if t.VMAs, err = proc.Maps(pid); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, t.Closed("mappings")
		}
		return nil, Gone(pid, err)
	}
	return t, nil
}

// StillThere says whether the process that was found still runs.
func (t *Target) StillThere(proc linux.FS) bool {
	now, err := proc.Birth(t.PID)
	return err == nil && now == t.Birth
}

// Gone returns ErrNoProcess for an error that says that the process has ended
// meanwhile, and any other error as it is.
func Gone(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return err
}

// List lists the JVMs that this user may see, by PID.
func List(proc linux.FS) ([]*Target, error) {
	pids, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	sort.Ints(pids)
	var out []*Target
	self := proc.Self()
	for _, pid := range pids {
		if pid == self {
			continue
		}
		if t, err := Find(proc, pid); err == nil {
			out = append(out, t)
		}
	}
	return out, nil
}

// Resolve finds the JVM that a user names by PID, main class (with or without
// its package) or jar (with or without its directory).
func Resolve(proc linux.FS, name string) (*Target, error) {
	if pid, err := strconv.Atoi(name); err == nil {
		if pid <= 0 {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		t, err := Find(proc, pid)
		if err != nil {
			err = elsewhere(proc, pid, err)
		}
		return t, err
	}
	all, err := List(proc)
	if err != nil {
		return nil, err
	}
	return Choose(all, name)
}

// Choose picks one of several JVMs by a name as in Resolve. A number is the JVM's
// process id on this machine, or in its own PID namespace.
func Choose(all []*Target, name string) (*Target, error) {
	var found []*Target
	pid, _ := strconv.Atoi(name)
	for _, t := range all {
		if matches(t.Name, name) || pid > 0 && (t.PID == pid || t.NSPID() == pid) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no JVM runs %q: %w", name, ErrNoProcess)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%w %q: %s", ErrAmbiguous, name, names(found))
}

// names lists JVMs for an error: "processes 12, 34".
func names(all []*Target) string {
	pids := make([]string, len(all))
	for i, t := range all {
		pids[i] = strconv.Itoa(t.PID)
	}
	if len(pids) == 1 {
		return "process " + pids[0]
	}
	return "processes " + strings.Join(pids, ", ")
}

// elsewhere adds to an error the JVMs that have the process id in a PID namespace
// of their own: somebody who read the id inside a container means one of those.
func elsewhere(proc linux.FS, pid int, err error) error {
	all, listErr := List(proc)
	if listErr != nil {
		return err
	}
	var found []*Target
	for _, t := range all {
		if t.PID != pid && t.NSPID() == pid {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		return err
	}
	return fmt.Errorf("%w; inside of a container, %d may mean %s", err, pid, names(found))
}

func matches(program, name string) bool {
	if program == name || filepath.Base(program) == filepath.Base(name) {
		return true
	}
	return strings.HasSuffix(program, "."+name) || strings.TrimSuffix(filepath.Base(program), ".jar") == name
}

// valueOptions are options of the java launcher whose value is the next
// argument (java(1)).
var valueOptions = map[string]bool{
	"-cp": true, "-classpath": true, "--class-path": true,
	"-p": true, "--module-path": true, "--upgrade-module-path": true,
	"--add-modules": true, "--add-reads": true, "--add-exports": true,
	"--add-opens": true, "--limit-modules": true, "--patch-module": true,
	"-d": true, "--describe-module": true, "--source": true,
}

// programName is the jar, main class or module of a java command line, or ""
// when the command line has none.
func programName(args []string) string {
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-jar", a == "-m", a == "--module":
			if i+1 < len(args) {
				return args[i+1]
			}
			return ""
		case valueOptions[a]:
			i++
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "@"), a == "":
		default:
			return a
		}
	}
	return ""
}
