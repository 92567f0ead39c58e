package launch

import (
	"strconv"
	"strings"
	"syscall"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/linux"
)

// prSetTHPDisable is PR_SET_THP_DISABLE of prctl(2), Linux 3.15. The setting is
// kept over execve and inherited by children.
const prSetTHPDisable = 41

// disableTHP switches transparent huge pages off for this process.
func disableTHP() error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetTHPDisable, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// stacksBecomeHuge says that the kernel may make huge pages of the thread
// stacks of this JVM, so that they become resident as a whole (JDK-8312182):
// where huge pages are always taken; before Linux 6.7, which leaves MAP_STACK
// mappings alone (commit c4608d1bf7c6); and in a JVM without the mitigation.
func stacksBecomeHuge(s System, java *jdkfiles.Runtime) bool {
	mode, err := linux.THPMode(s.Sys)
	if err != nil || mode != "always" || !java.HotSpot() {
		return false
	}
	kernel, err := s.Proc.KernelRelease()
	return err == nil && kernelBefore(kernel, 6, 7) && !java.Has("THPStackMitigation")
}

// kernelBefore compares a release such as 6.1.0-18-amd64; one that cannot be
// read is not before any.
func kernelBefore(release string, major, minor int) bool {
	head, rest, _ := strings.Cut(release, ".")
	next, _, _ := strings.Cut(strings.Map(digitsOrDot, rest), ".")
	a, err1 := strconv.Atoi(head)
	b, err2 := strconv.Atoi(next)
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

func digitsOrDot(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return '.'
}
