package runner

import (
	"fmt"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// hugePages is held for reading while a process is started that is to inherit
// what this process has, and for writing while one is that is not.
var hugePages sync.RWMutex

// startWith starts a command, without transparent huge pages where wanted. The
// switch belongs to a process's whole address space, and a new process takes
// over that of the one that starts it (prctl(2), PR_SET_THP_DISABLE): so this
// process has it on meanwhile, and starts no other one.
func startWith(cmd *exec.Cmd, noHugePages bool) error {
	if !noHugePages {
		hugePages.RLock()
		defer hugePages.RUnlock()
		return cmd.Start()
	}
	hugePages.Lock()
	defer hugePages.Unlock()
	before, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("whether huge pages are switched off: %w", err)
	}
	if err := switchHugePages(1); err != nil {
		return err
	}
	err = cmd.Start()
	restoreErr := switchHugePages(uintptr(before))
	if err == nil && restoreErr != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return also(err, restoreErr)
}

// switchHugePages switches transparent huge pages of this process off (1) or
// on (0).
func switchHugePages(off uintptr) error {
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, off, 0, 0, 0); err != nil {
		return fmt.Errorf("switching huge pages off: %w", err)
	}
	return nil
}
