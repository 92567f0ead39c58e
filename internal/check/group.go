package check

import (
	"os/exec"
	"syscall"
	"time"
)

// killTime is how long what a build started may hold its output open after it was killed.
const killTime = 5 * time.Second

// inGroup has a command and all that it starts end together when its context does.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killTime
}
