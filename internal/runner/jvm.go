package runner

import (
	"context"
	"fmt"
	"io"
	"sync"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	processes "tare.dev/tare/internal/process"
)

// jvm is what a process on this machine says of itself.
type jvm struct {
	// pid is the process's id in the PID namespace of the caller; 0 when the
	// kernel killed the process before it was there.
	pid  int
	proc linux.FS

	mu   sync.Mutex
	perf *hotspot.PerfFile
	// inMemory are performance data that are in no file.
	inMemory perfMemory
	// threads are the clocks of its threads.
	threads threadTimes
}

// Footprint weighs the process.
func (j *jvm) Footprint(ctx context.Context) (*footprint.Footprint, error) {
	return footprint.Weigh(ctx, j.pid, footprint.Options{Proc: j.proc})
}

// Counters reads the JVM's performance data.
func (j *jvm) Counters(ctx context.Context) (Counters, error) {
	if err := ctx.Err(); err != nil {
		return Counters{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	p, err := j.perfData()
	if err != nil {
		return Counters{}, fmt.Errorf("%w: %w", ErrNoCounters, err)
	}
	c := p.Counters()
	return Counters{HeapUsed: c.HeapUsed, UsedAfterGC: c.UsedAfterGC, GCTime: c.GCTime(), GCCount: c.GCCount(), OldGCCount: c.OldGCCount(), AwaitsHeap: c.AwaitsHeap()}, nil
}

// perfData reads the performance data, of a file or else of memory; j.mu is held.
func (j *jvm) perfData() (*hotspot.PerfData, error) {
	if j.inMemory.mem != nil {
		return j.inMemory.read()
	}
	if j.perf == nil {
		f, err := hotspot.OpenPerfData(j.proc.Root(), j.pid)
		if err != nil {
			return j.inMemory.open(j.proc, j.pid, err)
		}
		j.perf = f
	}
	return j.perf.Read()
}

// forget closes the performance data of a process that has ended, and removes
// the file that a killed JVM left. It does its best: a JVM that starts later
// removes what ended ones of its user left (perfMemory_posix.cpp,
// cleanup_sharedmem_files).
func (j *jvm) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inMemory.close()
	if j.perf == nil {
		return
	}
	_ = j.perf.RemoveStale()
	j.perf.Close()
	j.perf = nil
}

// Status reads /proc/PID/status.
func (j *jvm) Status(ctx context.Context) (linux.Status, error) {
	if err := ctx.Err(); err != nil {
		return linux.Status{}, err
	}
	return j.proc.Status(j.pid)
}

// NativeMemory asks the JVM for VM.native_memory.
func (j *jvm) NativeMemory(ctx context.Context) (map[string]int64, error) {
	target, err := processes.Find(j.proc, j.pid)
	if err != nil {
		return nil, err
	}
	var sums *attach.NMTSummary
	err = attach.Ask(ctx, j.proc, target, "VM.native_memory summary", func(answer io.Reader) (err error) {
		sums, err = attach.ParseNMTSummary(answer)
		return err
	})
	if err != nil {
		return nil, err
	}
	committed := map[string]int64{"Total": sums.CommittedBytes}
	for _, c := range sums.Categories {
		committed[c.Name] = c.CommittedBytes
	}
	return committed, nil
}

// Asked is a Process of this machine whose JVM can be asked for more.
type Asked interface {
	// Objects makes a full collection and lists what is left of the heap by class, the
	// largest classes.
	Objects(ctx context.Context) (*attach.Histogram, error)
	// ThreadNames are the names of all threads, as the kernel has them: 15 bytes each.
	ThreadNames(ctx context.Context) ([]string, error)
}

// mostClasses is how many classes are listed.
const mostClasses = 2000

// Objects asks the JVM for GC.class_histogram.
func (j *jvm) Objects(ctx context.Context) (h *attach.Histogram, err error) {
	target, err := processes.Find(j.proc, j.pid)
	if err != nil {
		return nil, err
	}
	err = attach.Ask(ctx, j.proc, target, "GC.class_histogram", func(answer io.Reader) (err error) {
		h, err = attach.ParseHistogram(answer, mostClasses)
		return err
	})
	return h, err
}

// ThreadNames reads /proc/PID/task.
func (j *jvm) ThreadNames(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clocks, _, err := j.proc.ThreadClocks(j.pid, func(int) bool { return false })
	out := make([]string, len(clocks))
	for i, c := range clocks {
		out[i] = c.Name
	}
	return out, err
}
