package autopsy

import (
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
)

const (
	// slack is how much later than the kernel an agent may see an end: one that has
	// spent its budget looks again within a minute.
	slack = time.Minute
	// apart is how far apart two things are that belong together.
	apart = 5 * time.Second
	// brim is the share of a limit at which it is as good as reached.
	brim = 0.95
	// recent bounds what is told of the time before the end.
	recent = time.Hour
	// ticksPerSecond is USER_HZ.
	ticksPerSecond = 100
)

// exit is how a process ended, where the kernel told.
type exit struct{ code, signal int }

// inquest is one JVM with what belongs to it picked out.
type inquest struct {
	Input
	counters   []ledger.Record
	footprints []ledger.Record
	// ended is the event of its end; nil when the agent saw none.
	ended *ledger.Record
	exit  *exit
	// groupKills is by how much the count of kills of its group rose near the end,
	// limitReached by how much that of times at the limit.
	groupKills, limitReached int64
	// groupKillAt is when that of kills was seen to have risen last.
	groupKillAt *ledger.Record
	// kill is the kernel's of this JVM, other that of another process of its group.
	kill, other *kernellog.Kill
	oomd        *kernellog.GroupKill
}

func newCase(in Input) *inquest {
	c := &inquest{Input: in}
	for i := range in.Records {
		r := &in.Records[i]
		switch {
		case r.Counters != nil:
			c.counters = append(c.counters, *r)
		case r.Footprint != nil:
			c.footprints = append(c.footprints, *r)
		case r.Event != nil:
			c.event(r)
		}
	}
	if c.ended != nil && c.groupKillAt != nil && c.ended.Uptime-c.groupKillAt.Uptime > slack {
		c.groupKills = 0 // long before: another process, which it outlived
	}
	c.readLog()
	return c
}

func (c *inquest) event(r *ledger.Record) {
	rose := r.Event.Values["after"] - r.Event.Values["before"]
	switch r.Event.Kind {
	case ledger.Ended:
		c.ended = r
		if code, signal, told := r.Event.Exit(); told {
			c.exit = &exit{code, signal}
		}
	case ledger.OOMKill:
		c.groupKills, c.groupKillAt = rose, r
	case ledger.LimitReached:
		c.limitReached = rose
	}
}

// started is when it started, as time since boot.
func (c *inquest) started() time.Duration {
	return time.Duration(c.Process.ID.StartTicks) * (time.Second / ticksPerSecond)
}

// lastSeen is when the ledger has it last; 0 without a ledger.
func (c *inquest) lastSeen() time.Duration {
	if n := len(c.Records); n > 0 {
		return c.Records[n-1].Uptime
	}
	return 0
}

// readLog picks out what the kernel's log tells of this JVM.
func (c *inquest) readLog() {
	if c.Log == nil {
		return
	}
	for i := range c.Log.Kills {
		k := &c.Log.Kills[i]
		if !c.sameTime(k.Stamp) {
			continue
		}
		switch {
		case c.isKillOf(k):
			if c.kill == nil || c.kill.PID != k.PID || c.kill.LimitGroup == "" {
				c.kill = k
			}
		case c.inGroup(k.TaskGroup) && !isThreadOfGroup(k, c.kill):
			c.other = k
		}
	}
	for i := range c.Log.OOMD {
		if g := &c.Log.OOMD[i]; c.sameTime(g.Stamp) && c.within(g.Group) {
			c.oomd = g
		}
	}
}

// isKillOf says that a kill is that of this JVM.
func (c *inquest) isKillOf(k *kernellog.Kill) bool {
	if c.Alive {
		return false
	}
	if k.PID == c.Process.ID.PID {
		return true
	}
	if !c.inGroup(k.TaskGroup) {
		return false
	}
	// Of a whole group that was killed one is named, and others by any of their threads.
	return k.Whole && (c.exit == nil || c.exit.signal == 9)
}

// isThreadOfGroup says that a kill is part of one that is known.
func isThreadOfGroup(k, of *kernellog.Kill) bool { return of != nil && of.Whole && k.Whole }

// sameTime says that a line of the log can belong to this JVM: it is of its boot and
// of the time in which it lived, as far as both are known.
func (c *inquest) sameTime(s kernellog.Stamp) bool {
	boot := s.Boot
	if boot == "" {
		boot = c.LogBoot
	}
	if boot != "" && c.Process.ID.Boot != "" && boot != c.Process.ID.Boot {
		return false
	}
	last := c.lastSeen()
	switch {
	case s.Uptime != 0:
		return s.Uptime >= c.started()-time.Second && (c.Alive || last == 0 || s.Uptime <= last+c.unseen())
	case !s.At.IsZero() && !c.Process.Started.IsZero():
		end := time.Time{}
		if n := len(c.Records); n > 0 {
			end = c.Records[n-1].At.Add(c.unseen())
		}
		return !s.At.Before(c.Process.Started.Add(-apart)) && (c.Alive || end.IsZero() || !s.At.After(end))
	}
	return true
}

// unseen is how long after the last record the end may have been.
func (c *inquest) unseen() time.Duration {
	if c.ended != nil {
		return apart
	}
	return slack // the agent was ended itself, or is late
}

// inGroup says that a group of the kernel's log is that of the JVM. The agent may
// see paths from a group below the root.
func (c *inquest) inGroup(group string) bool {
	path := c.Process.Group.Path
	return group != "" && len(path) > 1 && (group == path || strings.HasSuffix(group, path))
}

// within says that the JVM's group is the given one or lies below it.
func (c *inquest) within(group string) bool {
	path := c.Process.Group.Path
	return len(group) > 1 && (path == group || strings.HasPrefix(path, strings.TrimSuffix(group, "/")+"/") || c.inGroup(group))
}

// usage is the usage and the limit that were seen last.
func (c *inquest) usage() (usage, limit int64) {
	var at time.Duration
	for _, all := range [][]ledger.Record{c.counters, c.footprints} {
		for _, r := range slices.Backward(all) {
			if u, l := usageOf(r); u > 0 {
				if r.Uptime >= at {
					usage, limit, at = u, l, r.Uptime
				}
				break
			}
		}
	}
	return usage, limit
}

// full says that the usage was at its limit shortly before the end. The very last
// record may be of the moment after a kill, when the memory is free again.
func (c *inquest) full() bool {
	for _, all := range [][]ledger.Record{c.counters, c.footprints} {
		for _, r := range slices.Backward(all) {
			if c.end()-r.Uptime > 2*apart {
				break
			}
			usage, limit := usageOf(r)
			if limit > 0 && float64(usage) >= brim*float64(limit) {
				return true
			}
		}
	}
	return false
}

func usageOf(r ledger.Record) (usage, limit int64) {
	if r.Counters != nil {
		return r.Counters.Usage, r.Counters.Limit
	}
	return r.Footprint.Usage, r.Footprint.Limit
}

// heap is the state of the heap that was seen last.
func (c *inquest) heap() *Heap {
	var h Heap
	if n := len(c.counters); n > 0 {
		l := c.counters[n-1].Counters
		h.UsedBytes, h.AfterGCBytes = l.HeapUsed, l.HeapAfterGC
	}
	if n := len(c.footprints); n > 0 {
		if f := c.footprints[n-1].Footprint.Heap; f != nil {
			h.MaxBytes = f.Max
			if h.UsedBytes == 0 || c.footprints[n-1].Uptime >= c.counters[max(0, len(c.counters)-1)].Uptime {
				h.UsedBytes, h.AfterGCBytes = f.Used, f.AfterGC
			}
		}
	}
	if h.UsedBytes == 0 {
		return nil
	}
	return &h
}

// heapFull says that the heap had hardly any room left.
func (c *inquest) heapFull() bool {
	h := c.heap()
	return h != nil && h.MaxBytes > 0 && float64(max(h.AfterGCBytes, h.UsedBytes)) >= 0.9*float64(h.MaxBytes)
}

func (c *inquest) flag(name string) bool { return c.Process.Flags[name] == "true" }

// logCovers says that the kernel's log was read and reaches over the end: that it
// tells of no kill then means that there was none.
func (c *inquest) logCovers() bool {
	if c.Log == nil || c.Log.Lines == 0 || c.ended == nil {
		return false
	}
	boot := c.LogBoot
	if c.Log.First.Boot != "" {
		boot = c.Log.First.Boot
	}
	return boot == c.Process.ID.Boot && boot != "" && c.Log.First.Uptime <= c.ended.Uptime-slack
}

// container says which container a group belongs to.
func (c *inquest) ofContainer(group string) bool {
	return c.Process.Container != "" && strings.Contains(group, c.Process.Container)
}

func printable(text string) string { return linux.PrintableName(text) }
