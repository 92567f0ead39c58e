package footprint

import (
	"errors"
	"io/fs"
	"syscall"

	"tare.dev/tare/internal/linux"
)

// readCgroup reads the memory side of the control group of the process. A
// machine without control groups has none, and that is said.
func (s *scan) readCgroup(proc linux.FS) {
	_ = s.timed("control group", func() error {
		groups := linux.NewCgroupFS(proc, "/")
		m, err := groups.MemoryOf(s.target.PID)
		if err != nil {
			return err
		}
		s.cgroup = newCgroup(m, s.anonymous())
		if machine, err := proc.MemInfo(); err == nil {
			left := min(m.SwapLeftBytes, machine.SwapFree)
			s.cgroup.SwapLeftBytes = &left
		}
		if s.series.lean() {
			s.cgroup.Parts = nil
			return nil
		}
		cpus, limited, err := groups.CPUQuota(s.target.PID)
		if limited {
			s.cgroup.CPUs = &cpus
		}
		return errors.Join(err, s.cgroup.readEvents(m))
	})
}

// readEvents reads what befell the group.
func (c *Cgroup) readEvents(m *linux.CgroupMemory) error {
	c.Events = map[string]int64{}
	if m.Version == 1 {
		if n, ok := m.Stat["total_workingset_refault_file"]; ok {
			c.Events["workingset_refault_file"] = n
		}
	} else if n, ok := m.Stat["workingset_refault_file"]; ok {
		c.Events["workingset_refault_file"] = n
	}
	file := "memory.events"
	if m.Version == 1 {
		file = "memory.oom_control"
	}
	counts, err1 := linux.ReadCgroupKeyed(m.Dir, file)
	for _, name := range []string{"max", "oom_kill"} {
		if n, ok := counts[name]; ok {
			c.Events[name] = n
		}
	}
	var err2 error
	if m.Version == 1 {
		var n int64
		if n, _, err2 = linux.ReadCgroupValue(m.Dir, "memory.failcnt"); err2 == nil {
			c.Events["max"] = n
		}
	}
	p, err3 := linux.ReadCgroupPressure(m.Dir, "memory.pressure")
	if err3 == nil {
		c.PressureSome300 = &p.Some300
	}
	return errors.Join(unlessAbsent(err1), unlessAbsent(err2), unlessAbsent(err3))
}

// unlessAbsent drops the errors of files that a kernel or the root group does
// not have.
func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) {
		return nil
	}
	return err
}

// newCgroup makes the view of the limit; anonymous is what the process itself
// has of anonymous memory.
func newCgroup(m *linux.CgroupMemory, anonymous int64) *Cgroup {
	stat := groupStat(m)
	c := &Cgroup{
		Version: m.Version, Path: m.Path, UsageBytes: m.UsageBytes,
		// The kernel drops or writes back what is on its file lists before
		// it kills.
		ReclaimableBytes: min(stat("active_file")+stat("inactive_file"), m.UsageBytes),
		Parts:            parts(m, anonymous),
	}
	if m.LimitBytes > 0 {
		limit := m.LimitBytes
		headroom := limit - (c.UsageBytes - c.ReclaimableBytes)
		c.LimitBytes, c.HeadroomBytes = &limit, &headroom
	}
	if m.HighBytes > 0 {
		high := m.HighBytes
		headroom := high - (m.HighUsageBytes - min(c.ReclaimableBytes, m.HighUsageBytes))
		c.HighBytes, c.HighHeadroomBytes = &high, &headroom
	}
	return c
}

// groupStat looks up memory.stat, groups below included (kernel:
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; v1 counts
// them under names that begin with "total_").
func groupStat(m *linux.CgroupMemory) func(string) int64 {
	prefix := ""
	if m.Version == 1 {
		prefix = "total_"
	}
	return func(name string) int64 { return m.Stat[prefix+name] }
}

// parts divides the usage of a group. The kernel counts the parts apart from
// the whole, some of them late: what does not fit is the last part, and may be
// negative.
func parts(m *linux.CgroupMemory, anonymous int64) []Part {
	stat := groupStat(m)
	anon, cache := stat("anon"), stat("file")
	if m.Version == 1 {
		anon, cache = stat("rss"), stat("cache")
	}
	own := min(anonymous, anon)
	shmem := stat("shmem")
	out := []Part{
		{"this process: heap, stacks and other anonymous memory", own},
		{otherProcesses, anon - own},
		{"page cache in use (active)", stat("active_file")},
		{"page cache not used lately (inactive)", stat("inactive_file")},
		{"shared memory and tmpfs", shmem},
		{"page cache, other", cache - shmem - stat("active_file") - stat("inactive_file")},
	}
	for _, k := range []struct{ name, key string }{
		{"kernel: thread stacks", "kernel_stack"},
		{"kernel: page tables", "pagetables"},
		{"kernel: slab", "slab"},
		{"kernel: sockets", "sock"},
		{"kernel: per-processor data", "percpu"},
		{"kernel: vmalloc", "vmalloc"},
	} {
		if n, ok := m.Stat[k.key]; ok && m.Version == 2 {
			out = append(out, Part{k.name, n})
		}
	}
	if m.KernelBytes > 0 { // v1 tells it in one sum
		out = append(out, Part{"kernel: stacks, page tables, slab, sockets", m.KernelBytes})
	}
	rest := m.UsageBytes
	for _, p := range out {
		rest -= p.Bytes
	}
	return append(out, Part{"charged ahead, or counted late", rest})
}

// otherProcesses names the part of a group's usage that is memory of other processes.
const otherProcesses = "other processes of the group: anonymous memory"

// OthersBytes is the anonymous memory of other processes of the group; 0 where it is not known.
func (c *Cgroup) OthersBytes() int64 {
	if c == nil {
		return 0
	}
	for _, p := range c.Parts {
		if p.Name == otherProcesses {
			return max(0, p.Bytes)
		}
	}
	return 0
}
