// Package runner is where a JVM is run and limited. A Runner starts one
// process tree inside a fresh, limited group, tells what the group uses, and
// removes everything that it made.
package runner

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

// Errors that a caller tells apart with errors.Is.
var (
	// ErrUnavailable says that this runner cannot work on this machine; the
	// wrapping error says why and what would make it work.
	ErrUnavailable = errors.New("runner unavailable")
	// ErrExists says that a group of the wanted name exists already; it is
	// never adopted.
	ErrExists = errors.New("group exists already")
	// ErrNoCounters says that a process keeps no performance data that can be
	// read: it is no JVM, has not begun to, or runs with -XX:-UsePerfData.
	ErrNoCounters = errors.New("no performance data")
)

// Limits is what a group may use.
type Limits struct {
	// MemoryBytes limits memory, and memory plus swap alike; 0 is no limit.
	MemoryBytes int64
	// CPUs is a CPU quota in processors, such as 1.5; 0 is no quota.
	CPUs float64
	// Cpuset is a list of processors such as "0-1,3"; empty is no pinning.
	Cpuset string
}

// Spec is one process to start.
type Spec struct {
	// Args is the command and its arguments; Args[0] is looked up in PATH. In a
	// container this, and every other path, is the container's.
	Args []string
	// Env is the whole environment, as in os.Environ.
	Env []string
	// Dir is the working directory; empty is the caller's, or the image's.
	Dir string
	// Cold is dropped from the page cache before the process starts.
	Cold Cold
	// Stdout and Stderr receive the output; nil discards it. The cgroup runner
	// hands an *os.File to the process itself.
	Stdout, Stderr io.Writer
	Limits         Limits
	// NoHugePages switches transparent huge pages off for the process and
	// those that it starts (PR_SET_THP_DISABLE of prctl(2)).
	NoHugePages bool
}

// Usage is what a group uses at one moment. Sizes are bytes.
type Usage struct {
	// Time is the wall clock of the machine that the process runs on.
	Time time.Time
	// Age is how long the process has run, by the monotonic clock of the
	// machine that it runs on; once it has ended, how long it ran. The time
	// between two readings is the difference of their ages.
	Age        time.Duration
	UsageBytes int64
	// PeakBytes is the highest usage since the group was made; on cgroup v2
	// kernels before 5.19, which have no memory.peak, it is the highest
	// usage that was read.
	PeakBytes int64
	// LimitBytes is 0 when the group has no limit.
	LimitBytes int64
	// Stat is memory.stat, whole, with the kernel's own names.
	Stat map[string]int64
	// RefaultBytes is how much of files was read again after reclaim had
	// dropped it.
	RefaultBytes int64
	// OOMKills counts the times that the kernel killed in this group. Only
	// zero and non-zero are dependable: one kill may count twice.
	OOMKills int64
	// LimitHits counts the times that the group's own limit could not be kept.
	// Where it is 0, kills were for the limit of a group above, or because the
	// machine had no memory left.
	LimitHits int64
	// CPUTime is the processor time that the group used.
	CPUTime time.Duration
	// Throttled is how long the CPU quota held the group back.
	Throttled time.Duration
	// Stalled is how long some process of the group waited for memory
	// (pressure, "some"); nil where the kernel does not tell (no PSI, or
	// cgroup v1 without a v2 hierarchy beside it).
	Stalled *time.Duration
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, -1 when a signal ended the process.
	Code int
	// Signal is the signal that ended the process, or 0. An engine does not
	// tell exit code 137 from SIGKILL: of a container both are the signal.
	Signal syscall.Signal
}

// Counters are what a JVM counts itself (hsperfdata; see hotspot.PerfCounters).
type Counters struct {
	// HeapUsed is the heap in use in bytes, garbage included. UsedAfterGC is
	// what the last collection left of it, 0 before the first.
	HeapUsed, UsedAfterGC int64
	// GCTime is for how long collections stopped the application, GCCount is
	// their number, both since the JVM's start, with those of JVMs that were told of
	// before. OldGCCount are those of more than the young generation: only they free what
	// has become old.
	GCTime              time.Duration
	GCCount, OldGCCount int64
	// AwaitsHeap says that at this moment threads wait for a concurrent collector
	// (hotspot.PerfCounters).
	AwaitsHeap bool
}

// Program is what the JVM that a Process tells of runs.
type Program struct {
	// Options are those of the JVM's command line that begin with -X, and argument files
	// (@FILE): no properties, in which secrets may be.
	Options []string `json:",omitempty"`
	// Child says that the JVM is not the process that was started: that one, or another of
	// its children, has started it.
	Child bool `json:",omitempty"`
	// Home is the folder of its runtime (Java.Home); "" where its program is no java launcher.
	Home string `json:",omitempty"`
}

// Programmed is a Process of this machine whose JVM tells what it runs.
type Programmed interface {
	// Program fails where there is no JVM.
	Program(ctx context.Context) (Program, error)
}

// Preparer is a Runner with more to do before a trial than to start its process.
type Preparer interface {
	// Prepare returns when a trial may begin. Its time is none of the trial's.
	Prepare(ctx context.Context) error
}

// Process is a started process and its group, on this machine or on another
// one. Methods may be called from several goroutines. Where one takes a
// context, it returns the context's error soon after the context has ended.
//
// Of several JVMs in the group, what is told of one (Times by kind of thread, Footprint,
// Counters, Status, NativeMemory) is told of the one with the most memory.
type Process interface {
	// Usage reads the group. It works after the process ended, until Close;
	// from then on the error wraps os.ErrClosed.
	Usage(ctx context.Context) (Usage, error)
	// Times reads the processor time of the group, and by kind of thread that of
	// the process; as Usage it works until Close. A thread is read in some ten
	// microseconds: who asks often bounds what it costs.
	Times(ctx context.Context) (Times, error)
	// Footprint weighs the JVM, and sends nothing to it.
	Footprint(ctx context.Context) (*footprint.Footprint, error)
	// Counters reads the counters of the JVM. Where there are none (yet) the
	// error wraps ErrNoCounters.
	Counters(ctx context.Context) (Counters, error)
	// Status is what /proc/PID/status says of the JVM.
	Status(ctx context.Context) (linux.Status, error)
	// NativeMemory asks the JVM for the summary of its native memory tracking:
	// committed bytes by category, and "Total". It stops the JVM at a
	// safepoint.
	NativeMemory(ctx context.Context) (map[string]int64, error)
	// SetMemoryLimit changes the group's memory limit (and memory plus swap
	// alike); 0 lifts it. A container that has ended has none to change, which
	// is no error.
	SetMemoryLimit(ctx context.Context, bytes int64) error
	// Done is closed when the process has ended and Exit is valid.
	Done() <-chan struct{}
	// Exit is how the process ended; the zero Exit before Done is closed.
	Exit() Exit
	// Stop sends SIGTERM to the JVM, where that is another one, and once that has ended to the
	// process; after the grace, or when ctx ends, it kills the whole group. It returns when
	// the process has ended.
	Stop(ctx context.Context, grace time.Duration) error
	// Close kills what is left in the group and removes the group. It is
	// idempotent, and must be called for every started process.
	Close() error
}

// Runner starts processes in limited groups of a machine, its Host.
type Runner interface {
	Host
	// Name is the runner's name as it stands in reports: "cgroup v1",
	// "cgroup v2", "docker".
	Name() string
	// Start makes a fresh group, limits it, and starts the process inside
	// it: no page is charged elsewhere. On error nothing is left behind.
	// When ctx is cancelled later, the process is not touched: call Stop.
	Start(ctx context.Context, spec Spec) (Process, error)
	// Sweep ends and removes what earlier callers that are no longer alive
	// left behind, and returns what it removed.
	Sweep(ctx context.Context) (removed []string, err error)
}

// Fleet is a Runner with several machines of one kind, on which processes run at the same
// time.
type Fleet interface {
	Runner
	// Nodes are its machines, the first of which is the Fleet's own.
	Nodes() []Node
	// Lost says that an error is one of the machine, and not of what was to run there.
	Lost(err error) bool
}

// Node is a machine of a Fleet, and the Runner that starts processes there.
type Node struct {
	Name   string
	Runner Runner
}
