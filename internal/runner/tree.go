package runner

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// retry calls f until it says done or fails, with growing pauses; after the
// time it returns false.
func retry(limit time.Duration, f func() (done bool, err error)) (bool, error) {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		done, err := f()
		if done || err != nil {
			return done, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		time.Sleep(pause)
	}
}

// killTree kills every process in the groups and the groups below them, and
// returns when none is left.
func killTree(dirs []string, limit time.Duration) error {
	for _, dir := range dirs {
		// cgroup v2 since Linux 5.14: the kernel kills all of them at once,
		// and those that they fork meanwhile.
		err := writeFile(dir, "cgroup.kill", "1")
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			return err
		}
	}
	var pids []int
	done, err := retry(limit, func() (bool, error) {
		var err error
		if pids, err = processesBelow(dirs); err != nil || len(pids) == 0 {
			return err == nil, err
		}
		return false, killMembers(pids, dirs)
	})
	if err == nil && !done {
		err = fmt.Errorf("processes %v in %s do not end, though killed %v ago", pids, dirs[0], limit)
	}
	return err
}

// killMembers kills those of the processes that are in the groups. A PID may
// have been given to another process meanwhile: what is held (by pidfd, where
// there are any) is looked for a second time before it is killed.
func killMembers(pids []int, dirs []string) error {
	held := make([]*os.Process, 0, len(pids))
	for _, pid := range pids {
		if pid == 0 {
			continue // in another PID namespace: only cgroup.kill reaches it
		}
		if p, err := os.FindProcess(pid); err == nil {
			defer p.Release()
			held = append(held, p)
		}
	}
	still, err := processesBelow(dirs)
	if err != nil {
		return err
	}
	for _, p := range held {
		if !slices.Contains(still, p.Pid) {
			continue
		}
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill process %d: %w", p.Pid, err)
		}
	}
	return nil
}

// processesBelow lists the processes in the groups and the groups below them,
// without this one, a thread of which may be passing through.
func processesBelow(dirs []string) ([]int, error) {
	var pids []int
	for _, dir := range dirs {
		err := eachGroup(dir, func(d string) error {
			in, err := processesIn(d)
			pids = append(pids, in...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() }), nil
}

// processesIn lists the processes of one group; 0 stands for each one of
// another PID namespace. A group that has vanished has none.
func processesIn(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if vanished(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range bytes.Lines(text) {
		pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil || pid < 0 {
			return nil, fmt.Errorf("%s/cgroup.procs: not a process: %q", dir, line)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// eachGroup calls f for the groups below dir, deepest first, and for dir.
func eachGroup(dir string, f func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := eachGroup(filepath.Join(dir, e.Name()), f); err != nil {
				return err
			}
		}
	}
	return f(dir)
}

// removeTrees removes the groups and the groups below them. A group is busy
// for a moment after its last process has ended.
func removeTrees(dirs []string, limit time.Duration) error {
	var failed error
	for _, dir := range dirs {
		var last error
		done, err := retry(limit, func() (bool, error) {
			last = eachGroup(dir, removeGroup)
			if errors.Is(last, syscall.EBUSY) {
				return false, nil
			}
			return last == nil, last
		})
		if err == nil && !done {
			err = last
		}
		failed = also(failed, err)
	}
	return failed
}

// destroy kills what is in the groups and removes them.
func destroy(dirs []string) error {
	if err := killTree(dirs, killTime); err != nil {
		return err
	}
	return removeTrees(dirs, killTime)
}

// also joins two errors, either of which may be nil, in one line.
func also(err, more error) error {
	if err == nil || more == nil {
		return cmp.Or(err, more)
	}
	return fmt.Errorf("%w; %w", err, more)
}

func removeGroup(dir string) error {
	if err := syscall.Rmdir(dir); err != nil && !vanished(err) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// vanished says that a group was removed: reading a file of it that was open
// already gives ENODEV.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// writeFile writes to a file of a group, which must exist.
func writeFile(dir, name, text string) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return fmt.Errorf("%w (writing %q)", err, text)
	}
	return nil
}
