package runner

import (
	"errors"
	"io/fs"

	"tare.dev/tare/internal/linux"
)

// limitSlack is how far below its limit a group may be when the kernel kills in
// it: the kernel charges up to 64 pages at once (mm/memcontrol.c,
// MEMCG_CHARGE_BATCH), a huge page as a whole.
const limitSlack = 4 << 20

// limitHits is how often a group's own limit could not be kept by reclaim. The
// kernel's count of kills tells nothing of the reason: it counts those for a
// limit of a group above and for want of memory of the whole machine, too.
//
// On v2 it is "oom" of memory.events.local (since Linux 5.2), or of
// memory.events, which also counts groups below
// (Documentation/admin-guide/cgroup-v2.rst). V1 has no such count, and its
// memory.failcnt stays 0 on recent kernels: there it is 1 where the peak came
// near to the limit, also if reclaim then helped. Where it is 0, the limit was
// not the reason.
func limitHits(m linux.MemoryGroup) (int64, error) {
	if m.Version == 1 {
		limit, limited, err := m.Limit()
		if err != nil || !limited {
			return 0, err
		}
		if peak, err := m.Peak(); err != nil || peak < limit-min(limitSlack, limit/8) {
			return 0, err
		}
		return 1, nil
	}
	events, err := linux.ReadCgroupKeyed(m.Dir, "memory.events.local")
	if errors.Is(err, fs.ErrNotExist) {
		events, err = linux.ReadCgroupKeyed(m.Dir, "memory.events")
	}
	return events["oom"], err
}
