package footprint

import (
	"tare/internal/linux"
)

// readCgroup reads the memory side of the control group of the process. A
// machine without control groups has none, and that is said.
func (s *scan) readCgroup(proc linux.FS) {
	_ = s.timed("control group", func() error {
		m, err := linux.NewCgroupFS(proc, "/").MemoryOf(s.target.PID)
		if err != nil {
			return err
		}
		s.cgroup = newCgroup(m)
		return nil
	})
}

func newCgroup(m *linux.CgroupMemory) *Cgroup {
	c := &Cgroup{
		Version: m.Version, Path: m.Path, UsageBytes: m.UsageBytes,
		ReclaimableBytes: reclaimable(m),
	}
	if m.LimitBytes > 0 {
		limit := m.LimitBytes
		headroom := limit - (c.UsageBytes - c.ReclaimableBytes)
		c.LimitBytes, c.HeadroomBytes = &limit, &headroom
	}
	return c
}

// reclaimable is the page cache on the kernel's file lists, which it drops or
// writes back before it kills (kernel:
// Documentation/admin-guide/cgroup-v2.rst, memory.stat; v1 counts the
// children under names that begin with "total_").
func reclaimable(m *linux.CgroupMemory) int64 {
	prefix := ""
	if m.Version == 1 {
		prefix = "total_"
	}
	sum := m.Stat[prefix+"active_file"] + m.Stat[prefix+"inactive_file"]
	return min(sum, m.UsageBytes)
}
