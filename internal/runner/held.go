package runner

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// held are the locks (flock(2)) on the directories of a group. Its owner has
// them as long as it lives, in whatever PID namespace: there the PID in the
// group's name tells nothing to others.
type held []*os.File

// hold locks one more directory.
func (h *held) hold(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("lock of the group %s: %w", dir, err)
	}
	*h = append(*h, f)
	return nil
}

// release lets go of all.
func (h *held) release() {
	closeAll(*h)
	*h = nil
}

// makingTime is how long a group may be there before its owner has locked it.
const makingTime = time.Minute

// abandoned says that a group of another PID namespace has no owner any more,
// and that all that is left in it can be ended from here.
func abandoned(dir string) bool {
	st, err := os.Stat(dir)
	if err != nil || time.Since(st.ModTime()) < makingTime {
		return false
	}
	var lock held
	if lock.hold(dir) != nil {
		return false
	}
	lock.release()
	// Without cgroup.kill, processes that have no PID here cannot be killed.
	pids, err := processesBelow([]string{dir})
	return err == nil && (!slices.Contains(pids, 0) || exists(dir+"/cgroup.kill"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
