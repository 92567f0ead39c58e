package autopsy

import (
	"fmt"
	"path"
	"strings"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/kernellog"
)

// judge finds the verdict, the surest evidence first, and how the end is told.
func (c *inquest) judge(r *Report) {
	if c.ended != nil {
		r.At = c.ended.At
	}
	for _, try := range []func(*Report) bool{c.byKernel, c.byCrash, c.byOOMD, c.byGroup, c.byOutOfMemoryError, c.byOther, c.byExit} {
		if try(r) {
			return
		}
	}
	switch {
	case c.Alive:
		c.alive(r)
	case c.ended != nil:
		usage, limit := c.usage()
		r.add("ledger", "it was gone; usage %s of %s when last seen", size(usage), limitOf(limit))
		r.verdict(Unknown, doctor.Possible, "It is not known why %s ended: how it exited was not told, and nothing tells of a want of memory.", r.Name)
	case len(c.Records) > 0:
		r.verdict(Unknown, doctor.Possible, "It is not known why %s ended: nobody saw its end.", r.Name)
	default:
		r.verdict(Unknown, doctor.Possible, "It is not known why %s ended.", r.Name)
	}
}

func (r *Report) verdict(v Verdict, how doctor.Certainty, format string, args ...any) {
	r.Verdict, r.Confidence = v, how
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = printable(text)
		}
	}
	r.Headline = fmt.Sprintf(format, args...)
}

func (r *Report) add(source, format string, args ...any) {
	r.Evidence = append(r.Evidence, Evidence{source, fmt.Sprintf(format, args...)})
}

// byKernel goes by a kill of this JVM that the kernel's log tells of.
func (c *inquest) byKernel(r *Report) bool {
	k := c.kill
	if k == nil {
		return false
	}
	if !k.At.IsZero() && r.At.IsZero() {
		r.At = k.At
	}
	r.Kill = k
	c.killEvidence(r, k)
	c.addExit(r)
	c.addGroup(r)
	_, limit := c.usage()
	r.LimitBytes, r.LimitGroup = k.Limit, k.LimitGroup
	if r.LimitBytes == 0 && k.Cause == kernellog.GroupLimit {
		r.LimitBytes = limit
	}
	whole := ""
	if k.Whole {
		whole = ", and all processes of the group with it"
	}
	switch {
	case k.Cause == kernellog.GroupLimit && k.LimitGroup == "":
		c.unnamed(r)
	case k.Cause == kernellog.GroupLimit && (k.LimitGroup == k.TaskGroup || c.ofContainer(k.LimitGroup)):
		r.verdict(ContainerLimit, doctor.Certain, "%s was killed by its own limit of %s, not by the machine%s.", r.Name, size(r.LimitBytes), whole)
	case k.Cause == kernellog.GroupLimit:
		r.verdict(ParentLimit, doctor.Certain, "%s was killed by the limit of %s of a group above its own, %s%s.", r.Name, size(r.LimitBytes), c.parent(k.LimitGroup), whole)
	case k.Cause == kernellog.MachineLimit:
		r.verdict(MachineLimit, doctor.Certain, "%s was killed because the machine ran out of memory, not by a limit of its own.", r.Name)
	case k.Cause == "":
		r.verdict(Unknown, doctor.Possible, "The kernel killed %s for want of memory; whose memory ran out is not told.", r.Name)
	default:
		r.verdict(MachineLimit, doctor.Certain, "%s was killed because the memory nodes that it may use ran out (%s).", r.Name, string(k.Cause))
	}
	return true
}

// unnamed judges a kill whose group the log does not name.
func (c *inquest) unnamed(r *Report) {
	if c.Process.Group.LimitPath != "" {
		r.LimitGroup = c.Process.Group.LimitPath
		r.verdict(ParentLimit, doctor.Likely, "%s was killed by a limit, most likely that of %s of a group above its own, %s.", r.Name, size(r.LimitBytes), c.parent(r.LimitGroup))
		return
	}
	of := ""
	if r.LimitBytes > 0 {
		of = " of " + size(r.LimitBytes)
	}
	r.verdict(ContainerLimit, doctor.Likely, "%s was killed by the limit%s of a control group, most likely its own, and not by the machine.", r.Name, of)
}

// parent says what a group above is.
func (c *inquest) parent(group string) string {
	switch base := path.Base(group); {
	case c.Process.PodUID != "" && strings.Contains(strings.ReplaceAll(base, "_", "-"), c.Process.PodUID):
		return "the pod's"
	case strings.HasPrefix(base, "pod") || strings.Contains(base, "-pod"):
		return "the pod's"
	case strings.HasPrefix(base, "kubepods"):
		return "that of all pods, " + base
	default:
		return base
	}
}

func (c *inquest) killEvidence(r *Report, k *kernellog.Kill) {
	where := "of the machine"
	if k.Cause == kernellog.GroupLimit {
		where = "of group " + k.LimitGroup
		if k.LimitGroup == "" {
			where = "of a group that it does not name"
		}
		if k.TaskGroup != "" && k.TaskGroup != k.LimitGroup {
			where += "; the process was in " + k.TaskGroup
		}
	}
	r.add("kernel log", "killed process %d (%s) with %s resident, for the limit %s", k.PID, printable(k.Name), size(k.Resident()), printable(where))
	if k.Cause != kernellog.GroupLimit {
		r.Evidence[len(r.Evidence)-1].Text = fmt.Sprintf("killed process %d (%s) with %s resident, for want of memory %s", k.PID, printable(k.Name), size(k.Resident()), where)
	}
	if k.Limit > 0 {
		r.add("kernel log", "the group used %s of %s", size(k.Usage), size(k.Limit))
	}
}

// byCrash goes by an hs_err file.
func (c *inquest) byCrash(r *Report) bool {
	if c.Crash == nil {
		return false
	}
	r.Crash = c.Crash
	r.add("hs_err", "%s", c.Crash.Summary())
	c.addExit(r)
	switch c.Crash.Kind {
	case JavaOutOfMemory:
		r.verdict(OutOfMemoryError, doctor.Certain, "%s crashed itself on an OutOfMemoryError: %s.", r.Name, c.Crash.Reason)
	case NativeOutOfMemory:
		r.verdict(NativeCrash, doctor.Certain, "%s ended because the system gave it no more memory: %s.", r.Name, c.Crash.Reason)
	case Fault:
		if c.Crash.Sender != 0 {
			r.verdict(Killed, doctor.Certain, "%s was ended from outside by %s, which process %d sent.", r.Name, c.Crash.Reason, c.Crash.Sender)
			return true
		}
		in := c.Crash.Frame
		if in == "" {
			in = "an unknown frame"
		}
		r.verdict(NativeCrash, doctor.Certain, "%s crashed in native code: %s in %s.", r.Name, c.Crash.Reason, in)
	}
	return true
}

// byOOMD goes by what systemd-oomd said.
func (c *inquest) byOOMD(r *Report) bool {
	if c.oomd == nil || c.Alive || c.exit != nil && c.exit.signal != 9 {
		return false
	}
	r.LimitGroup = c.oomd.Group
	r.add("journal", "systemd-oomd killed %s due to %s", printable(c.oomd.Group), printable(c.oomd.Why))
	c.addExit(r)
	how := doctor.Certain
	if c.exit == nil {
		how = doctor.Likely
	}
	r.verdict(OOMD, how, "%s was killed by systemd-oomd, before its limit was reached.", r.Name)
	return true
}

// byGroup goes by the counts of the group, without a word of the kernel's log.
func (c *inquest) byGroup(r *Report) bool {
	if c.groupKills <= 0 || c.ended == nil || c.exit != nil && c.exit.signal != 9 {
		return false
	}
	c.addExit(r)
	c.addGroup(r)
	usage, limit := c.usage()
	how := doctor.Certain
	if c.exit == nil {
		how = doctor.Likely
	}
	peak := c.groupKillAt.Event.Values["peak"]
	reached := limit > 0 && float64(peak) >= brim*float64(limit)
	if reached && !c.full() && c.limitReached == 0 {
		// It may have been reached long before, by page cache.
		how = doctor.Likely
		r.add("group", "its highest usage was %s of %s", size(peak), size(limit))
	}
	if limit == 0 || !c.full() && c.limitReached == 0 && !reached {
		r.add("ledger", "usage %s of %s when last seen", size(usage), limitOf(limit))
		r.verdict(MachineLimit, doctor.Likely, "%s was killed for want of memory, most likely the machine's: its group was not at a limit.", r.Name)
		return true
	}
	r.LimitBytes, r.LimitGroup = limit, c.Process.Group.Path
	if c.Process.Group.LimitPath != "" {
		r.LimitGroup = c.Process.Group.LimitPath
		r.verdict(ParentLimit, how, "%s was killed by the limit of %s of a group above its own, %s.", r.Name, size(limit), c.parent(r.LimitGroup))
		return true
	}
	r.verdict(ContainerLimit, how, "%s was killed by its own limit of %s, not by the machine.", r.Name, size(limit))
	return true
}

// byOutOfMemoryError goes by what the JVM left of an error of its own.
func (c *inquest) byOutOfMemoryError(r *Report) bool {
	exits := c.exit != nil && c.exit.signal == 0 && c.exit.code == 3 && c.flag("ExitOnOutOfMemoryError")
	if !exits && (c.HeapDump == "" || c.exit != nil && c.exit.signal == 9) {
		return c.starved(r)
	}
	c.addExit(r)
	if exits {
		r.add("exit", "3 is what -XX:+ExitOnOutOfMemoryError ends with, and it was set")
	}
	if c.HeapDump != "" {
		r.add("heap dump", "%s was written by the JVM", printable(c.HeapDump))
	}
	how := doctor.Likely
	if c.heapFull() || exits && c.HeapDump != "" {
		how = doctor.Certain
	}
	c.addHeap(r)
	switch {
	case exits:
		r.verdict(OutOfMemoryError, how, "%s ended itself on an OutOfMemoryError; the kernel did not kill it.", r.Name)
	case c.Alive:
		r.verdict(OutOfMemoryError, doctor.Likely, "%s had an OutOfMemoryError and lives on: what it was doing then it may not do any more.", r.Name)
	default:
		r.verdict(OutOfMemoryError, doctor.Likely, "%s had an OutOfMemoryError before it ended; the kernel did not kill it.", r.Name)
	}
	return true
}

// starved says that a JVM, alive or dead by its own hand, does little but collect a
// heap that stays full.
func (c *inquest) starved(r *Report) bool {
	share, ok := c.collecting()
	if !ok || c.exit != nil && (c.exit.signal != 0 || c.exit.code == 0 || c.exit.code > 128) || !c.Alive && c.exit == nil {
		return false
	}
	h := c.heap()
	if h == nil || h.MaxBytes == 0 || float64(h.AfterGCBytes) < 0.9*float64(h.MaxBytes) || c.Alive && share < 0.5 {
		return false
	}
	c.addExit(r)
	c.addHeap(r)
	r.add("ledger", "collections took %.0f %% of the time between the last two looks", 100*share)
	if c.Alive {
		r.verdict(OutOfMemoryError, doctor.Possible, "%s lives, but does little other than collect a full heap: it serves hardly any more.", r.Name)
		return true
	}
	r.verdict(OutOfMemoryError, doctor.Possible, "%s ended with exit code %d while its heap was full: an OutOfMemoryError may be why.", r.Name, c.exit.code)
	return true
}

// collecting is the share of time that collections took between the last two looks.
func (c *inquest) collecting() (float64, bool) {
	n := len(c.counters)
	if n < 2 {
		return 0, false
	}
	a, b := c.counters[n-2], c.counters[n-1]
	if b.Uptime <= a.Uptime {
		return 0, false
	}
	return (b.Counters.GCTime - a.Counters.GCTime).Seconds() / (b.Uptime - a.Uptime).Seconds(), true
}

// byOther goes by the kill of another process of the group, or a count that rose
// while the JVM was not killed.
func (c *inquest) byOther(r *Report) bool {
	switch {
	case c.other != nil && (c.exit == nil || c.exit.signal != 9):
		k := c.other
		c.killEvidence(r, k)
		r.Kill, r.LimitBytes, r.LimitGroup = k, k.Limit, k.LimitGroup
	case c.groupKills > 0 && (c.exit != nil || c.Alive):
		_, r.LimitBytes = c.usage()
	default:
		return false
	}
	c.addExit(r)
	c.addGroup(r)
	name := "another process"
	if r.Kill != nil {
		name = fmt.Sprintf("process %d (%s)", r.Kill.PID, r.Kill.Name)
	}
	rest := ", which lives on"
	switch {
	case !c.Alive && c.exit != nil && c.exit.code > 128:
		rest = fmt.Sprintf("; the JVM was stopped then, with exit code %d", c.exit.code)
	case !c.Alive && c.exit != nil && c.exit.signal == 0:
		rest = fmt.Sprintf("; the JVM ended by itself with exit code %d", c.exit.code)
	case !c.Alive:
		rest = "; how the JVM ended is not known"
	}
	how := doctor.Certain
	if r.Kill == nil {
		how = doctor.Likely
	}
	r.verdict(ChildKilled, how, "The kernel killed %s in the group of %s, not the JVM%s.", name, r.Name, rest)
	return true
}

// byExit goes by how the process ended alone.
func (c *inquest) byExit(r *Report) bool {
	e := c.exit
	if e == nil {
		return false
	}
	c.addExit(r)
	switch {
	case e.signal == 9:
		c.killedFromOutside(r)
	case e.signal == 6 || e.signal == 11 || e.signal == 7 || e.signal == 4 || e.signal == 8 || e.signal == 5:
		r.verdict(NativeCrash, doctor.Likely, "%s crashed in native code (%s); its hs_err file was not found.", r.Name, signalName(e.signal))
	case e.signal != 0:
		r.verdict(Killed, doctor.Certain, "%s was ended from outside by %s.", r.Name, signalName(e.signal))
	case e.code == 143 || e.code == 130 || e.code == 129:
		r.verdict(Killed, doctor.Likely, "%s was asked to stop (%s), and did: memory was not why.", r.Name, signalName(e.code-128))
	default:
		r.verdict(Exited, doctor.Certain, "%s ended by itself with exit code %d.", r.Name, e.code)
	}
	return true
}

// killedFromOutside judges a SIGKILL that no trace of a want of memory goes with.
func (c *inquest) killedFromOutside(r *Report) {
	usage, limit := c.usage()
	seen := c.Process.Group.Version != 0 && limit > 0
	if seen {
		r.add("group", "its count of kills did not rise; usage %s of %s when last seen", size(usage), size(limit))
	}
	switch {
	case c.logCovers() || seen:
		how := doctor.Likely
		if c.logCovers() {
			r.add("kernel log", "reaches over the end, and tells of no kill of it")
			how = doctor.Certain
		}
		r.verdict(Killed, how, "%s was killed from outside with SIGKILL, by a probe, a stop or an eviction: memory was not why.", r.Name)
	case c.full():
		r.verdict(Unknown, doctor.Possible, "%s was killed with SIGKILL; by whom is not known.", r.Name)
	default: // it may have been the kernel, for want of the machine's memory
		r.verdict(Unknown, doctor.Possible, "%s was killed with SIGKILL; by whom is not known: no limit of its group was seen, and the kernel's log does not reach over its end.", r.Name)
	}
}

// alive tells of a JVM that has not ended.
func (c *inquest) alive(r *Report) {
	if usage, limit := c.usage(); usage > 0 {
		r.add("ledger", "usage %s of %s when last seen", size(usage), limitOf(limit))
	}
	c.addHeap(r)
	r.verdict(Running, doctor.Certain, "%s runs.", r.Name)
}

func (c *inquest) addExit(r *Report) {
	if c.exit == nil {
		return
	}
	if c.exit.signal != 0 {
		r.add("exit", "by %s (a shell or an engine shows %d)", signalName(c.exit.signal), 128+c.exit.signal)
		return
	}
	r.add("exit", "with code %d", c.exit.code)
}

func (c *inquest) addGroup(r *Report) {
	if c.groupKillAt != nil && c.groupKills > 0 {
		v := c.groupKillAt.Event.Values
		r.add("group", "its count of kills rose from %d to %d", v["before"], v["after"])
	}
}

func (c *inquest) addHeap(r *Report) {
	if h := c.heap(); h != nil && h.MaxBytes > 0 {
		r.add("ledger", "heap %s used of %s at most, %s after the last collection", size(h.UsedBytes), size(h.MaxBytes), size(h.AfterGCBytes))
	}
}

// signals are the names of those that end a JVM.
var signals = map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 31: "SIGSYS"}

func signalName(n int) string {
	if name, ok := signals[n]; ok {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

func limitOf(n int64) string {
	if n == 0 {
		return "no limit"
	}
	return size(n)
}

// size is bytes in MiB, as people write limits.
func size(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
