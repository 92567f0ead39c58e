package hotspot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"tare/internal/linux"
)

// Errors that a caller tells apart with errors.Is.
var (
	ErrNoProcess    = errors.New("no such process")
	ErrNotJVM       = errors.New("not a JVM")
	ErrNoPermission = errors.New("no permission")
	ErrAmbiguous    = errors.New("several JVMs match")
)

// Target is a JVM that was found fit to be read.
type Target struct {
	PID        int
	Name       string // jar, main class, or the process's name
	Birth      linux.Birth
	Status     linux.Status
	Kind       Kind
	Musl       bool // its C library is musl
	LibjvmBase uint64
	LibjvmPath string      // of a native image: its executable
	VMAs       []linux.VMA // without page counts
	// ImageHeap is where in its executable a native image keeps the heap that
	// was built in, as offsets in the file.
	ImageHeap Region
}

// NSPID is the JVM's id in its own PID namespace.
func (t *Target) NSPID() int {
	if n := len(t.Status.NSpid); n > 0 {
		return t.Status.NSpid[n-1]
	}
	return t.PID
}

// FindTarget checks that pid is a live JVM that may be read. It only reads
// /proc.
func FindTarget(proc linux.FS, pid int) (*Target, error) {
	st, err := proc.Status(pid)
	if err != nil {
		return nil, gone(pid, err)
	}
	if st.State == 'Z' || st.State == 'X' {
		return nil, fmt.Errorf("process %d (%s) has ended: %w", pid, st.Name, ErrNoProcess)
	}
	t := &Target{PID: pid, Name: st.Name, Status: st}
	if t.Birth, err = proc.Birth(pid); err != nil {
		return nil, gone(pid, err)
	}
	if t.VMAs, err = proc.Maps(pid); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, t.Closed("mappings")
		}
		return nil, gone(pid, err)
	}
	if !t.recognise(proc) {
		return nil, fmt.Errorf("process %d (%s) is %w", pid, st.Name, ErrNotJVM)
	}
	if args, err := proc.Cmdline(pid); err == nil {
		if name := programName(args); name != "" {
			t.Name = linux.PrintableName(name)
		}
	}
	return t, nil
}

// StillThere says whether the process that was found still runs.
func (t *Target) StillThere(proc linux.FS) bool {
	now, err := proc.Birth(t.PID)
	return err == nil && now == t.Birth
}

// gone turns the errors of reading a process that has ended meanwhile into
// ErrNoProcess.
func gone(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return err
}

// ListTargets lists the JVMs that this user may see, by PID.
func ListTargets(proc linux.FS) ([]*Target, error) {
	pids, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	sort.Ints(pids)
	var out []*Target
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		if t, err := FindTarget(proc, pid); err == nil {
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
		t, err := FindTarget(proc, pid)
		if err != nil {
			err = elsewhere(proc, pid, err)
		}
		return t, err
	}
	all, err := ListTargets(proc)
	if err != nil {
		return nil, err
	}
	return Choose(all, name)
}

// Choose picks the one of the JVMs that a user names as for Resolve. A number
// may also be the JVM's id in its own PID namespace.
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

// elsewhere adds to the error for a process id the JVMs that have this id in a
// PID namespace of their own: who reads the id inside of a container means one
// of those.
func elsewhere(proc linux.FS, pid int, err error) error {
	all, listErr := ListTargets(proc)
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
