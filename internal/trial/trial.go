// Package trial runs an application once: started in a limited group, awaited
// until ready, warmed up, loaded, watched, stopped; and gives a verdict with
// its evidence.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

// Defaults of a Spec.
const (
	DefaultReadyTimeout = 120 * time.Second
	DefaultStopGrace    = 10 * time.Second
	logLines            = 20
	patiencePoll        = time.Second
)

// Spec is one trial.
type Spec struct {
	Args []string
	Env  []string
	Dir  string
	// Limits is what the application may use.
	Limits       runner.Limits
	Ready        Ready
	ReadyTimeout time.Duration
	// Patience is how long the application may take to be ready where reclaim
	// or collections take the time; 0 is ReadyTimeout.
	Patience time.Duration
	// Job says that the application is to run to its end, within
	// ReadyTimeout, and that its time is the measure: Ready and load are not
	// for it.
	Job bool
	// Loader is nil where no load is put: the application then idles for
	// Duration.
	Loader   load.Loader
	Warmup   time.Duration
	Duration time.Duration
	// WarmBlocks has the warm-up go on in blocks, each of them Warmup, until the application
	// has warmed up (Warm), and for that many at most; 0 and 1 are a warm-up of Warmup.
	WarmBlocks int
	// Work ends the warm-up and the measured load before Warmup and Duration do.
	Work Work
	SLO  SLO
	// Baseline is what the SLO's ratios compare with; nil leaves them out.
	Baseline *Measured
	// Idle is how long an application that is ready is left alone before the load, to see
	// what it uses when it has nothing to do (Result.IdleCPUs); 0 is not at all.
	Idle time.Duration
	// Probe asks the load's targets where the first load had bad answers, so that the error
	// names one. A trial that asked them before would have answered more than others.
	Probe bool
	// JavaHome and Files are dropped from the page cache before the start
	// (runner.Cold).
	JavaHome string
	Files    []string
	// LogFile takes the application's whole output; empty keeps its end
	// only.
	LogFile string
	// Log takes the same as it comes; nil is nobody. Its errors are not looked at.
	Log io.Writer
	// StopGrace is how long the application has to end after SIGTERM.
	StopGrace time.Duration
	// Weigh says that footprints are taken.
	Weigh bool
	// NoHugePages is as in runner.Spec.
	NoHugePages bool
	// Squeeze asks for Result.CacheBytes of an application that serves its
	// load; only a Loader whose load comes in moments can tell.
	Squeeze bool
	// Inspect is called at the end of the load, after the last footprint;
	// nil is nobody. What it makes the application use is in no figure of memory.
	Inspect func(ctx context.Context, p runner.Process)
	// Stage is told what the trial does at the moment; nil is nobody.
	Stage func(Stage)
}

// Work is an amount of load in requests: what trials do alike, however fast the
// machine is at the moment. Where a number is 0, the time alone ends that part; where
// it is not, the Loader is a load.WorkLoader.
type Work struct {
	Warmup, Measured int64 `json:",omitempty"`
	// Blocks is how many times Spec.Warmup that warm-up took where it was found; 0 is once. A
	// trial warms up in so many loads, but begins none once they have taken longer than Within;
	// 0 is no bound.
	Blocks int           `json:",omitempty"`
	Within time.Duration `json:",omitempty"`
	// Due says that a trial fails which does not get through Measured in time.
	Due bool `json:",omitempty"`
}

// Stage is a part of a trial.
type Stage string

// The stages, in their order.
const (
	Starting  Stage = "starting"
	Warming   Stage = "warming up"
	Loading   Stage = "loading"
	Squeezing Stage = "squeezing"
	Stopping  Stage = "stopping"
)

// Result is how a trial went.
type Result struct {
	Verdict  Verdict
	Evidence []string
	// Narrow says that the failure may be noise (Evidence.NarrowMiss).
	Narrow bool
	Time   time.Time
	Limits runner.Limits
	// ReadyAfter is 0 when it never was, and for a job.
	ReadyAfter time.Duration
	// JobTime is how long a job took, or ran until its deadline; 0 when it
	// failed, and for a service.
	JobTime time.Duration
	Load    *load.Result
	// WarmupRequests were sent before the measured load.
	WarmupRequests int64 `json:",omitempty"`
	// Warming are the blocks of a warm-up that goes on until the application has warmed up
	// (Spec.WarmBlocks).
	Warming []WarmBlock `json:",omitempty"`
	// Took is the length of the trial.
	Took time.Duration
	// PeakBytes is the group's highest usage; NeededBytes its highest usage
	// less page cache, of all samples.
	PeakBytes, NeededBytes int64
	// WorkingSetBytes is its highest usage less inactive file pages, of all samples: what
	// the kubelet calls the working set.
	WorkingSetBytes int64 `json:",omitempty"`
	// CacheBytes is the page cache that the application needs under its load.
	// It is found by lowering the limit after the measurement; 0 where that
	// was not done.
	CacheBytes int64
	// Squeezed are the steps by which that was found, the largest limit first.
	Squeezed []SqueezeStep `json:",omitempty"`
	// LiveBytes is the least heap that a collection left during the load, an upper bound of the
	// live set. Of a job it is the most, and where the old generation was collected the most that
	// this left. It is 0 when no collection ran.
	// HeapBytes is the highest heap usage that was seen.
	LiveBytes, HeapBytes int64
	// GCShare and StallShare are nil where unknown. GCShare is of pauses; AwaitShare
	// is as in Evidence.
	GCShare, StallShare *float64
	AwaitShare          *float64 `json:",omitempty"`
	// Times is what the kinds of threads used in the judged window; nil where no
	// threads of a JVM were seen.
	Times *runner.Times `json:",omitempty"`
	// ReclaimShare is as in Evidence.
	ReclaimShare float64 `json:",omitempty"`
	// StartReclaimShare is the same of the time until it was ready.
	StartReclaimShare float64 `json:",omitempty"`
	// WorstReclaimShare is that of the quarter of the load in which it was largest; nil
	// where footprints of the load could not be taken at little cost.
	WorstReclaimShare *float64 `json:",omitempty"`
	Collections       int64
	// Others is the share of the machine's processor time that went to
	// others during the load.
	Others       float64
	RefaultBytes int64
	// MajorFaults and DirectBytes are as in Evidence.
	MajorFaults, DirectBytes int64 `json:",omitempty"`
	Throttled                time.Duration
	CPUTime                  time.Duration
	// IdleCPUs is how many processors the application used while it was left alone, of
	// what others and its quota left it of one: its own threads and its collector, without
	// compilers, which are busy after a start. nil where it was not left alone, or no JVM
	// was seen.
	IdleCPUs *float64 `json:",omitempty"`
	// LoadCPUTime is the processor time that the application used during the
	// measured load; 0 without load.
	LoadCPUTime time.Duration `json:",omitempty"`
	// Pace is the mean processor time of a fixed piece of work during the measured load
	// (runner.Host.Pace); 0 is unknown.
	Pace time.Duration `json:",omitempty"`
	Exit runner.Exit
	// Ended says that the application ended without being asked to.
	Ended bool
	// Program is what the JVM runs that was weighed, where it is a child of the process that
	// was started, or that is no java launcher; else nil.
	Program *runner.Program `json:",omitempty"`
	// Opened are files that the application used (runner.Opener), to be dropped from the page
	// cache before the next trial.
	Opened []string `json:",omitempty"`
	// Peak and End are footprints near the highest usage less page cache, and
	// at the end of the load; nil where none could be taken.
	Peak, End *footprint.Footprint
	// Growth is what grew steadily until the end of the load; nil also where
	// footprints could not be taken at so little cost.
	Growth []Growth `json:",omitempty"`
	// UnpaidBytes are pages of the peak footprint that are charged to other
	// groups, which had them in the page cache first: those of the C
	// library, and of files that another process maps. A container of its
	// own pays for them. 0 without a footprint; too small where the group has other processes,
	// of whose pages the group pays for some.
	UnpaidBytes int64
	// Stat is memory.stat at the end.
	Stat map[string]int64
	// CodeCacheFull is as in Findings.
	CodeCacheFull bool `json:",omitempty"`
	// Log is the last lines of the application's output.
	Log []string
	// Warnings are things that could not be measured.
	Warnings []string
	// Broken are the clauses of the SLO that do not hold. In JSON only
	// Evidence tells of them: a miss of a bar of 0 is infinite.
	Broken []Broken `json:"-"`
}

// Measured is the part that SLOs look at.
func (r *Result) Measured() Measured {
	m := Measured{Load: r.Load, Warmup: r.WarmupRequests, WarmBlocks: len(r.Warming), WarmTime: r.warmTime(), Start: r.ReadyAfter, Time: r.JobTime, Pace: r.Pace}
	waited := r.ReclaimShare
	if r.AwaitShare != nil {
		waited = max(waited, *r.AwaitShare)
	}
	switch {
	case r.JobTime > 0:
		m.Cost = workCost(r.CPUTime, 1, waited)
	case r.Load != nil:
		m.Cost = workCost(r.LoadCPUTime, r.Load.OK, waited)
	}
	return m
}

// Passed tells whether the trial passed.
func (r *Result) Passed() bool { return r.Verdict == Passed }

// Trialer is a Runner that makes a whole trial where its processes run, for readiness
// and load can be seen only there.
type Trialer interface {
	runner.Runner
	// Trial is Run. Where the Spec asks for what cannot be done there, the error says so.
	Trial(ctx context.Context, s Spec) (*Result, error)
}

// errEnded is the cause of a context that ended because the application did.
var errEnded = errors.New("the application ended")

// errNotReady is the cause of a context that ended at the ready deadline.
var errNotReady = errors.New("not ready in time")

// Run makes one trial. Whatever the application does is a Result; an error
// says that no trial could be made (PortInUseError, load.ErrTarget,
// runner.ErrUnavailable), or that ctx ended. The application has ended and its
// group is removed when Run returns.
func Run(ctx context.Context, r runner.Runner, s Spec) (res *Result, err error) {
	if elsewhere, ok := r.(Trialer); ok {
		return elsewhere.Trial(ctx, s)
	}
	if err := checkPorts(ctx, r, localAddrs(s.Ready, s.Loader)); err != nil {
		return nil, err
	}
	if p, ok := r.(runner.Preparer); ok {
		if err := p.Prepare(ctx); err != nil {
			return nil, err
		}
	}
	file, err := openLog(s.LogFile)
	if err != nil {
		return nil, err
	}
	defer file.Close() // of no file: harmless
	log := newCapture(file, s.Ready.log)
	log.copy = s.Log
	begin := time.Now()
	proc, err := r.Start(ctx, runner.Spec{Args: s.Args, Env: s.Env, Dir: s.Dir,
		Cold: runner.Cold{JavaHome: s.JavaHome, Files: s.Files}, Stdout: log.stream(), Stderr: log.stream(), Limits: s.Limits,
		NoHugePages: s.NoHugePages})
	if err != nil {
		return nil, fmt.Errorf("start of %s: %w", s.Args[0], err)
	}
	defer func() { err = errors.Join(err, proc.Close()) }()
	t := &run{spec: s, host: r, proc: proc, log: log, begin: begin}
	return t.do(ctx)
}

// run is a trial under way.
type run struct {
	spec    Spec
	host    runner.Host
	proc    runner.Process
	log     *capture
	begin   time.Time
	sampler *sampler

	ready    time.Duration // 0: not
	waited   time.Duration // for it to be ready, where Patience ended; else 0
	jobTime  time.Duration
	ended    bool
	load     *load.Result
	warmup   int64 // requests
	blocks   []WarmBlock
	squeezed []SqueezeStep
	decided  bool // the load was ended: nothing could change the verdict
	idle     *float64
	window   window
	start    window // until it was ready
	end      *footprint.Footprint
	growth   []Growth
	// worstReclaim is as in Result.
	worstReclaim *float64
	peak         int64 // of the group's usage before Inspect; 0: not inspected
}

func (t *run) do(ctx context.Context) (*Result, error) {
	t.sampler = startSampler(ctx, t.host, t.proc, t.spec.Weigh)
	err := t.serve(ctx)
	t.sampler.stop()
	select {
	case <-t.proc.Done():
		t.ended = true
	default:
	}
	usage, usageErr := t.proc.Usage(ctx)
	cache := t.squeeze(ctx, usage)
	t.stage(Stopping)
	// The measurement is over: without its limit the application ends
	// sooner, and in good order.
	liftErr := t.proc.SetMemoryLimit(ctx, 0)
	if stopErr := t.proc.Stop(ctx, t.grace()); err == nil && ctx.Err() == nil {
		err = stopErr
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(err, usageErr); err != nil {
		return nil, err
	}
	res := t.result(usage)
	res.CacheBytes, res.Squeezed = cache, t.squeezed
	if err := t.log.lost(); err != nil {
		res.Warnings = append(res.Warnings, "the rest of the application's log is not kept: "+err.Error())
	}
	if liftErr != nil {
		res.Warnings = append(res.Warnings, "after the trial: "+liftErr.Error())
	}
	return res, nil
}

func (t *run) grace() time.Duration {
	if t.spec.StopGrace > 0 {
		return t.spec.StopGrace
	}
	return DefaultStopGrace
}

func (t *run) stage(s Stage) {
	if t.spec.Stage != nil {
		t.spec.Stage(s)
	}
}

// serve is the application's life from start to the end of the load. That the
// application ends, or is not ready in time, is no error.
func (t *run) serve(ctx context.Context) error {
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-t.proc.Done():
			cancel(errEnded)
		case <-alive.Done():
		}
	}()
	err := t.phases(alive)
	if t.window.length == 0 {
		t.window = t.sampler.end(ctx)
	}
	if errors.Is(err, errNotReady) || errors.Is(err, errJobTime) || errors.Is(context.Cause(alive), errEnded) {
		return nil
	}
	return err
}

func (t *run) phases(ctx context.Context) error {
	if t.spec.Job {
		return t.runJob(ctx)
	}
	t.stage(Starting)
	if err := t.awaitReady(ctx); err != nil {
		return err
	}
	t.ready = time.Since(t.begin)
	t.start = t.sampler.end(ctx)
	if t.spec.Loader == nil {
		t.stage(Loading)
		t.sampler.begin(ctx)
		err := sleep(ctx, t.spec.Duration)
		t.closeWindow(ctx)
		return err
	}
	if err := t.idleFor(ctx, t.spec.Idle); err != nil {
		return err
	}
	if t.spec.Warmup > 0 {
		if err := t.warmUp(ctx); err != nil {
			return err
		}
	}
	t.stage(Loading)
	t.sampler.begin(ctx)
	t.sampler.watchTrend(ctx, t.expected())
	l, err := t.putMeasured(ctx)
	t.load = &l
	t.closeWindow(ctx)
	if err == nil && t.spec.Warmup == 0 {
		err = t.askTargets(ctx, l)
	}
	return err
}

// askTargets asks what the first load of a trial was put on, where it had bad answers.
func (t *run) askTargets(ctx context.Context, l load.Result) error {
	if !t.spec.Probe || !l.AnsweredBadly() {
		return nil
	}
	return t.spec.Loader.Probe(ctx)
}

// idleSlices are the parts of the idle time: the one with the least use counts, for what
// is left of a start ends, and threads that spin never do.
const idleSlices = 3

// idleFor leaves the application alone, and sees what it uses.
func (t *run) idleFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	for range idleSlices {
		t.sampler.begin(ctx)
		if err := sleep(ctx, d/idleSlices); err != nil {
			return err
		}
		w := t.sampler.end(ctx)
		if w.times == nil || w.length <= 0 {
			continue
		}
		used := (w.times.Group - w.times.Compiler).Seconds() / (w.length.Seconds() * oneProcessor(t.spec.Limits.CPUs, w.others))
		if used = max(0, used); t.idle == nil || used < *t.idle {
			t.idle = &used
		}
	}
	return nil
}

// expected is about how long the measured load takes at least; 0 is not known. The same
// work may well be done in half the baseline's time.
func (t *run) expected() time.Duration {
	if t.spec.Work.Measured == 0 {
		return t.spec.Duration
	}
	if b := t.spec.Baseline; b != nil && b.Load != nil {
		return b.Load.Elapsed / 2
	}
	return 0
}

// putLoad puts so many requests, or where that is 0 load for a time, and for at most d.
func (t *run) putLoad(ctx context.Context, requests int64, d time.Duration) (load.Result, error) {
	if requests == 0 {
		return t.spec.Loader.Load(ctx, d)
	}
	l, ok := t.spec.Loader.(load.WorkLoader)
	if !ok {
		return load.Result{}, fmt.Errorf("%s cannot put a number of requests: give a time instead", t.spec.Loader.Describe())
	}
	return l.LoadRequests(ctx, requests, d)
}

// unfinished is the work that was not done in time.
func (t *run) unfinished() []Broken {
	w := t.spec.Work
	if !w.Due || t.load == nil || t.load.Sent >= w.Measured {
		return nil
	}
	return []Broken{{Text: fmt.Sprintf("%d of %d requests within %s", t.load.Sent, w.Measured, t.spec.Duration), Miss: 1}}
}

func (t *run) closeWindow(ctx context.Context) {
	t.window = t.sampler.end(ctx)
	if ctx.Err() != nil {
		return
	}
	if t.spec.Weigh {
		if f, err := t.sampler.lookAtEnd(ctx); err == nil {
			parts := t.sampler.parts(f)
			t.end, t.growth, t.worstReclaim = f, growths(parts), worstReclaim(parts, t.spec.Limits.MemoryBytes)
		} else {
			t.sampler.fail(err)
		}
	}
	if t.spec.Inspect != nil {
		t.sampler.stop()
		if u, err := t.proc.Usage(ctx); err == nil {
			t.peak = u.PeakBytes
		}
		t.spec.Inspect(ctx, t.proc)
	}
}

// program is what the JVM runs, where the command does not tell.
func (t *run) program() *runner.Program {
	p := t.sampler.program
	if p == nil || !p.Child && filepath.Base(t.spec.Args[0]) == "java" {
		return nil
	}
	return p
}

func (t *run) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.readyTimeout()-time.Since(t.begin), errNotReady)
	defer cancel()
	if t.spec.Patience <= 0 {
		return t.spec.Ready.wait(ctx, t.log)
	}
	hopeful, giveUp := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer giveUp(nil)
	watch.Go(func() {
		if t.losePatience(hopeful) {
			giveUp(errNotReady)
		}
	})
	return t.spec.Ready.wait(hopeful, t.log)
}

// losePatience returns true when Patience has ended and reclaim or collections
// take the time, false when ctx ends first.
func (t *run) losePatience(ctx context.Context) bool {
	for wait := t.spec.Patience - time.Since(t.begin); sleep(ctx, wait) == nil; wait = patiencePoll {
		w := t.sampler.end(ctx)
		if _, lost := whereTimeWent(Evidence{LimitBytes: t.spec.Limits.MemoryBytes, Window: w.length, GCTime: w.gcTime, Stalled: w.stalled, RefaultBytes: w.refault,
			Times: w.times, CPUs: t.spec.Limits.CPUs, Awaiting: w.awaiting}); lost {
			t.waited = time.Since(t.begin).Round(time.Second)
			return true
		}
	}
	return false
}

func (t *run) readyTimeout() time.Duration {
	switch {
	case t.spec.ReadyTimeout > 0:
		return t.spec.ReadyTimeout
	case t.spec.Job:
		return DefaultJobTimeout
	}
	return DefaultReadyTimeout
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// result judges by the usage that was read before the application was stopped.
func (t *run) result(u runner.Usage) *Result {
	e := Evidence{
		LimitBytes: t.spec.Limits.MemoryBytes, OOMKills: u.OOMKills, LimitHits: u.LimitHits, Ended: t.ended, Exit: t.proc.Exit(),
		Ready: t.ready > 0, ReadyAfter: t.ready, ReadyTimeout: cmp.Or(t.waited, t.readyTimeout()), Log: t.log.result(logLines),
		Window: t.window.length, GCTime: t.window.gcTime, Collections: t.window.collections,
		Stalled: t.window.stalled, RefaultBytes: t.window.refault, Others: t.window.others, Load: t.load,
		Times: t.window.times, CPUs: t.spec.Limits.CPUs, Awaiting: t.window.awaiting, MajorFaults: t.window.majorFaults, DirectBytes: t.window.direct,
	}
	var m Measured
	if t.spec.Job {
		m = t.judgeJob(&e)
	} else if e.Ready && !e.Ended {
		m := Measured{Load: t.load, Start: t.ready, Pace: t.window.pace}
		if t.load != nil {
			m.Cost = workCost(t.window.cpu, t.load.OK, e.waited())
		}
		e.Broken = t.spec.SLO.Check(m, t.spec.Baseline)
		e.Broken = append(e.Broken, t.unfinished()...)
		e.Broken = append(e.Broken, t.cutOff(e.Broken)...)
	}
	res := &Result{
		Time: t.begin, Limits: t.spec.Limits, ReadyAfter: t.ready, JobTime: m.Time, Load: t.load, WarmupRequests: t.warmup, Warming: t.blocks, Took: time.Since(t.begin),
		PeakBytes: cmp.Or(t.peak, u.PeakBytes), NeededBytes: t.sampler.needed, WorkingSetBytes: t.sampler.workingSet, LiveBytes: t.sampler.left.live(t.spec.Job), HeapBytes: t.sampler.heap,
		Collections: e.Collections, RefaultBytes: e.RefaultBytes, Throttled: u.Throttled, CPUTime: u.CPUTime,
		Exit: e.Exit, Ended: e.Ended, Program: t.program(), Opened: slices.Sorted(maps.Keys(t.sampler.opened)), Peak: t.sampler.peak, End: t.end, Stat: u.Stat, Log: e.Log.LastLines,
		Narrow: e.NarrowMiss(), Broken: e.Broken, Others: e.Others, UnpaidBytes: t.sampler.unpaid(), Growth: t.growth, WorstReclaimShare: t.worstReclaim,
		CodeCacheFull: e.Log.CodeCacheFull, Times: e.Times, IdleCPUs: t.idle, MajorFaults: e.MajorFaults, DirectBytes: e.DirectBytes,
	}
	if t.load != nil || t.spec.Job {
		res.Pace = t.window.pace
	}
	if t.load != nil {
		res.LoadCPUTime = t.window.cpu
	}
	res.Verdict, res.Evidence = Judge(e)
	res.ReclaimShare = e.ReclaimShare()
	res.StartReclaimShare = Evidence{LimitBytes: e.LimitBytes, Window: t.start.length, Stalled: t.start.stalled, RefaultBytes: t.start.refault}.ReclaimShare()
	if share, ok := e.GCShare(); ok {
		res.GCShare = &share
	} else if e.Times == nil {
		res.Warnings = append(res.Warnings, "time in garbage collection is unknown: no performance data (-XX:-UsePerfData?)")
	}
	if share, ok := e.AwaitShare(); ok && share > 0 {
		res.AwaitShare = &share
	}
	if share, ok := e.StallShare(); ok {
		res.StallShare = &share
	}
	if res.Peak == nil && t.sampler.weighErr != nil {
		res.Warnings = append(res.Warnings, "footprint: "+t.sampler.weighErr.Error())
	}
	return res
}
