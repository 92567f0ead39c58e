package linux

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// FS is a proc file system.
type FS struct {
	root string
}

// NewFS returns the proc file system at root, "/proc" on a live machine.
func NewFS(root string) FS { return FS{root} }

// Root is where the file system is mounted.
func (fs FS) Root() string { return fs.root }

// Path returns the path of a file of process pid.
func (fs FS) Path(pid int, elem ...string) string {
	return filepath.Join(append([]string{fs.root, strconv.Itoa(pid)}, elem...)...)
}

// open opens a file of process pid and hands it to parse, naming the file in
// every error.
func open[T any](fs FS, pid int, name string, parse func(io.Reader) (T, error)) (T, error) {
	path := fs.Path(pid, name)
	f, err := os.Open(path)
	if err != nil {
		var zero T
		return zero, err
	}
	defer f.Close()
	v, err := parse(f)
	if err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// PIDs lists the processes.
func (fs FS) PIDs() ([]int, error) { return numericNames(fs.root) }

// Self is the PID by which this file system lists the process that asks, 0 where it does not list
// it, as that of another PID namespace (proc_self(5)).
func (fs FS) Self() int {
	name, _ := os.Readlink(filepath.Join(fs.root, "self"))
	pid, _ := strconv.Atoi(name)
	return pid
}

// TIDs lists the threads of process pid.
func (fs FS) TIDs(pid int) ([]int, error) { return numericNames(fs.Path(pid, "task")) }

func numericNames(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	ids := make([]int, 0, len(names))
	for _, n := range names {
		if id, err := strconv.Atoi(n); err == nil && id > 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
