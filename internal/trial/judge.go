package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

// Verdict is how a trial went.
type Verdict string

// The verdicts.
const (
	Passed      Verdict = "passed"
	OOMKilled   Verdict = "oom-killed"    // by the kernel: the group's limit was reached
	OutOfMemory Verdict = "out-of-memory" // java.lang.OutOfMemoryError
	Thrashing   Verdict = "thrashing"     // the collector took the time
	Stalled     Verdict = "stalled"       // the kernel's reclaim took the time
	TooSlow     Verdict = "too-slow"      // a clause on time or throughput is broken
	Errors      Verdict = "errors"        // requests failed, or none was answered
	NeverReady  Verdict = "never-ready"
	Crashed     Verdict = "crashed" // ended, and was not asked to
)

const (
	// ThrashingShare is the share of the time in stop-the-world collections
	// from which they explain a broken objective: the application had the
	// smaller half. Healthy JVMs are below 0.1 (the Parallel collector aims
	// at 0.01, G1 at 0.08), and HotSpot itself gives up at 0.98 ("GC
	// overhead limit exceeded", which counts as OutOfMemory: there the JVM
	// has judged already).
	//
	// A collector that runs beside the application has no pauses to speak of. It
	// took the time where threads waited for it for this share, or where its
	// threads used this share of its and the application's processor time and as much of
	// one processor, or of the quota if that is less, as others left of it: a
	// collector that uses less leaves the application what it needs to run.
	ThrashingShare = 0.5
	// StalledShare is the share of the time in which some task waited for
	// memory (pressure stall information, "some") from which reclaim
	// explains a broken objective: the default objective bears a loss of a
	// tenth, and this is twice that.
	StalledShare = 0.2
	// StalledRefault stands in for StalledShare where the kernel keeps no
	// pressure for groups (cgroup v1), or where that is no more than not innocent: file
	// pages read again after they had been reclaimed, in shares of the limit per
	// second. At this pace the whole limit's worth of memory is read anew every ten
	// seconds.
	StalledRefault = 0.1
	// InnocentRefault is the pace, in the same unit, below which reclaim is no part of the
	// explanation.
	InnocentRefault = 0.02
)

// Shares below which collections and reclaim are no part of the explanation.
const (
	innocentGC    = 0.1
	innocentStall = 0.05
	// narrowMiss is how far off a clause may be for noise to be suspected,
	// disturbedMiss the same when others were seen to take processor time.
	narrowMiss    = 0.15
	disturbedMiss = 0.5
	// disturbedShare is the share of the machine's processor time taken by
	// others from which a slow trial may be their doing.
	disturbedShare = 0.1
)

// Findings is what the application's log says about its end.
type Findings struct {
	// OutOfMemory is the first line with a java.lang.OutOfMemoryError.
	OutOfMemory string
	// Fatal is the first line of the JVM's own fatal error report.
	Fatal string
	// CodeCacheFull says that the JVM told so: it stops to compile until there
	// is room again.
	CodeCacheFull bool
	// LastLines are the last lines of the log.
	LastLines []string
}

// Evidence is what a verdict is made from. All times and counts are of the
// judged window: the measured load, or everything until then when there was
// none.
type Evidence struct {
	LimitBytes int64
	OOMKills   int64
	// LimitHits is as in runner.Usage.
	LimitHits int64
	// Ended says that the application ended without being asked to.
	Ended bool
	// Exit is how it ended, whoever asked.
	Exit         runner.Exit
	Ready        bool
	ReadyAfter   time.Duration
	ReadyTimeout time.Duration
	Log          Findings
	Window       time.Duration
	// GCTime is nil when the JVM keeps no performance data.
	GCTime      *time.Duration
	Collections int64
	// Times is what the kinds of threads used; nil where no threads of a JVM were
	// seen. CPUs is the quota, 0 without one.
	Times *runner.Times
	CPUs  float64
	// Awaiting is for how long threads were seen to wait for a concurrent collector;
	// nil when the JVM keeps no performance data.
	Awaiting *time.Duration
	// Stalled is nil where the kernel does not tell.
	Stalled *time.Duration
	// RefaultBytes counts file pages read again after reclaim.
	RefaultBytes int64
	// MajorFaults are page faults that waited for the disk; DirectBytes is what the
	// application's own threads had to reclaim, 0 on cgroup v1.
	MajorFaults, DirectBytes int64
	// Others is the share of the machine's processor time that went to
	// others.
	Others float64
	Load   *load.Result
	Broken []Broken
}

// GCShare is the share of the window in collections, and whether it is known.
func (e Evidence) GCShare() (float64, bool) {
	if e.GCTime == nil || e.Window <= 0 {
		return 0, false
	}
	return min(1, e.GCTime.Seconds()/e.Window.Seconds()), true
}

// AwaitShare is the share of the window in which threads waited for a concurrent
// collector, and whether it is known.
func (e Evidence) AwaitShare() (float64, bool) {
	if e.Awaiting == nil || e.Window <= 0 {
		return 0, false
	}
	return min(1, e.Awaiting.Seconds()/e.Window.Seconds()), true
}

// CollectorShare is what the collector's threads used of the processor time that they and
// the application used, and whether it is known. Compilers are left out: they are busy
// after a start, and then no more.
func (e Evidence) CollectorShare() (float64, bool) {
	if e.Times == nil {
		return 0, false
	}
	both := e.Times.Collector + e.Times.Application()
	if both <= 0 {
		return 0, false
	}
	return e.Times.Collector.Seconds() / both.Seconds(), true
}

// collecting is the share of the time that collections took, in whichever way, and
// whether anything is known of it.
func (e Evidence) collecting() (float64, bool) {
	pauses, paused := e.GCShare()
	awaited, _ := e.AwaitShare()
	used, worked := e.CollectorShare()
	if used > 0 && e.Window > 0 {
		used = min(used, e.Times.Collector.Seconds()/(e.Window.Seconds()*oneProcessor(e.CPUs, e.Others)))
	}
	return max(pauses, awaited, used), paused || worked
}

// oneProcessor is how much of one processor a thread could have under a quota, 0 for none,
// where others took this share of all processors.
func oneProcessor(quota, others float64) float64 {
	if quota <= 0 {
		quota = 1
	}
	return min(1, quota) * max(leastLeft, 1-others)
}

// leastLeft is the least share of a processor that is taken to be left by others.
const leastLeft = 0.05

// StallShare is the share of the window in which some task waited for memory,
// and whether it is known.
func (e Evidence) StallShare() (float64, bool) {
	if e.Stalled == nil || e.Window <= 0 {
		return 0, false
	}
	return min(1, e.Stalled.Seconds()/e.Window.Seconds()), true
}

// ReclaimShare is the share of the window that reclaim took: StallShare, or where
// the kernel does not tell that, the pace at which file pages were read again, which
// StalledRefault equates with StalledShare.
func (e Evidence) ReclaimShare() float64 {
	if stall, known := e.StallShare(); known {
		return stall
	}
	return min(1, e.refaultPace()*StalledShare/StalledRefault)
}

// refaultPace is in shares of the limit per second.
func (e Evidence) refaultPace() float64 {
	if e.LimitBytes <= 0 || e.Window <= 0 {
		return 0
	}
	return float64(e.RefaultBytes) / float64(e.LimitBytes) / e.Window.Seconds()
}

// Judge gives the verdict, and the evidence in words, most telling first. What
// explains most wins: a kill by the kernel over all else; what the JVM says of
// itself over how it ended; collections and reclaim over the broken objective
// that they cause; failed requests over slow ones. An OutOfMemoryError in the
// log of an application that met its objective is told, and no failure.
func Judge(e Evidence) (Verdict, []string) {
	v := verdict(e)
	return v, e.words(v)
}

func verdict(e Evidence) Verdict {
	failed := e.Ended || !e.Ready || len(e.Broken) > 0
	switch {
	case e.OOMKills > 0:
		return OOMKilled
	case !failed:
		return Passed
	case e.Log.OutOfMemory != "":
		return OutOfMemory
	case e.Ended && (e.Ready || e.Exit != (runner.Exit{}) || e.Log.Fatal != ""):
		return Crashed
	case e.Ended:
		return NeverReady // an orderly end before it was ready
	}
	if v, ok := whereTimeWent(e); ok {
		return v
	}
	switch {
	case !e.Ready:
		return NeverReady
	case breaks(e.Broken, ErrorCount) || slices.ContainsFunc(e.Broken, func(b Broken) bool { return b.Unmeasured }):
		return Errors
	}
	return TooSlow
}

// whereTimeWent names what took the time, if it took enough of it.
func whereTimeWent(e Evidence) (Verdict, bool) {
	gc, _ := e.collecting()
	stall, known := e.StallShare()
	// Pressure of a fast disk may stay below that, however often all is read again.
	readAgain := e.refaultPace() >= StalledRefault && (!known || stall >= innocentStall)
	stalled := known && stall >= StalledShare || readAgain
	// A collection that waits for its pages counts as both: then reclaim is
	// the cause, unless collections take much more.
	if stalled && (!known || stall >= gc/2) {
		return Stalled, true
	}
	return Thrashing, gc >= ThrashingShare
}

func breaks(broken []Broken, m Metric) bool {
	for _, b := range broken {
		if b.Clause.Metric == m {
			return true
		}
	}
	return false
}

// reclaimed says that reclaim may be a part of the explanation.
func (e Evidence) reclaimed() bool {
	stall, known := e.StallShare()
	return stall >= innocentStall || !known && e.refaultPace() >= InnocentRefault
}

// NarrowMiss tells whether another try may tell more: only a clause on time or
// throughput is broken, by little, with no sign that memory is the reason, so
// that noise may have done it; or the kernel killed for want of memory
// elsewhere.
func (e Evidence) NarrowMiss() bool {
	if e.killedFromOutside() {
		return true
	}
	if e.Ended || !e.Ready || e.OOMKills > 0 || e.Log.OutOfMemory != "" || len(e.Broken) == 0 {
		return false
	}
	most := narrowMiss
	if e.Others >= disturbedShare {
		most = disturbedMiss
	}
	for _, b := range e.Broken {
		if b.Clause.Metric == ErrorCount || b.Miss > most {
			return false
		}
	}
	gc, _ := e.collecting()
	return gc < innocentGC && !e.reclaimed()
}

// words gives the evidence in lines.
func (e Evidence) words(v Verdict) []string {
	var lines []string
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	if e.OOMKills > 0 {
		add("%s", e.killed())
	}
	if e.Log.OutOfMemory != "" {
		add("log: %s", e.Log.OutOfMemory)
	}
	if e.Log.Fatal != "" {
		add("log: %s", e.Log.Fatal)
	}
	if e.Log.CodeCacheFull {
		add("log: the code cache is full, and the compiler stopped")
	}
	if e.Ended {
		add("the application ended by itself%s: %s", before(e.Ready), ExitText(e.Exit))
	} else if !e.Ready {
		add("not ready after %s", e.ReadyTimeout)
	}
	for _, b := range e.Broken {
		add("%s", b.Text)
	}
	if v == Errors || breaks(e.Broken, ErrorCount) {
		if s := errorKinds(e.Load); s != "" {
			add("errors: %s", s)
		}
	}
	return append(lines, e.shares(v)...)
}

// killedFromOutside says that the kernel killed in the group although its own
// limit was never reached.
func (e Evidence) killedFromOutside() bool { return e.OOMKills > 0 && e.LimitHits == 0 }

func (e Evidence) killed() string {
	if e.killedFromOutside() {
		own := ""
		if e.LimitBytes > 0 {
			own = fmt.Sprintf(", but not for its limit of %d MiB, which was never reached", e.LimitBytes>>20)
		}
		return fmt.Sprintf("the kernel killed in the group (oom_kill %d)%s: a group above it or the whole machine ran out of memory; leave more memory free", e.OOMKills, own)
	}
	return fmt.Sprintf("the kernel killed in the group (oom_kill %d): its limit of %d MiB was reached", e.OOMKills, e.LimitBytes>>20)
}

// shares tells of collections and reclaim where they say something.
func (e Evidence) shares(v Verdict) []string {
	var lines []string
	if gc, ok := e.GCShare(); ok && v != Passed {
		lines = append(lines, fmt.Sprintf("garbage collection took %.0f %% of the time (%d collections in %s)",
			100*gc, e.Collections, e.Window.Round(100*time.Millisecond)))
	} else if _, known := e.collecting(); !known && v != Passed && v != OOMKilled && v != Crashed {
		lines = append(lines, "time in garbage collection is unknown: the JVM keeps no performance data")
	}
	if used, ok := e.CollectorShare(); ok && v != Passed && used >= innocentGC {
		lines = append(lines, fmt.Sprintf("the collector's threads used %.0f %% of the processor time of collector and application", 100*used))
	}
	if a, ok := e.AwaitShare(); ok && a >= innocentGC && v != Passed {
		lines = append(lines, fmt.Sprintf("threads waited for the collector to free some heap for %.0f %% of the time", 100*a))
	}
	if s, ok := e.StallShare(); ok && s >= innocentStall {
		lines = append(lines, fmt.Sprintf("waiting for memory took %.0f %% of the time (pressure, some)", 100*s))
	}
	if p := e.refaultPace(); p >= InnocentRefault {
		lines = append(lines, fmt.Sprintf("%d MiB of file pages were read again after they had been reclaimed", e.RefaultBytes>>20))
	}
	if e.Others >= disturbedShare && v != Passed {
		lines = append(lines, fmt.Sprintf("other processes took %.0f %% of the machine's processors meanwhile", 100*e.Others))
	}
	return lines
}

func before(ready bool) string {
	if ready {
		return ""
	}
	return " before it was ready"
}

// ExitText says in words how a process ended.
func ExitText(x runner.Exit) string {
	if x.Signal != 0 {
		return fmt.Sprintf("killed by %s", signalName(x.Signal))
	}
	return fmt.Sprintf("exit code %d", x.Code)
}

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV", syscall.SIGABRT: "SIGABRT",
		syscall.SIGBUS: "SIGBUS", syscall.SIGTERM: "SIGTERM", syscall.SIGILL: "SIGILL", syscall.SIGFPE: "SIGFPE"}
	if n, ok := names[s]; ok {
		return n
	}
	return "signal " + fmt.Sprint(int(s))
}

// sortedKinds orders error kinds by count, then by name.
func sortedKinds(m map[string]int64) []string {
	kinds := make([]string, 0, len(m))
	for k := range m {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	return kinds
}

// errorKinds lists kinds of failed requests, most frequent first.
func errorKinds(l *load.Result) string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, k := range sortedKinds(l.Errors) {
		parts = append(parts, fmt.Sprintf("%d × %s", l.Errors[k], k))
	}
	if l.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d never sent", l.Dropped))
	}
	return strings.Join(parts, ", ")
}
