package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
)

// unlimitedV1 is the least number that cgroup v1 is taken to mean "unlimited"
// by: the kernel says the largest multiple of the page size below 1<<63, or
// below 1<<64 before Linux 3.19.
const unlimitedV1 = 1 << 62

// MemoryGroup is the directory of one group in the hierarchy of the memory
// controller. See Documentation/admin-guide/cgroup-v1/memory.rst and
// Documentation/admin-guide/cgroup-v2.rst.
type MemoryGroup struct {
	Version int
	Dir     string
}

// Usage is the memory that the group and those below it use, page cache
// included, in bytes.
func (m MemoryGroup) Usage() (int64, error) {
	n, _, err := ReadCgroupValue(m.Dir, m.file("memory.usage_in_bytes", "memory.current"))
	return n, err
}

// Limit is the group's own limit in bytes; limited is false without one.
func (m MemoryGroup) Limit() (n int64, limited bool, err error) {
	n, limited, err = ReadCgroupValue(m.Dir, m.file("memory.limit_in_bytes", "memory.max"))
	if err != nil || !limited || m.Version == 1 && n >= unlimitedV1 {
		return 0, false, err
	}
	return n, true, nil
}

// Peak is the highest usage since the group was made or the mark was reset.
// Before Linux 5.19 cgroup v2 does not tell: fs.ErrNotExist.
func (m MemoryGroup) Peak() (int64, error) {
	n, _, err := ReadCgroupValue(m.Dir, m.file("memory.max_usage_in_bytes", "memory.peak"))
	return n, err
}

// OOMKills is how many processes of the group the kernel killed for want of
// memory; on v2 also of the groups below it. Before Linux 4.13 v1 does not
// tell: an error.
func (m MemoryGroup) OOMKills() (int64, error) {
	name := m.file("memory.oom_control", "memory.events")
	values, err := ReadCgroupKeyed(m.Dir, name)
	if err != nil {
		return 0, err
	}
	n, ok := values["oom_kill"]
	if !ok {
		return 0, fmt.Errorf("%s: no oom_kill; it needs Linux 4.13", filepath.Join(m.Dir, name))
	}
	return n, nil
}

// Stat is memory.stat with the kernel's own names. On v1 the names with
// "total_" include the groups below, on v2 all do.
func (m MemoryGroup) Stat() (map[string]int64, error) {
	return ReadCgroupKeyed(m.Dir, "memory.stat")
}

func (m MemoryGroup) file(v1, v2 string) string {
	if m.Version == 1 {
		return v1
	}
	return v2
}

// CgroupMemory is what limits the memory of a process, and how much of it is
// in use.
type CgroupMemory struct {
	Version int
	// Path is the group of the process, as in /proc/PID/cgroup.
	Path string
	// Dir is the directory that Usage and Stat come from: of the group that
	// has the limit, else of the process's own.
	Dir string
	// LimitBytes is the smallest limit on the path to the root; 0 is none. Of
	// several equal ones it is the outermost group's, whose usage is highest.
	LimitBytes int64
	// LimitHidden says that the limit belongs to a group above all that are
	// visible here (cgroup v1 in a container): Dir is then the process's own.
	LimitHidden bool
	// UsageBytes is the usage of the group, page cache included.
	UsageBytes int64
	// Stat is the memory.stat of the group; see MemoryGroup.Stat.
	Stat map[string]int64
	// HighBytes is the smallest memory.high on the path (v2), above which the
	// kernel slows the group down and reclaims; 0 is none. HighUsageBytes is the
	// usage of the group that has it.
	HighBytes, HighUsageBytes int64
	// SwapLeftBytes is how much the group may still swap out, as far as its own
	// limits tell: math.MaxInt64 without one.
	SwapLeftBytes int64
	// KernelBytes is the kernel's own memory for the group, of cgroup v1,
	// whose memory.stat does not tell it.
	KernelBytes int64
}

// MemoryLimit is the smallest memory limit on a process's path to the root, as
// far as it is visible here.
type MemoryLimit struct {
	// Bytes is the limit; 0 is none.
	Bytes int64
	// Group is the outermost group that has this limit. Where no visible group
	// has it (Hidden), or there is none, it is the group to read usage from:
	// the innermost that has the controller's files.
	Group MemoryGroup
	// Hidden says that the limit belongs to a group above all that are visible.
	Hidden bool
	// HighBytes is the smallest memory.high (v2), above which the kernel slows
	// the group down and reclaims; 0 is none.
	HighBytes int64
	// HighDir is the directory of the group that has it.
	HighDir string
}

// MemoryLimit reads what limits the memory of the group.
func (g *Group) MemoryLimit() (MemoryLimit, error) {
	if g.Version == 1 {
		return limitV1(groupsUpward(g.Dirs["memory"], g.Top("memory"), 1))
	}
	return limitV2(groupsUpward(g.Dirs[""], g.Top(""), 2))
}

// MemoryOf reads the memory side of the group of process pid.
func (c CgroupFS) MemoryOf(pid int) (*CgroupMemory, error) {
	g, err := c.Group(pid)
	if err != nil {
		return nil, err
	}
	limit, err := g.MemoryLimit()
	if err != nil {
		return nil, err
	}
	m := &CgroupMemory{Version: g.Version, Path: g.Path, LimitBytes: limit.Bytes, LimitHidden: limit.Hidden}
	if err := m.read(limit.Group); err != nil {
		return m, err
	}
	if limit.HighBytes > 0 {
		m.HighBytes = limit.HighBytes
		if m.HighUsageBytes, err = (MemoryGroup{Version: 2, Dir: limit.HighDir}).Usage(); err != nil {
			return m, err
		}
	}
	if g.Version == 1 {
		m.SwapLeftBytes, err = swapLeftV1(limit.Group)
		return m, err
	}
	m.SwapLeftBytes, err = swapLeftV2(groupsUpward(g.Dirs[""], g.Top(""), 2))
	return m, err
}

// swapLeftV2 is the least that memory.swap.max of a group on the path leaves.
func swapLeftV2(path []MemoryGroup) (int64, error) {
	left := int64(math.MaxInt64)
	for _, g := range path {
		most, limited, err := ReadCgroupValue(g.Dir, "memory.swap.max")
		if errors.Is(err, fs.ErrNotExist) || err == nil && !limited {
			continue // the root, a group without the controller, no swap in the kernel
		}
		if err != nil {
			return 0, err
		}
		used, _, err := ReadCgroupValue(g.Dir, "memory.swap.current")
		if err != nil {
			return 0, err
		}
		left = min(left, max(0, most-used))
	}
	return left, nil
}

// swapLeftV1 is what memory.memsw.limit_in_bytes, which bounds memory and swap
// together, leaves beyond the limit of memory.
func swapLeftV1(g MemoryGroup) (int64, error) {
	both, limited, err := ReadCgroupValue(g.Dir, "memory.memsw.limit_in_bytes")
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!limited || both >= unlimitedV1) {
		return math.MaxInt64, nil // swap is not accounted, or not limited
	}
	if err != nil {
		return 0, err
	}
	used, _, err := ReadCgroupValue(g.Dir, "memory.memsw.usage_in_bytes")
	if err != nil {
		return 0, err
	}
	most, limited, err := g.Limit()
	if err != nil || !limited {
		return math.MaxInt64, err
	}
	usage, err := g.Usage()
	return max(0, both-used-(most-usage)), err
}

// groupsUpward lists the groups from dir to top, both included.
func groupsUpward(dir, top string, version int) []MemoryGroup {
	var out []MemoryGroup
	for {
		out = append(out, MemoryGroup{Version: version, Dir: dir})
		if up := filepath.Dir(dir); dir != top && up != dir {
			dir = up
			continue
		}
		return out
	}
}

// limitV1 trusts hierarchical_memory_limit, which knows of groups that are not
// visible here and of memory.use_hierarchy, and looks for the group it is of.
func limitV1(path []MemoryGroup) (MemoryLimit, error) {
	l := MemoryLimit{Group: path[0]}
	stat, err := path[0].Stat()
	if err != nil {
		return l, err
	}
	limit, ok := stat["hierarchical_memory_limit"]
	if !ok {
		return l, fmt.Errorf("%s: no hierarchical_memory_limit", filepath.Join(path[0].Dir, "memory.stat"))
	}
	if limit >= unlimitedV1 {
		return l, nil
	}
	l.Bytes, l.Hidden = limit, true
	for _, g := range path {
		n, limited, err := g.Limit()
		if err != nil {
			return l, err
		}
		if limited && n == limit {
			l.Group, l.Hidden = g, false
		}
	}
	return l, nil
}

// limitV2 takes the smallest limit of the visible groups. Groups that the
// memory controller is not enabled for have no files of it: their usage is
// part of the next group's above.
func limitV2(path []MemoryGroup) (MemoryLimit, error) {
	l := MemoryLimit{Group: path[len(path)-1]}
	smallest, high, found := int64(math.MaxInt64), int64(math.MaxInt64), false
	for _, g := range path {
		n, limited, err := g.Limit()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l, err
		}
		if !found || limited && n <= smallest {
			l.Group, found = g, true
		}
		if limited && n <= smallest {
			smallest, l.Bytes = n, n
		}
		h, limited, err := ReadCgroupValue(g.Dir, "memory.high")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
		if err == nil && limited && h <= high {
			high, l.HighBytes, l.HighDir = h, h, g.Dir
		}
	}
	return l, nil
}

func (m *CgroupMemory) read(g MemoryGroup) (err error) {
	m.Dir = g.Dir
	m.UsageBytes, err = g.Usage()
	if g.Version == 2 && errors.Is(err, fs.ErrNotExist) {
		return m.readRoot(g)
	}
	if err != nil {
		return err
	}
	if g.Version == 1 {
		// Absent when the kernel accounts none.
		m.KernelBytes, _, err = ReadCgroupValue(g.Dir, "memory.kmem.usage_in_bytes")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	m.Stat, err = g.Stat()
	return err
}

// readRoot reads the root of the v2 hierarchy, which has no memory.current: its
// usage is all that is charged to any group, anonymous and file pages, as
// cgroup v1 reckons it for its root (mem_cgroup_usage in the kernel's
// mm/memcontrol.c).
func (m *CgroupMemory) readRoot(g MemoryGroup) (err error) {
	m.Dir = g.Dir
	m.Stat, err = g.Stat()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the memory controller is not enabled for the group %s: %w", m.Path, err)
	}
	m.UsageBytes = m.Stat["anon"] + m.Stat["file"]
	return err
}
