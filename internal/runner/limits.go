package runner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/linux"
)

// MinMemoryBytes is the smallest memory limit that a runner takes, the same as
// Docker's. Below it the kernel may refuse exec itself for want of memory;
// from here on a process always starts, and a limit that is too small for it
// shows as SIGKILL and Usage.OOMKills.
const MinMemoryBytes = 6 << 20

// cpuPeriod is the period of a CPU quota, the kernel's default; the least
// quota in it is 1 ms (Documentation/scheduler/sched-bwc.rst).
const (
	cpuPeriod = 100 * time.Millisecond
	minCPUs   = 0.01
	maxCPUs   = 8192
)

// check says whether the kernel can be asked for these limits.
func (l Limits) check() error {
	if err := checkMemory(l.MemoryBytes); err != nil {
		return err
	}
	// Written so that NaN is refused.
	if l.CPUs != 0 && !(l.CPUs >= minCPUs && l.CPUs <= maxCPUs) {
		return fmt.Errorf("CPU quota %v: must be 0 (none) or between %v and %v processors", l.CPUs, minCPUs, maxCPUs)
	}
	_, err := linux.ParseCPUList(l.Cpuset)
	return err
}

func checkMemory(bytes int64) error {
	if bytes != 0 && bytes < MinMemoryBytes {
		return fmt.Errorf("memory limit of %d bytes: must be 0 (none) or at least %d (6 MiB)", bytes, MinMemoryBytes)
	}
	return nil
}

// quota is the processor time of all threads in one period, in microseconds.
func (l Limits) quota() int64 {
	return int64(l.CPUs * float64(cpuPeriod.Microseconds()))
}

// checkPinned compares what was asked for with what the kernel made of it:
// cgroup v2 takes processors that the parent does not have, and then pins to
// others.
func checkPinned(asked, got string) error {
	a, err := linux.ParseCPUList(asked)
	if err != nil {
		return err
	}
	g, err := linux.ParseCPUList(got)
	if err != nil {
		return err
	}
	if !slices.Equal(a, g) {
		return fmt.Errorf("cpuset %s: of these only %q can be used here; name others", asked, got)
	}
	return nil
}

// ParseSize reads a size as java and docker write them: "512m", "2g", bytes
// without a unit.
func ParseSize(s string) (int64, error) {
	number, shift := strings.ToLower(s), 0
	for suffix, by := range map[string]int{"k": 10, "m": 20, "g": 30} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, shift = rest, by
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n == 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is no size: write it as 512m or 2g", s)
	}
	return int64(n) << shift, nil
}
