package linux

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrRootGroup says that a process is in no group but the root of its
// hierarchy, whose members are the whole machine.
var ErrRootGroup = errors.New("in the root control group")

// Members lists the processes of the control group of process pid, and of the
// groups below it, in order. The group is that of the memory controller. The
// list holds at least pid.
func (c CgroupFS) Members(pid int) ([]int, error) {
	group, err := c.memoryPath(pid)
	if err != nil {
		return nil, err
	}
	if group == "/" {
		return nil, fmt.Errorf("process %d is %w", pid, ErrRootGroup)
	}
	pids, err := c.proc.PIDs()
	if err != nil {
		return nil, err
	}
	var out []int
	for _, p := range pids {
		path, err := c.memoryPath(p)
		if err != nil {
			continue // it has ended
		}
		if _, ok := relativeTo(group, path); ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

// InGroupNamed says whether the path of the group of process pid holds name,
// as the groups of containers hold the container's id.
func (c CgroupFS) InGroupNamed(pid int, name string) (bool, error) {
	path, err := c.memoryPath(pid)
	return err == nil && name != "" && strings.Contains(path, name), err
}

// memoryPath is the path of the group of process pid in the hierarchy of the
// memory controller: that of v1 where it is mounted, else v2.
func (c CgroupFS) memoryPath(pid int) (string, error) {
	hierarchies, err := c.Hierarchies(pid)
	if err != nil {
		return "", err
	}
	path := ""
	for _, h := range hierarchies {
		if slices.Contains(h.Controllers, "memory") {
			return h.Path, nil
		}
		if h.ID == 0 {
			path = h.Path
		}
	}
	if path == "" {
		return "", fmt.Errorf("process %d is in no cgroup with a memory controller", pid)
	}
	return path, nil
}
