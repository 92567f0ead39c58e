package autopsy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/ledger"
)

// Files are what a JVM itself left of its end.
type Files struct {
	Crash    *Crash
	HeapDump string
}

// FindFiles looks for the hs_err file and the heap dump of a JVM where it writes them:
// below root (the folder of this machine that its files land in, "" for this machine's
// own root), in its working directory, in /tmp, or where its options say. Files of
// another process or of another time are passed over, and so is what cannot be read.
func FindFiles(p ledger.Process, notBefore time.Time) Files {
	var out Files
	if p.OwnRoot && p.Root == "" {
		return out // its root is not known
	}
	root, err := os.OpenRoot(cmpRoot(p.Root))
	if err != nil {
		return out
	}
	defer root.Close()
	pid := p.ID.PID
	if n := len(p.PIDs); n > 0 {
		pid = p.PIDs[n-1]
	}
	for _, name := range crashNames(p, pid) {
		if c, err := readCrashIn(root, name, notBefore); err == nil && c.PID == pid {
			c.File = filepath.Join("/", p.Root, name)
			out.Crash = c
			break
		}
	}
	for _, name := range dumpNames(p, pid) {
		if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() && !info.ModTime().Before(notBefore) {
			out.HeapDump = filepath.Join("/", p.Root, name)
			break
		}
	}
	return out
}

func cmpRoot(root string) string {
	if root == "" {
		return "/"
	}
	return root
}

// crashNames are the names that an hs_err file of a JVM can have (JDK:
// VMError::prepare_log_file), below its root.
func crashNames(p ledger.Process, pid int) []string {
	var out []string
	if f := p.Flags["ErrorFile"]; f != "" {
		out = append(out, inRoot(p.Dir, expand(f, pid)))
	}
	name := fmt.Sprintf("hs_err_pid%d.log", pid)
	return append(out, inRoot(p.Dir, name), inRoot("/tmp", name))
}

// dumpNames are the names of its heap dump (JDK: HeapDumper::dump_heap).
func dumpNames(p ledger.Process, pid int) []string {
	name := fmt.Sprintf("java_pid%d.hprof", pid)
	f := p.Flags["HeapDumpPath"]
	if f == "" {
		return []string{inRoot(p.Dir, name)}
	}
	f = inRoot(p.Dir, expand(f, pid))
	return []string{filepath.Join(f, name), f} // a folder, or the file itself
}

// expand puts the process id for %p, as the JVM does.
func expand(name string, pid int) string {
	return strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid)).Replace(name)
}

// inRoot is a path as the JVM sees it, relative to its root.
func inRoot(dir, name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join("/", dir, name)
	}
	return strings.TrimPrefix(filepath.Clean(name), "/")
}

// errOther says that a file is of another time or kind.
var errOther = errors.New("not a file of this JVM")

// readCrashIn reads an hs_err file without leaving its root, and without waiting for
// a FIFO.
func readCrashIn(root *os.Root, name string, notBefore time.Time) (*Crash, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(notBefore) {
		return nil, errors.Join(errOther, err)
	}
	return ReadCrash(f)
}

// ReadCrashFile reads an hs_err file that a user names.
func ReadCrashFile(name string) (*Crash, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.Join(errNoCrash, err)}
	}
	c, err := ReadCrash(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.File = name
	return c, nil
}
