// Package autopsy finds out why a JVM ended: it joins what an agent kept of it in its
// ledger, what the kernel said, what its control group counted and what the JVM wrote
// itself into one verdict with its evidence. It works with each of them alone, and an
// exit code is never taken for more than it says.
package autopsy

import (
	"path"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
)

// Schema names the JSON form of a Report. Fields may be added; none changes its
// meaning.
const Schema = "tare.autopsy/1"

// Verdict is why a JVM ended.
type Verdict string

// The verdicts.
const (
	ContainerLimit   Verdict = "container-limit"     // the kernel, for the limit of its own group
	ParentLimit      Verdict = "parent-limit"        // the kernel, for that of a group above
	MachineLimit     Verdict = "machine"             // the kernel, for want of the machine's memory
	ChildKilled      Verdict = "child"               // the kernel killed another process of its group
	OOMD             Verdict = "systemd-oomd"        // systemd-oomd killed its group
	OutOfMemoryError Verdict = "out-of-memory-error" // the JVM itself, or it serves no more
	NativeCrash      Verdict = "native-crash"        // a fault in native code
	Killed           Verdict = "killed"              // a signal from outside: a stop, a probe, an eviction
	Exited           Verdict = "exited"              // it ended by itself
	Running          Verdict = "running"             // it has not ended
	Unknown          Verdict = "not-known"
)

// OutOfMemory says that the verdict is one of memory.
func (v Verdict) OutOfMemory() bool {
	switch v {
	case ContainerLimit, ParentLimit, MachineLimit, ChildKilled, OOMD, OutOfMemoryError:
		return true
	}
	return false
}

// Input is what is known of a JVM and its end. Any part may be missing, but Process.ID.
type Input struct {
	Process ledger.Process
	// Records are those of its ring, in their order.
	Records []ledger.Record
	// Log is what the kernel's log tells; nil when it could not be read. LogBoot is the
	// boot that its times without one of their own are of; "" is unknown.
	Log     *kernellog.Events
	LogBoot string
	// Crash is what its hs_err file says; nil without one.
	Crash *Crash
	// HeapDump is a heap dump that the JVM wrote of itself; "" without one.
	HeapDump string
	// Alive says that it runs now.
	Alive bool
}

// Report is the outcome of an autopsy. Sizes are bytes.
type Report struct {
	Schema string         `json:"schema"`
	JVM    ledger.Process `json:"jvm"`
	// Name is what people call it: of its pod and container, else its own.
	Name       string           `json:"name"`
	Verdict    Verdict          `json:"verdict"`
	Confidence doctor.Certainty `json:"confidence"`
	// Headline is the answer in one sentence; What says what grew, in another.
	Headline string `json:"headline"`
	What     string `json:"what,omitempty"`
	// At is the wall time of the end; zero when it is not known, or there was none.
	At time.Time `json:"at,omitzero"`
	// LimitBytes is the limit that was reached, LimitGroup whose it is.
	LimitBytes int64  `json:"limitBytes,omitempty"`
	LimitGroup string `json:"limitGroup,omitempty"`
	// Moments are what it held before the end, the last one last.
	Moments []Moment `json:"moments"`
	// Growth is by account, the largest first, from the first of Moments to the last.
	Growth   []Growth   `json:"growth"`
	Heap     *Heap      `json:"heap,omitempty"`
	Evidence []Evidence `json:"evidence"`
	Do       []Advice   `json:"do"`
	// Missing is what would have made it surer.
	Missing []string        `json:"missing"`
	Kill    *kernellog.Kill `json:"kill,omitempty"`
	Crash   *Crash          `json:"crash,omitempty"`
}

// Heap is the object heap at the last look. A zero was not told.
type Heap struct {
	UsedBytes    int64 `json:"usedBytes"`
	AfterGCBytes int64 `json:"afterGcBytes"`
	MaxBytes     int64 `json:"maxBytes"`
}

// Moment is what the JVM held at one time.
type Moment struct {
	At time.Time `json:"at"`
	// BeforeSeconds is how long before the end that was.
	BeforeSeconds float64       `json:"beforeSeconds"`
	Reason        ledger.Reason `json:"reason"`
	UsageBytes    int64         `json:"usageBytes"`
	LimitBytes    int64         `json:"limitBytes,omitempty"`
	ResidentBytes int64         `json:"residentBytes"`
	Threads       int           `json:"threads"`
	Classes       int64         `json:"classes"`
	// Accounts add up to ResidentBytes.
	Accounts map[Account]int64 `json:"accounts"`

	uptime time.Duration
}

// Account is an owner of memory, or direct buffers, which are taken out of their
// owner: they are the application's, and have an option of their own.
type Account string

// DirectBuffers are java.nio's.
const DirectBuffers Account = footprint.PartDirectBuffers

// Growth is how an account changed.
type Growth struct {
	Account Account `json:"account"`
	From    int64   `json:"fromBytes"`
	To      int64   `json:"toBytes"`
}

// Change is how much was added.
func (g Growth) Change() int64 { return g.To - g.From }

// Evidence is a fact that the verdict rests on.
type Evidence struct {
	// Source is where it was read: kernel log, group, exit, ledger, hs_err, heap dump.
	Source string `json:"source"`
	Text   string `json:"text"`
}

// Advice is what would have kept it alive, or what to do next.
type Advice struct {
	// Option is ready to paste; "" where there is none.
	Option string `json:"option,omitempty"`
	Text   string `json:"text"`
}

// Examine finds out why a JVM ended.
func Examine(in Input) *Report {
	c := newCase(in)
	r := &Report{Schema: Schema, JVM: in.Process, Name: NameOf(in.Process), Moments: []Moment{}, Growth: []Growth{}, Evidence: []Evidence{}, Do: []Advice{}, Missing: []string{}}
	c.judge(r)
	r.Moments = c.moments()
	r.Growth = growth(r.Moments)
	r.Heap = c.heap()
	c.tell(r)
	c.advise(r)
	c.lack(r)
	return r
}

// NameOf is what people call a JVM.
func NameOf(p ledger.Process) string {
	switch {
	case p.Pod != "" && p.ContainerName != "":
		return p.Pod + "/" + p.ContainerName
	case p.Pod != "":
		return p.Pod
	case p.ContainerName != "":
		return p.ContainerName
	}
	return path.Base(p.Name)
}
