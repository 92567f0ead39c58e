package agent

import (
	"math"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// jvm is a JVM that the agent watches.
type jvm struct {
	target *process.Target // without its mappings, which are read anew
	who    ledger.Process
	limit  linux.MemoryLimit
	own    linux.MemoryGroup // its group, which may lie below that of the limit
	series *footprint.Series
	perf   *hotspot.PerfFile // nil until the JVM has one
	// told says that the ledger has its start; a full disk may delay that.
	told bool

	// alarmed is the limit that the alarm is set for, unset how it is taken back.
	alarmed int64
	unset   func()
	// unsetEnd takes back the alarm for its end; nil without one.
	unsetEnd func()

	counters ledger.Counters // the last
	// look and glance are when, in time since boot, the counters and the usage are
	// read again.
	look, glance time.Duration
	slope        slope

	// weighed is when it was weighed last, 0 before; at is what was resident then.
	weighed time.Duration
	at      int64
	// want is why it is to be weighed, "" when it is not; wanted is since when, of a first
	// weighing from when on.
	want   ledger.Reason
	wanted time.Duration
	// known says that it was weighed in full once.
	known bool
	// lastLook is when its limit was near last, left the headroom then, calm how
	// long no other last look follows unless that was halved. waited counts the last
	// looks that followed for no other reason than that time.
	lastLook, calm time.Duration
	left           int64
	waited         int
	pressed        pause // between two that pressure has made
}

// due is when it is to be read again.
func (j *jvm) due() time.Duration { return min(j.look, j.glance) }

// hurries says that a JVM, as fast as it rises, reaches its limit within the longest time
// between two glances. Other glances are for what may begin to rise, and there are many of
// them where limits are small.
func (j *jvm) hurries() bool {
	c := &j.counters
	return c.Limit > 0 && j.slope.perSecond*latest.Seconds() > float64(headroom(c))
}

// worth says whether a further last look tells enough: some time after the one
// before, or with half the headroom left.
func (j *jvm) worth(left int64, up time.Duration) bool {
	return up-j.lastLook >= j.calm || left < j.left/2
}

// looked notes a last look. A JVM at its limit may live on for seconds while the
// kernel drops its page cache and reads it again, and be killed then: only after
// some looks the time to the next one grows.
func (j *jvm) looked(left int64, up time.Duration) {
	if left >= j.left/2 {
		if j.waited++; j.waited > patience {
			j.calm = min(2*j.calm, longestCalm)
		}
	}
	j.lastLook, j.left = up, left
}

// relax forgets last looks: the limit is far again.
func (j *jvm) relax() { j.calm, j.left, j.waited = shortestCalm, math.MaxInt64, 0 }

// slope follows the usage of a group.
type slope struct {
	usage int64
	at    time.Duration
	// perSecond is by how many bytes usage rose in a second.
	perSecond float64
}

// add adds a reading. Readings closer than a scheduling hiccup say little.
func (s *slope) add(usage int64, uptime time.Duration) {
	const shortest = 20 * time.Millisecond
	if s.at > 0 && uptime-s.at < shortest {
		return
	}
	if s.at > 0 {
		s.perSecond = float64(usage-s.usage) / (uptime - s.at).Seconds()
	}
	s.usage, s.at = usage, uptime
}

const (
	// fastest is the growth that the next glance comes in time for.
	fastest = 200 << 20 // bytes a second
	// soonest and latest bound the time to the next glance.
	soonest = 100 * time.Millisecond
	latest  = 10 * time.Second
	// near is how long before it reaches its limit a JVM is weighed.
	near = time.Second
	// full is the share of the limit above which any rise is near it.
	full = 0.95
	// brim is the share of the limit above which a group is near its end though it
	// rises no more: it has nothing left to rise by.
	brim = 0.99
	// A last look is followed by no other for some time, which doubles as long as
	// the limit stays near, after so many looks.
	shortestCalm, longestCalm = time.Second, time.Minute
	patience                  = 10
)

// until is how long the next glance at a group may wait.
func until(headroom int64) time.Duration {
	wait := time.Duration(float64(headroom) / fastest * float64(time.Second))
	return min(max(wait, soonest), latest)
}

// nearEnd says whether a group with so much headroom may reach its limit soon.
func (s *slope) nearEnd(headroom, limit int64) bool {
	left, share := float64(headroom), float64(headroom)/float64(limit)
	rising := s.perSecond > 0
	return share < 1-brim || rising && (left < s.perSecond*near.Seconds() || share < 1-full)
}

// moved says whether so much is another resident memory than when the JVM was
// weighed: by two percent, and by 4 MiB. The usage of its group would tell of other
// processes too.
func (j *jvm) moved(resident int64) bool {
	d := resident - j.at
	return max(d, -d) > max(4<<20, max(resident, j.at)/50)
}

// headroom is what the group may still take, less what the kernel can drop.
func headroom(c *ledger.Counters) int64 { return max(0, c.Limit-(c.Usage-c.Reclaimable)) }

// readCounters looks at a JVM: its group, its status, its performance data. What
// cannot be read is zero.
func (j *jvm) readCounters(proc linux.FS) ledger.Counters {
	var c ledger.Counters
	if st, err := proc.Status(j.target.PID); err == nil {
		c.Resident, c.Threads = st.VmRSS, st.Threads
	}
	j.readGroup(&c)
	if j.perf == nil {
		j.perf, _ = hotspot.OpenPerfData(proc.Root(), j.target.PID)
	}
	if j.perf == nil {
		return c
	}
	data, err := j.perf.Read()
	if err != nil {
		return c
	}
	p := data.Counters()
	c.HeapUsed, c.HeapCommitted, c.HeapAfterGC = p.HeapUsed, p.HeapCapacity, p.UsedAfterGC
	c.Collections, c.GCTime = p.GCCount(), p.GCTime()
	c.Classes = p.LoadedClasses - p.UnloadedClasses
	return c
}

// readGroup reads the group whose limit is the smallest. The limit of a running
// container can be changed.
func (j *jvm) readGroup(c *ledger.Counters) {
	g := j.limit.Group
	if g.Dir == "" {
		return
	}
	c.Usage, _ = g.Usage()
	c.Limit, c.High = j.limit.Bytes, j.limit.HighBytes
	if n, limited, err := g.Limit(); err == nil && limited {
		c.Limit = n
	}
	c.Reclaimable = reclaimable(g)
	j.readEvents(c)
	if p, err := linux.ReadCgroupPressure(g.Dir, "memory.pressure"); err == nil {
		c.PressureSome, c.PressureFull = p.Some, p.Full
	}
}

// reclaimable is the page cache of a group that the kernel drops or writes back
// before it kills.
func reclaimable(g linux.MemoryGroup) int64 {
	stat, err := g.Stat()
	if err != nil {
		return 0
	}
	prefix := ""
	if g.Version == 1 {
		prefix = "total_"
	}
	return stat[prefix+"active_file"] + stat[prefix+"inactive_file"]
}

// readEvents reads what befell a group (memory.events; memory.failcnt,
// memory.memsw.failcnt and memory.oom_control of cgroup v1). v1 counts a kill for the group of the process, v2
// for those above as well.
func (j *jvm) readEvents(c *ledger.Counters) {
	g := j.limit.Group
	if g.Version == 1 {
		c.AtLimit = 0
		// With a limit of the same size for memory and swap together that is tried first.
		for _, name := range []string{"memory.failcnt", "memory.memsw.failcnt"} {
			n, _, _ := linux.ReadCgroupValue(g.Dir, name)
			c.AtLimit += n
		}
		c.OOMKills, _ = g.OOMKills()
		if j.own.Dir != g.Dir && j.own.Dir != "" {
			own, _ := j.own.OOMKills()
			c.OOMKills += own
		}
		return
	}
	if events, err := linux.ReadCgroupKeyed(g.Dir, "memory.events"); err == nil {
		c.AtLimit, c.OOM, c.OOMKills = events["max"], events["oom"], events["oom_kill"]
	}
}

func (j *jvm) close() {
	if j.perf != nil {
		j.perf.Close()
		j.perf = nil
	}
	for _, unset := range []func(){j.unset, j.unsetEnd} {
		if unset != nil {
			unset()
		}
	}
	j.unset, j.unsetEnd = nil, nil
}
