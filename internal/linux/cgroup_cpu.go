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
	return g.CPUQuota()
}

// CPUQuota is how many processors' worth of time the group may use; see
// CgroupFS.CPUQuota.
func (g *Group) CPUQuota() (cpus float64, limited bool, err error) {
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

// defaultShares is the weight of a group in cgroup v1 unless it is set, and what
// a JVM that counts shares takes as one processor's.
const defaultShares = 1024

// CPUShares is the weight of the group in cgroup v1's unit, 1024 unless it is set; a weight of cgroup v2, 1 to 10000, is converted
// as container runtimes do, and rounded as HotSpot does (JDK:
// CgroupV2Subsystem::cpu_shares in src/hotspot/os/linux/cgroupV2Subsystem_linux.cpp).
func (g *Group) CPUShares() (int64, error) {
	dir, file := g.Dirs["cpu"], "cpu.shares"
	if dir == "" {
		dir, file = g.Dirs[""], "cpu.weight"
	}
	if dir == "" {
		return defaultShares, nil // no hierarchy that could weigh is mounted here
	}
	n, _, err := ReadCgroupValue(dir, file)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the root, or the controller is off
		return defaultShares, nil
	case err != nil:
		return 0, err
	case file == "cpu.weight":
		return sharesOfWeight(n), nil
	}
	return n, nil
}

// sharesOfWeight is shares = 2 + (262142 weight - 1) / 9999, to the nearest
// multiple of 1024 above that; the default weight of 100 is the default.
func sharesOfWeight(weight int64) int64 {
	if weight == 100 {
		return defaultShares
	}
	shares := 2 + (262142*min(weight, 10000)-1)/9999
	if shares <= defaultShares {
		return defaultShares
	}
	return (shares + defaultShares/2) / defaultShares * defaultShares
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
