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
		var anonymous int64
		for i := range s.vmas {
			anonymous += s.vmas[i].Anonymous
		}
		s.cgroup = newCgroup(m, anonymous)
		return nil
	})
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
		{"other processes of the group: anonymous memory", anon - own},
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
