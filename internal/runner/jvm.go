package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
	processes "tare.dev/tare/internal/process"
)

// jvm is what the JVM of a group on this machine says of itself. That is the process that was
// started or, where that has another JVM do the work, the other one: a script may start it, or a
// JVM that watches over it.
type jvm struct {
	// pid is the id of the process that was started, in the PID namespace of the caller; 0 when
	// the kernel killed the process before it was there.
	pid  int
	proc linux.FS
	// dirs are the directories of its group; none where it has none of its own.
	dirs []string

	mu sync.Mutex
	// at is the id of the process that is read, 0 is not yet; isOne says that it was seen to be a
	// JVM, and looked is when it was looked for.
	at     int
	isOne  bool
	looked time.Time
	perf   *hotspot.PerfFile
	// left are the performance data of processes that were read before.
	left []*hotspot.PerfFile
	// counted is what each process that was read had counted, by its id.
	counted map[int]Counters
	// inMemory are performance data that are in no file.
	inMemory perfMemory
	// threads are the clocks of its threads.
	threads threadTimes
}

const (
	// lookEvery bounds what it costs to look which JVM does the work, once there is one: a job may
	// have ended within a second.
	lookEvery = time.Second
	// heavier is how many times the memory of the JVM that was read so far another one of the
	// group must have to be read instead. A child has as much as its parent until it becomes
	// another program.
	heavier = 1.25
)

// worker is the id of the process that is read: of the JVMs in the group the one with the most
// memory, and the process that was started where there is no other one.
func (j *jvm) worker() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.find()
}

// find is worker; j.mu is held.
func (j *jvm) find() int {
	if j.isOne && time.Since(j.looked) < lookEvery {
		return j.at
	}
	j.looked = time.Now()
	at, isOne := j.heaviest()
	if at != j.at {
		j.letGo()
	}
	j.at, j.isOne = at, isOne
	return j.at
}

// heaviest looks for the JVM with the most memory, and says whether there is one.
func (j *jvm) heaviest() (at int, isOne bool) {
	pids, err := processesBelow(j.dirs)
	if err != nil || len(pids) < 2 {
		return j.pid, j.isJVM(j.pid)
	}
	resident := map[int]int64{}
	for _, pid := range pids {
		if st, err := j.proc.Status(pid); err == nil {
			resident[pid] = st.VmRSS
		}
	}
	at, most := j.pid, 0.0
	if resident[j.at] > 0 && j.isJVM(j.at) {
		at, isOne, most = j.at, true, heavier*float64(resident[j.at])
	}
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(resident[b], resident[a]) })
	for _, pid := range pids {
		if float64(resident[pid]) > most && j.isJVM(pid) {
			return pid, true
		}
	}
	return at, isOne
}

func (j *jvm) isJVM(pid int) bool {
	_, err := processes.Find(j.proc, pid)
	return err == nil
}

// Program tells what the JVM runs.
func (j *jvm) Program(ctx context.Context) (Program, error) {
	if err := ctx.Err(); err != nil {
		return Program{}, err
	}
	at := j.worker()
	if _, err := processes.Find(j.proc, at); err != nil {
		return Program{}, err
	}
	args, err := j.proc.Cmdline(at)
	if err != nil {
		return Program{}, err
	}
	p := Program{Child: at != j.pid}
	if exe, err := os.Readlink(j.proc.Path(at, "exe")); err == nil && filepath.Base(exe) == "java" {
		p.Home = filepath.Dir(filepath.Dir(exe))
	}
	if command, err := jvmopts.Parse(args); err == nil {
		p.Options = slices.DeleteFunc(command.Options, func(o string) bool { return !strings.HasPrefix(o, "-X") && !strings.HasPrefix(o, "@") })
	}
	return p, nil
}

// Footprint weighs the process.
func (j *jvm) Footprint(ctx context.Context) (*footprint.Footprint, error) {
	return footprint.Weigh(ctx, j.worker(), footprint.Options{Proc: j.proc})
}

// Counters reads the JVM's performance data.
func (j *jvm) Counters(ctx context.Context) (Counters, error) {
	if err := ctx.Err(); err != nil {
		return Counters{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.find()
	p, err := j.perfData()
	if err != nil {
		return Counters{}, fmt.Errorf("%w: %w", ErrNoCounters, err)
	}
	c := p.Counters()
	now := Counters{HeapUsed: c.HeapUsed, UsedAfterGC: c.UsedAfterGC, GCTime: c.GCTime(), GCCount: c.GCCount(), OldGCCount: c.OldGCCount(), AwaitsHeap: c.AwaitsHeap()}
	if j.counted == nil {
		j.counted = map[int]Counters{}
	}
	j.counted[j.at] = now
	for at, c := range j.counted {
		if at != j.at {
			now.GCTime, now.GCCount, now.OldGCCount = now.GCTime+c.GCTime, now.GCCount+c.GCCount, now.OldGCCount+c.OldGCCount
		}
	}
	return now, nil
}

// perfData reads the performance data, of a file or else of memory; j.mu is held.
func (j *jvm) perfData() (*hotspot.PerfData, error) {
	if j.inMemory.mem != nil {
		return j.inMemory.read()
	}
	if j.perf == nil {
		f, err := hotspot.OpenPerfData(j.proc.Root(), j.at)
		if err != nil {
			return j.inMemory.open(j.proc, j.at, err)
		}
		j.perf = f
	}
	return j.perf.Read()
}

// endFirst ends the JVM by SIGTERM, where that is a child of the process that was started, and
// returns what is left of the grace once it has ended. A shell passes no signal on: it ends at
// once, and with it all that is in its group, or as the first process of a container not at all.
func (j *jvm) endFirst(ctx context.Context, grace time.Duration) (left time.Duration) {
	at := j.worker()
	if at == j.pid {
		return grace
	}
	p, err := os.FindProcess(at)
	if err != nil {
		return grace
	}
	defer p.Release()
	begin, asked := time.Now(), false
	_, _ = retry(grace, func() (gone bool, err error) {
		pids, err := processesBelow(j.dirs)
		if err != nil || ctx.Err() != nil || !slices.Contains(pids, at) {
			return true, nil
		}
		// Held, its id is not another's.
		if !asked {
			asked = true
			err = p.Signal(syscall.SIGTERM)
		}
		return errors.Is(err, os.ErrProcessDone), nil
	})
	return max(0, grace-time.Since(begin))
}

// letGo keeps no more of the process that was read than its performance data; j.mu is held.
func (j *jvm) letGo() {
	j.inMemory.close()
	j.inMemory = perfMemory{}
	if j.perf != nil {
		j.left, j.perf = append(j.left, j.perf), nil
	}
}

// forget closes the performance data of processes that have ended, and removes
// the files that killed JVMs left. It does its best: a JVM that starts later
// removes what ended ones of its user left (perfMemory_posix.cpp,
// cleanup_sharedmem_files).
func (j *jvm) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.letGo()
	for _, perf := range j.left {
		_ = perf.RemoveStale()
		perf.Close()
	}
	j.left = nil
}

// Status reads /proc/PID/status.
func (j *jvm) Status(ctx context.Context) (linux.Status, error) {
	if err := ctx.Err(); err != nil {
		return linux.Status{}, err
	}
	return j.proc.Status(j.worker())
}

// NativeMemory asks the JVM for VM.native_memory.
func (j *jvm) NativeMemory(ctx context.Context) (map[string]int64, error) {
	target, err := processes.Find(j.proc, j.worker())
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
	target, err := processes.Find(j.proc, j.worker())
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
	clocks, _, err := j.proc.ThreadClocks(j.worker(), func(int) bool { return false })
	out := make([]string, len(clocks))
	for i, c := range clocks {
		out[i] = c.Name
	}
	return out, err
}
