// Package ledger keeps on disk what was seen of the JVMs of a machine: a ring of
// files for each JVM and one for the machine, bounded together. What a JVM was
// when it was last seen stays after its end. docs/ledger.md describes the format.
package ledger

import (
	"fmt"
	"slices"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

// ID names a process for good: process ids are used again, and again after each
// boot. The zero ID is the machine.
type ID struct {
	// Boot is the kernel's random id of this boot (/proc/sys/kernel/random/boot_id).
	Boot string `cbor:"1,keyasint,omitempty" json:"boot,omitempty"`
	// PID is the process id in the PID namespace of the agent.
	PID int `cbor:"2,keyasint,omitempty" json:"pid,omitempty"`
	// StartTicks is when it started, in clock ticks since boot
	// (proc_pid_stat(5), field 22).
	StartTicks uint64 `cbor:"3,keyasint,omitempty" json:"startTicks,omitempty"`
}

// Machine says that the ID is that of the machine, and of no process.
func (id ID) Machine() bool { return id == ID{} }

// String is the id as a text, without blanks.
func (id ID) String() string {
	if id.Machine() {
		return "machine"
	}
	return fmt.Sprintf("%s-%d-%d", id.Boot, id.PID, id.StartTicks)
}

// Lives says that the process still runs, on the machine of proc.
func (id ID) Lives(proc linux.FS) bool {
	birth, err := proc.Birth(id.PID)
	if err != nil || birth.Ended || birth.StartTicks != id.StartTicks {
		return false
	}
	boot, err := proc.BootID()
	return err == nil && boot == id.Boot
}

// Process is what does not change of a JVM: what joins its records to the
// kernel's log, to containers and pods.
type Process struct {
	ID ID `cbor:"1,keyasint" json:"id"`
	// PIDs are its process ids in all PID namespaces, the agent's first (NSpid of
	// proc_pid_status(5)).
	PIDs []int  `cbor:"2,keyasint,omitempty" json:"pids,omitempty"`
	Name string `cbor:"3,keyasint,omitempty" json:"name"`
	UID  int    `cbor:"4,keyasint,omitempty" json:"uid"`
	// Kind is the kind of JVM, as in process.Kind; JDK its version, Collector its
	// collector. The last two are empty until the JVM tells.
	Kind      string `cbor:"5,keyasint,omitempty" json:"kind"`
	JDK       string `cbor:"6,keyasint,omitempty" json:"jdk,omitempty"`
	Collector string `cbor:"7,keyasint,omitempty" json:"collector,omitempty"`
	// Started is the wall time of its start.
	Started time.Time `cbor:"8,keyasint,omitempty" json:"started"`
	Group   Group     `cbor:"9,keyasint,omitempty" json:"group"`
	// Container and Pod are found in the path of the group; empty outside of them.
	Container string `cbor:"10,keyasint,omitempty" json:"container,omitempty"`
	// PodUID is the UID of a Kubernetes pod, with hyphens.
	PodUID string `cbor:"11,keyasint,omitempty" json:"podUid,omitempty"`
	// ContainerName, Pod and Namespace are names that an engine or a cluster gave;
	// empty where none was asked.
	ContainerName string `cbor:"12,keyasint,omitempty" json:"containerName,omitempty"`
	Pod           string `cbor:"13,keyasint,omitempty" json:"pod,omitempty"`
	Namespace     string `cbor:"14,keyasint,omitempty" json:"namespace,omitempty"`
	// Flags are the options that decide on memory with their values, as in
	// footprint.Footprint.
	Flags map[string]string `cbor:"15,keyasint,omitempty" json:"flags,omitempty"`
	// Dir is its working directory, as it sees it: it writes hs_err files there.
	Dir string `cbor:"16,keyasint,omitempty" json:"dir,omitempty"`
	// Root is the folder of the agent's machine that holds the files which the process
	// writes, when it has a root of its own (the upper folder of an overlay mount,
	// which outlives a container until that is removed); "" when it has not, or the
	// folder is not known.
	Root string `cbor:"17,keyasint,omitempty" json:"root,omitempty"`
	// OwnRoot says that the process has a root of its own.
	OwnRoot bool `cbor:"18,keyasint,omitempty" json:"ownRoot,omitempty"`
}

// Group is a control group of the memory controller.
type Group struct {
	// Version is that of the hierarchy: 1 or 2; 0 when there is no group.
	Version int `cbor:"1,keyasint,omitempty" json:"version,omitempty"`
	// Path is as in /proc/PID/cgroup, relative to the agent's cgroup namespace.
	Path string `cbor:"2,keyasint,omitempty" json:"path,omitempty"`
	// Inode is that of the group's directory: a group of the same path that is made
	// later has another one.
	Inode uint64 `cbor:"3,keyasint,omitempty" json:"inode,omitempty"`
	// LimitPath is the group that has the smallest limit on the path to the root,
	// where that is not Path itself.
	LimitPath string `cbor:"4,keyasint,omitempty" json:"limitPath,omitempty"`
}

// Counters is a cheap look at a JVM: its group, as far as the kernel counts, and
// its performance data. Sizes are bytes. What was not told is zero.
type Counters struct {
	// Usage and Limit are those of the group whose limit is the smallest; without
	// a limit (0), Usage is that of the JVM's own group.
	Usage int64 `cbor:"1,keyasint,omitempty" json:"usage,omitempty"`
	Limit int64 `cbor:"2,keyasint,omitempty" json:"limit,omitempty"`
	// High is the smallest memory.high (cgroup v2).
	High int64 `cbor:"3,keyasint,omitempty" json:"high,omitempty"`
	// Reclaimable is page cache that the kernel can drop before it kills.
	Reclaimable int64 `cbor:"4,keyasint,omitempty" json:"reclaimable,omitempty"`
	// Resident is VmRSS, which lags by some pages a thread; Swap is VmSwap.
	Resident int64 `cbor:"5,keyasint,omitempty" json:"resident,omitempty"`
	Swap     int64 `cbor:"6,keyasint,omitempty" json:"swap,omitempty"`
	Threads  int   `cbor:"7,keyasint,omitempty" json:"threads,omitempty"`
	// AtLimit is how often the usage was about to exceed the limit (memory.events
	// max; memory.failcnt of v1), OOM how often that failed, OOMKills how many
	// processes were killed: of the group with the limit, since it was made.
	AtLimit  int64 `cbor:"8,keyasint,omitempty" json:"atLimit,omitempty"`
	OOM      int64 `cbor:"9,keyasint,omitempty" json:"oom,omitempty"`
	OOMKills int64 `cbor:"10,keyasint,omitempty" json:"oomKills,omitempty"`
	// PressureSome and PressureFull are how long some, and all, tasks of the group
	// waited for memory since it was made.
	PressureSome time.Duration `cbor:"11,keyasint,omitempty" json:"pressureSome,omitempty"`
	PressureFull time.Duration `cbor:"12,keyasint,omitempty" json:"pressureFull,omitempty"`
	// HeapUsed, HeapCommitted and HeapAfterGC are the JVM's own figures; the last
	// is what the last collection left, an upper bound of the live objects.
	HeapUsed      int64         `cbor:"13,keyasint,omitempty" json:"heapUsed,omitempty"`
	HeapCommitted int64         `cbor:"14,keyasint,omitempty" json:"heapCommitted,omitempty"`
	HeapAfterGC   int64         `cbor:"15,keyasint,omitempty" json:"heapAfterGc,omitempty"`
	Collections   int64         `cbor:"16,keyasint,omitempty" json:"collections,omitempty"`
	GCTime        time.Duration `cbor:"17,keyasint,omitempty" json:"gcTime,omitempty"`
	Classes       int64         `cbor:"18,keyasint,omitempty" json:"classes,omitempty"`
}

// Reason says why a JVM was weighed.
type Reason string

// The reasons.
const (
	First    Reason = "first"     // it was found
	Moved    Reason = "moved"     // its usage moved
	Due      Reason = "due"       // some time has passed
	LastLook Reason = "last-look" // its limit may be near
)

// Footprint is the resident memory of a JVM by owner at one moment. Sizes are
// bytes.
type Footprint struct {
	Reason   Reason `cbor:"1,keyasint,omitempty" json:"reason"`
	Resident int64  `cbor:"2,keyasint,omitempty" json:"resident"`
	// Usage and Limit are as in Counters.
	Usage int64 `cbor:"3,keyasint,omitempty" json:"usage,omitempty"`
	Limit int64 `cbor:"4,keyasint,omitempty" json:"limit,omitempty"`
	// Owners add up to Resident.
	Owners []Owned `cbor:"5,keyasint,omitempty" json:"owners"`
	// Millis is how long the weighing took.
	Millis  float64 `cbor:"6,keyasint,omitempty" json:"millis"`
	Threads int     `cbor:"7,keyasint,omitempty" json:"threads,omitempty"`
	Classes int64   `cbor:"8,keyasint,omitempty" json:"classes,omitempty"`
	// Heap is what the JVM counts of its heap; nil when it does not tell.
	Heap *Heap `cbor:"9,keyasint,omitempty" json:"heap,omitempty"`
	// Full says that all pages were looked at by kind, as tare weigh does; else
	// the weighing was a lean one, of owners alone.
	Full bool `cbor:"10,keyasint,omitempty" json:"full,omitempty"`
}

// Heap is the state of an object heap, in bytes.
type Heap struct {
	Max       int64 `cbor:"1,keyasint,omitempty" json:"max,omitempty"`
	Committed int64 `cbor:"2,keyasint,omitempty" json:"committed,omitempty"`
	Used      int64 `cbor:"3,keyasint,omitempty" json:"used,omitempty"`
	AfterGC   int64 `cbor:"4,keyasint,omitempty" json:"afterGc,omitempty"`
}

// Owned is what one owner has.
type Owned struct {
	Owner footprint.Owner `cbor:"1,keyasint" json:"owner"`
	// Resident is in pages; Committed and Used are the owner's own figures, 0 where
	// it has none. Anonymous is the part of files that was written to.
	Resident  int64 `cbor:"2,keyasint,omitempty" json:"resident"`
	Committed int64 `cbor:"3,keyasint,omitempty" json:"committed,omitempty"`
	Used      int64 `cbor:"4,keyasint,omitempty" json:"used,omitempty"`
	Anonymous int64 `cbor:"5,keyasint,omitempty" json:"anonymous,omitempty"`
	// Parts are the largest parts that have a name; they need not add up.
	Parts []Part `cbor:"6,keyasint,omitempty" json:"parts,omitempty"`
}

// Part is a named part of what an owner has, by the id of footprint.Child.
type Part struct {
	ID    string `cbor:"1,keyasint" json:"id"`
	Bytes int64  `cbor:"2,keyasint,omitempty" json:"bytes"`
}

const (
	// maxParts and minPart bound the parts of one owner: stacks of single threads
	// and small files say little of how a JVM grew.
	maxParts = 6
	minPart  = 256 << 10
)

// FootprintOf is what the ledger keeps of a weighing.
func FootprintOf(f *footprint.Footprint, reason Reason, full bool) *Footprint {
	out := &Footprint{Reason: reason, Resident: f.RSSBytes, Millis: f.Millis, Threads: f.Threads, Classes: f.Classes, Full: full}
	if c := f.Cgroup; c != nil {
		out.Usage = c.UsageBytes
		out.Limit = value(c.LimitBytes)
	}
	if h := f.Heap; h != nil {
		out.Heap = &Heap{Max: h.MaxBytes, Committed: h.CapacityBytes, Used: h.UsedBytes, AfterGC: h.AfterGCBytes}
	}
	for _, r := range f.Rows {
		out.Owners = append(out.Owners, Owned{
			Owner: r.Owner, Resident: r.ResidentBytes, Committed: value(r.CommittedBytes), Used: value(r.UsedBytes),
			Anonymous: r.AnonymousBytes, Parts: parts(r.Children),
		})
	}
	return out
}

// parts are the largest parts, with direct buffers whatever their size.
func parts(children []footprint.Child) []Part {
	children = slices.DeleteFunc(slices.Clone(children), func(c footprint.Child) bool {
		return c.ResidentBytes < minPart && c.ID != footprint.PartDirectBuffers
	})
	slices.SortStableFunc(children, func(a, b footprint.Child) int { return int(min(1, max(-1, b.ResidentBytes-a.ResidentBytes))) })
	var out []Part
	for _, c := range children[:min(len(children), maxParts)] {
		out = append(out, Part{ID: c.ID, Bytes: c.ResidentBytes})
	}
	return out
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Finding is what the doctor found, without its text.
type Finding struct {
	// ID names the rule, as in doctor.Finding.
	ID        string           `cbor:"1,keyasint" json:"id"`
	Bytes     int64            `cbor:"2,keyasint,omitempty" json:"bytes,omitempty"`
	Certainty doctor.Certainty `cbor:"3,keyasint,omitempty" json:"certainty"`
	Title     string           `cbor:"4,keyasint,omitempty" json:"title"`
}

// FindingsOf is what the ledger keeps of findings.
func FindingsOf(all []doctor.Finding) []Finding {
	out := []Finding{}
	for _, f := range all {
		out = append(out, Finding{ID: f.ID, Bytes: f.BytesAtStake, Certainty: f.Certainty, Title: f.Title})
	}
	return out
}

// Kind is the kind of an event.
type Kind string

// The events. Those of a JVM's group are told in the ring of the JVM.
const (
	Ended        Kind = "ended"         // the process is gone; Values: exit or signal, where the kernel told
	OOMKill      Kind = "oom-kill"      // the group's count of kills rose; Values: before, after, peak (usage)
	LimitReached Kind = "limit-reached" // usage reached the limit; Values: before, after
	AgentStart   Kind = "agent-start"   // Text: its version
	AgentStop    Kind = "agent-stop"
	Lost         Kind = "lost" // records could not be written; Values: records
)

// Event is something that happened at one moment.
type Event struct {
	Kind   Kind             `cbor:"1,keyasint" json:"kind"`
	Text   string           `cbor:"2,keyasint,omitempty" json:"text,omitempty"`
	Values map[string]int64 `cbor:"3,keyasint,omitempty" json:"values,omitempty"`
}

// ExitValues are the values of an event Ended: the signal that ended the process, or
// its exit code when that is 0.
func ExitValues(code, signal int) map[string]int64 {
	if signal != 0 {
		return map[string]int64{"signal": int64(signal)}
	}
	return map[string]int64{"exit": int64(code)}
}

// Exit is how the process of an event Ended ended; told is false when the kernel did
// not tell the agent.
func (e *Event) Exit() (code, signal int, told bool) {
	s, signalled := e.Values["signal"]
	c, exited := e.Values["exit"]
	return int(c), int(s), signalled || exited
}

// Autopsy is why a JVM ended, or lost a process of its group, as tare autopsy says it.
type Autopsy struct {
	JVM ID `cbor:"1,keyasint" json:"jvm"`
	// Verdict and Confidence are autopsy.Verdict and doctor.Certainty.
	Verdict    string `cbor:"2,keyasint" json:"verdict"`
	Confidence string `cbor:"3,keyasint,omitempty" json:"confidence"`
	// Headline is the answer in one sentence, What how the heap was and what grew.
	Headline string `cbor:"4,keyasint,omitempty" json:"headline"`
	What     string `cbor:"5,keyasint,omitempty" json:"what,omitempty"`
	// Evidence is what the verdict rests on, Do what to do next.
	Evidence []Fact   `cbor:"6,keyasint,omitempty" json:"evidence"`
	Growth   []Change `cbor:"7,keyasint,omitempty" json:"growth"`
	Do       []Step   `cbor:"8,keyasint,omitempty" json:"do"`
}

// Fact is one piece of evidence.
type Fact struct {
	Source string `cbor:"1,keyasint" json:"source"`
	Text   string `cbor:"2,keyasint" json:"text"`
}

// Change is how many bytes an account had before, and at the last look.
type Change struct {
	Account string `cbor:"1,keyasint" json:"account"`
	From    int64  `cbor:"2,keyasint,omitempty" json:"from"`
	To      int64  `cbor:"3,keyasint,omitempty" json:"to"`
}

// Step is one thing to do: an option to give, "" for none, and what it does.
type Step struct {
	Option string `cbor:"1,keyasint,omitempty" json:"option,omitempty"`
	Text   string `cbor:"2,keyasint" json:"text"`
}

// Spent is what the machine has left, and what the agent took of it. Sizes are
// bytes.
type Spent struct {
	MemTotal     int64 `cbor:"1,keyasint,omitempty" json:"memTotal,omitempty"`
	MemAvailable int64 `cbor:"2,keyasint,omitempty" json:"memAvailable,omitempty"`
	// OOMKills is how many processes the kernel killed since boot, for any limit
	// (oom_kill of /proc/vmstat).
	OOMKills int64 `cbor:"3,keyasint,omitempty" json:"oomKills,omitempty"`
	// Processor is the agent's own processor time since its start, Resident its
	// resident memory.
	Processor time.Duration `cbor:"4,keyasint,omitempty" json:"processor,omitempty"`
	Resident  int64         `cbor:"5,keyasint,omitempty" json:"resident,omitempty"`
	JVMs      int           `cbor:"6,keyasint,omitempty" json:"jvms,omitempty"`
	// Weighings and Deferred count since the agent's start: those made, and those
	// that its budget put off.
	Weighings int64 `cbor:"7,keyasint,omitempty" json:"weighings,omitempty"`
	Deferred  int64 `cbor:"8,keyasint,omitempty" json:"deferred,omitempty"`
}

// Record is one entry of a ledger. One of its pointers and Findings is set.
type Record struct {
	// Seq rises from record to record of all rings together. Numbers may be left
	// out; none is used twice.
	Seq uint64 `cbor:"1,keyasint" json:"seq"`
	// At is the wall time, which may jump; Uptime is the time since boot
	// (CLOCK_BOOTTIME), which does not.
	At     time.Time     `cbor:"2,keyasint" json:"at"`
	Uptime time.Duration `cbor:"3,keyasint,omitempty" json:"uptime"`
	// Process is whose record it is. It is not written with each record: it is that
	// of the file.
	Process ID `cbor:"-" json:"process"`

	// Start begins the ring of a JVM, and stands again where more is known of it.
	Start     *Process   `cbor:"4,keyasint,omitempty" json:"start,omitempty"`
	Counters  *Counters  `cbor:"5,keyasint,omitempty" json:"counters,omitempty"`
	Footprint *Footprint `cbor:"6,keyasint,omitempty" json:"footprint,omitempty"`
	Findings  []Finding  `cbor:"7,keyasint,omitempty" json:"findings,omitempty"`
	Event     *Event     `cbor:"8,keyasint,omitempty" json:"event,omitempty"`
	Spent     *Spent     `cbor:"9,keyasint,omitempty" json:"spent,omitempty"`
	// Autopsy stands in the ring of the machine: that of a JVM that ended takes no more.
	Autopsy *Autopsy `cbor:"11,keyasint,omitempty" json:"autopsy,omitempty"`
	// Again says that Start is a copy at the head of a file, for the files before
	// it may be gone.
	Again bool `cbor:"10,keyasint,omitempty" json:"again,omitempty"`
}
