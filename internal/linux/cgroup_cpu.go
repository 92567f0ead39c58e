package linux

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPUQuota is how many processors' worth of time the groups of process pid
// may use: the smallest quota on the path to the root, as far as it is visible
// here; limited is false without one. See "CPU Interface Files" in
// Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.
func (c CgroupFS) CPUQuota(pid int) (cpus float64, limited bool, err error) {
	g, err := c.Group(pid)
	if err != nil {
		return 0, false, err
	}
	controller, read := "", readCPUMax
	if g.Dirs["cpu"] != "" {
		controller, read = "cpu", readCFSQuota
	}
	if g.Dirs[controller] == "" {
		return 0, false, nil // no hierarchy that could limit is mounted here
	}
	for _, d := range groupsUpward(g.Dirs[controller], g.Top(controller), 0) {
		n, err := read(d.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the root, or a group without the controller
		}
		if err != nil {
			return 0, false, err
		}
		if n > 0 && (!limited || n < cpus) {
			cpus, limited = n, true
		}
	}
	return cpus, limited, nil
}

// readCPUMax reads cpu.max; 0 is no quota.
func readCPUMax(dir string) (float64, error) {
	return readFile(filepath.Join(dir, "cpu.max"), ParseCPUMax)
}

// ParseCPUMax parses cpu.max, such as "50000 100000" or "max 100000", into a
// number of processors; 0 is no quota.
func ParseCPUMax(r io.Reader) (float64, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil {
		return 0, err
	}
	quota, period, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if !ok {
		return 0, errors.New("line 1: want a quota and a period")
	}
	if quota == "max" {
		quota = "-1"
	}
	return quotient(quota, period)
}

// readCFSQuota reads cpu.cfs_quota_us and cpu.cfs_period_us; 0 is no quota.
func readCFSQuota(dir string) (float64, error) {
	quota, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, err
	}
	period, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0, err
	}
	return quotient(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// quotient is quota by period, both microseconds; a negative quota is none.
func quotient(quota, period string) (float64, error) {
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || p <= 0 || q == 0 {
		return 0, errors.New("the CPU quota or its period is not a number of microseconds")
	}
	return max(0, float64(q)/float64(p)), nil
}
