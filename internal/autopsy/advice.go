package autopsy

import (
	"fmt"
	"math"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
)

// advise says what would have kept the JVM alive, or what to do next.
func (c *inquest) advise(r *Report) {
	switch r.Verdict {
	case ContainerLimit, ParentLimit, MachineLimit, OOMD:
		c.adviseLimit(r)
	case ChildKilled:
		r.do("", "give the process that was killed a limit, or the group room for it: the JVM's own memory was not why")
	case OutOfMemoryError:
		c.adviseHeap(r)
	case NativeCrash:
		if r.Crash == nil {
			r.do("-XX:ErrorFile=/path/that/outlives/the/container/hs_err_%p.log", "keep the JVM's own report of the crash, and give it with: tare autopsy --hs-err FILE")
		} else {
			r.do("", "look up the frame, or report it with the hs_err file to who made the library")
		}
	case Killed:
		r.do("", "ask who stopped it: kubectl describe pod (probes, evictions), docker events, journalctl of its unit")
	case Exited:
		r.do("", "read the application's own log: it ended itself")
	case Unknown:
		r.do("", "keep a ledger: tare agent, as root, from the start of the machine")
	}
}

func (r *Report) do(option, text string) { r.Do = append(r.Do, Advice{option, text}) }

// adviseLimit says what would have stayed below the limit then.
func (c *inquest) adviseLimit(r *Report) {
	if n := len(r.Moments); n > 0 && r.LimitBytes > 0 && (r.Verdict == ContainerLimit || r.Verdict == ParentLimit) {
		c.adviseGrower(r, r.Moments[n-1])
		if len(r.Moments) > 1 {
			c.adviseLarger(r)
		}
	}
	switch {
	case r.Verdict == MachineLimit:
		r.do("", "give each container of the machine a limit, so that the one that grows is the one that is killed")
	case r.Verdict == ParentLimit:
		r.do("", "see what else is in the group: its limit is for all of them together")
	case len(r.Do) == 0:
		r.do("", "find out what it needs: tare fit")
	}
}

// margin is what is left free below a limit.
func margin(limit int64) int64 { return max(limit/20, 16<<20) }

// adviseGrower bounds what grew most, where the JVM has an option for it.
func (c *inquest) adviseGrower(r *Report, last Moment) {
	if len(r.Growth) == 0 || r.Growth[0].Change() < worthASentence {
		return
	}
	g := r.Growth[0]
	// What must go for the last moment to have stayed below the limit; of one with room
	// left, less than nothing.
	excess := last.UsageBytes - c.reclaimable() + margin(r.LimitBytes) - r.LimitBytes
	bound := floorMiB(g.To - excess)
	switch g.Account {
	case DirectBuffers:
		if bound >= max(g.From, 1<<20) {
			r.do(fmt.Sprintf("-XX:MaxDirectMemorySize=%dm", bound>>20), "fails with an OutOfMemoryError that names who asked for the buffer")
			return
		}
		r.do(fmt.Sprintf("-XX:MaxDirectMemorySize=%dm", max(1, ceilMiB(g.From)>>20)), "is what it had before it grew: the error then names who asks for more; the limit leaves no more room")
	case Account(footprint.JavaHeap):
		c.boundHeap(r, g, bound)
	case Account(footprint.Metaspace), Account(footprint.ClassSpace):
		r.do(fmt.Sprintf("-XX:MaxMetaspaceSize=%dm", max(1, ceilMiB(metaspace(r)-excess)>>20)), "fails with OutOfMemoryError: Metaspace; look for class loaders that are never freed: jcmd PID VM.classloader_stats")
	case Account(footprint.CodeCache):
		r.do(fmt.Sprintf("-XX:ReservedCodeCacheSize=%dm", max(8, bound>>20)), "compiles less when it is full, and says so")
	case Account(footprint.ThreadStacks), Account(footprint.JVMOther):
		c.boundThreads(r)
	case Account(footprint.Malloc):
		c.boundMalloc(r, g)
	case Account(footprint.MappedFiles):
		r.do("", "mapped files and shared memory grew: find them with tare weigh PID")
	}
}

// metaspace is that of classes and of what they describe, at the last moment.
func metaspace(r *Report) int64 {
	a := r.Moments[len(r.Moments)-1].Accounts
	return a[Account(footprint.Metaspace)] + a[Account(footprint.ClassSpace)]
}

func (c *inquest) boundHeap(r *Report, g Growth, bound int64) {
	live := int64(0)
	if r.Heap != nil {
		live = r.Heap.AfterGCBytes
	}
	if bound > 0 && float64(bound) >= 1.2*float64(live) {
		r.do(fmt.Sprintf("-Xmx%dm", bound>>20), fmt.Sprintf("collects before the limit is reached; %s were live after the last collection", size(live)))
		return
	}
	r.do("", fmt.Sprintf("no smaller heap helps: %s were live after the last collection; look for what holds them, or give it a larger limit", size(live)))
}

func (c *inquest) boundThreads(r *Report) {
	first, last := r.Moments[0].Threads, r.Moments[len(r.Moments)-1].Threads
	if last <= first {
		r.do("", "stacks grew without more threads: look for deep recursion")
		return
	}
	r.do("", fmt.Sprintf("bound the number of threads: it rose from %d to %d", first, last))
}

func (c *inquest) boundMalloc(r *Report, g Growth) {
	last := c.footprints[len(c.footprints)-1].Footprint
	for _, o := range last.Owners {
		for _, p := range o.Parts {
			if o.Owner == footprint.Malloc && p.ID == footprint.PartFreeMalloc && p.Bytes > g.Change()/2 {
				r.do("MALLOC_ARENA_MAX=2", fmt.Sprintf("as a variable of its environment: %s of malloc were free, kept by the C library", size(p.Bytes)))
				return
			}
		}
	}
	if t := r.Moments; t[len(t)-1].Threads > t[0].Threads+50 {
		c.boundThreads(r)
		return
	}
	r.do("-XX:NativeMemoryTracking=summary", "tells the JVM's own share; what is not in it a native library took, and no option bounds that")
}

// adviseLarger says how long a larger limit would have lasted.
func (c *inquest) adviseLarger(r *Report) {
	first, last := r.Moments[0], r.Moments[len(r.Moments)-1]
	took := first.BeforeSeconds - last.BeforeSeconds
	grew := last.UsageBytes - first.UsageBytes
	if took <= 0 || grew <= 0 {
		return
	}
	const step = 100 << 20
	r.do("", fmt.Sprintf("a larger limit: at that speed, each 100 MiB more would have lasted %s", seconds(float64(step)/(float64(grew)/took))))
}

// reclaimable is page cache that the kernel could have dropped, as last seen.
func (c *inquest) reclaimable() int64 {
	if n := len(c.counters); n > 0 && !c.full() {
		return c.counters[n-1].Counters.Reclaimable
	}
	return 0 // at the limit it has been dropped
}

func floorMiB(n int64) int64 { return max(0, n) >> 20 << 20 }

func ceilMiB(n int64) int64 { return (max(0, n) + 1<<20 - 1) >> 20 << 20 }

func (c *inquest) adviseHeap(r *Report) {
	h := r.Heap
	if h == nil || h.MaxBytes == 0 || !c.heapFull() {
		r.do("-XX:+HeapDumpOnOutOfMemoryError", "keeps what was alive; the message in the application's log says which memory was exhausted")
		return
	}
	r.do(fmt.Sprintf("-Xmx%dm", int64(math.Ceil(1.3*float64(h.MaxBytes)))>>20), "if what is live is needed; else look for what holds it, in a heap dump")
	if !c.flag("ExitOnOutOfMemoryError") && r.Confidence != doctor.Certain {
		r.do("-XX:+ExitOnOutOfMemoryError", "ends a JVM that would live on half dead")
	}
}

// lack says what would have made the verdict surer.
func (c *inquest) lack(r *Report) {
	if c.Log == nil {
		r.Missing = append(r.Missing, "the kernel's log could not be read: run it as root, or give one with --log FILE")
	}
	if len(c.Records) == 0 {
		r.Missing = append(r.Missing, "no ledger has it: what it held is not known; keep one with tare agent")
	} else if c.ended != nil && c.exit == nil {
		r.Missing = append(r.Missing, "how it exited was not told to the agent: as root it is, since Linux 5.3")
	}
	if len(c.Records) > 0 && c.ended == nil && !c.Alive {
		r.Missing = append(r.Missing, "the agent did not see the end: it had ended before, or was killed as well")
	}
}
