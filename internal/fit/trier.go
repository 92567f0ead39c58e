package fit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

const (
	slowStart       = 10
	slowJob         = 4
	minReadyTimeout = 10 * time.Second
	patience        = 4
	minPatience     = 5 * time.Second
)

// trier makes real trials.
type trier struct {
	config   Config
	archives []trained

	mu sync.Mutex
	// opened are files that the application was seen to use in earlier trials, and openedBytes
	// what their names take.
	opened      map[string]bool
	openedBytes int
}

// NewTrier makes real trials of the config's application.
func NewTrier(c Config) Trier { return &trier{config: c} }

// Try runs one trial.
func (t *trier) Try(ctx context.Context, a Attempt) (Outcome, error) {
	spec, err := t.spec(ctx, a.Setup, a.LimitBytes, a.ByVariable)
	if err != nil {
		return Outcome{}, err
	}
	spec.SLO, spec.Baseline = a.slo(t.config.SLO), a.Baseline
	a.Limit(&spec)
	if a.Work == (trial.Work{}) && a.Phase == PhaseBaseline && t.config.Load.Loader != nil {
		spec.WarmBlocks = t.config.WarmBlocks
	}
	a.sameWork(&spec)
	a.stress(&spec, t.config.processors())
	spec.Probe = a.Phase == PhaseBaseline
	spec.Squeeze = a.Squeeze
	log := trialFile(a.Number, ".log")
	if a.Ahead > 0 {
		log = aheadFile(a.Ahead)
	}
	if spec.LogFile, err = t.config.reserve(log); err != nil {
		return Outcome{}, err
	}
	r, err := trial.Run(ctx, t.config.Runner, spec)
	if err != nil {
		return Outcome{}, err
	}
	o := OutcomeOf(r)
	o.ArchiveUnused = archiveUnused(a.Setup, r)
	t.seeOpened(r)
	if a.Ahead == 0 {
		t.keepFootprints(a, r)
	}
	return o, nil
}

// archiveUnused says that a JVM that was weighed had not mapped the class archive of a setup: it
// goes on without one that it cannot use, such as one of another class path.
func archiveUnused(s Setup, r *trial.Result) bool {
	return r.Peak != nil && len(r.Opened) > 0 && slices.ContainsFunc(s.Options, func(option string) bool {
		_, file, ok := TrainingOf(option)
		return ok && !slices.ContainsFunc(r.Opened, func(name string) bool { return filepath.Base(name) == filepath.Base(file) })
	})
}

// mostOpened bounds the names that are kept in mind, in bytes.
const mostOpened = 1 << 20

// seeOpened keeps in mind which files the application uses, but for archives and extracted jars,
// which a setup names. The result is stored without them.
func (t *trier) seeOpened(r *trial.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened == nil {
		t.opened = map[string]bool{}
	}
	for _, f := range r.Opened {
		if t.opened[f] || t.openedBytes+len(f) > mostOpened || t.config.outside(f) != f {
			continue
		}
		t.opened[f] = true
		t.openedBytes += len(f)
	}
	r.Opened = nil
}

// openedSoFar are the files of seeOpened.
func (t *trier) openedSoFar() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.opened))
}

// keepFootprints writes a trial's footprints. The trial counts: a full disk loses its
// footprints alone.
func (t *trier) keepFootprints(a Attempt, r *trial.Result) {
	for suffix, f := range map[string]*footprint.Footprint{"-peak.json": r.Peak, "-end.json": r.End} {
		if err := t.config.writeFootprint(trialFile(a.Number, suffix), f); err != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("a footprint is not in --out: %v", err))
		}
	}
}

// File names the files of a trial that was made ahead by its number.
func (t *trier) File(ahead int, a Attempt, o *Outcome) error {
	t.keepFootprints(a, o.Result)
	log, err := t.config.reserve(trialFile(a.Number, ".log"))
	if err != nil || log == "" {
		return err
	}
	return os.Rename(t.config.outPath(aheadFile(ahead)), log)
}

// Discard removes the log of a trial that was made ahead.
func (t *trier) Discard(ahead int) {
	if log := t.config.outPath(aheadFile(ahead)); log != "" {
		_ = os.Remove(log) // the next fit does it
	}
}

// slo is what an attempt has to meet of an objective.
func (a Attempt) slo(s trial.SLO) trial.SLO {
	if a.ByTime {
		return s.ByTime()
	}
	return s
}

// OutcomeOf is what the search has to know of a trial that was made.
func OutcomeOf(r *trial.Result) Outcome {
	o := Outcome{Passed: r.Passed(), Verdict: r.Verdict, Narrow: r.Narrow, Measured: r.Measured(), PeakBytes: r.PeakBytes,
		NeededBytes: r.NeededBytes, LiveBytes: r.LiveBytes, HeapBytes: r.HeapBytes, UnpaidBytes: r.UnpaidBytes, CacheBytes: r.CacheBytes, Took: r.Took, Result: r}
	if r.Load != nil {
		o.Throughput, _ = r.Load.Throughput()
	}
	var speeds int
	for _, b := range r.Broken {
		o.Missed = append(o.Missed, b.Clause)
		if speed, share := asked(b, o.Throughput); speed > 0 {
			speeds++
			o.AskedSpeed, o.AskedShare = max(o.AskedSpeed, speed), max(o.AskedShare, share)
		}
	}
	if speeds < len(r.Broken) {
		o.AskedSpeed, o.AskedShare = 0, 0
	}
	return o
}

// asked is the speed that a clause asks for of a trial that had one, and the same as a
// share of the baseline's: 0 where it is about something else, or absolute.
func asked(b trial.Broken, had float64) (speed, share float64) {
	c := b.Clause
	switch {
	case b.Bar <= 0:
		return 0, 0
	case c.Metric == trial.Throughput:
		speed, share = b.Bar, c.Value
	case c.Metric == trial.Cost: // what answers cost more, it would have answered more
		speed, share = had*(1+b.Miss), 1/c.Value
	case c.Metric == trial.JobTime:
		speed, share = 1/b.Bar, 1/c.Value
	}
	if c.Unit != trial.Ratio {
		share = 0
	}
	return speed, share
}

// Limit limits a trial: its memory and, after the baseline, its deadline, to a
// multiple of the baseline's start, or of a job's time. An application that needs
// so much longer is of no use; one that is seen to spend the time on reclaim or
// collections is not waited for so long.
func (a Attempt) Limit(spec *trial.Spec) {
	spec.Limits.MemoryBytes = a.LimitBytes
	if b := a.Baseline; b != nil {
		late := max(slowStart*b.Start, slowJob*b.Time, minReadyTimeout)
		if spec.ReadyTimeout == 0 || late < spec.ReadyTimeout {
			spec.ReadyTimeout = late
		}
		spec.Patience = max(patience*b.Start, minPatience)
	} else if !spec.Job && spec.Loader != nil && !spec.Work.Due { // else the load begins with readiness
		spec.Idle = idleTime
	}
}

// idleTime is how long a baseline is left alone before its load, to see whether it burns
// processor time when it has nothing to do.
const idleTime = 1200 * time.Millisecond

// slowestWork is how many times as long as the baseline had a trial may take for its
// work: beyond that it is too slow by any objective.
const slowestWork = 3

// sameWork has a closed loop do the work of the first baseline: in the same time a
// JVM that warms up does more of it on a machine that is faster at the moment, and an
// answer then costs it less. An open loop does the same work in the same time, and a load
// command, which may not go by the time, when it runs as often.
func (a Attempt) sameWork(spec *trial.Spec) {
	if _, ok := spec.Loader.(load.WorkLoader); !ok {
		spec.Work.Blocks, spec.Work.Within = a.Work.Blocks, a.Work.Within
		return
	}
	spec.Warmup *= time.Duration(max(1, a.Work.Blocks))
	if spec.Loader.Describe().Rate > 0 {
		return
	}
	if a.Work.Warmup > 0 {
		spec.Work.Warmup = a.Work.Warmup
		spec.Warmup *= slowestWork
	}
	if spec.Work.Measured == 0 && a.Work.Measured > 0 {
		spec.Work.Measured = a.Work.Measured
		spec.Duration *= slowestWork
	}
}

func (t *trier) spec(ctx context.Context, s Setup, limit int64, byVariable bool) (trial.Spec, error) {
	c := t.config
	args, env := c.started(s, byVariable)
	withAdded, _ := CommandOf(args)
	files, err := c.files(ctx, withAdded)
	if err != nil {
		return trial.Spec{}, err
	}
	if s.Jar != "" {
		files = append(files, filepath.Dir(s.Jar))
	}
	for _, o := range s.Options { // they need not stand in args
		if _, file, ok := TrainingOf(o); ok {
			files = append(files, file)
		}
	}
	files = append(files, t.openedSoFar()...)
	return trial.Spec{
		Args: args, Env: env, Dir: c.Dir,
		Limits: runner.Limits{MemoryBytes: limit, CPUs: c.CPUs, Cpuset: c.Cpuset},
		Ready:  c.Ready, ReadyTimeout: c.ReadyTimeout, Job: c.Job, Loader: c.Load.Loader,
		Warmup: c.Warmup, Duration: c.Duration, Work: c.Work(), JavaHome: c.Java.Home, Files: files, Weigh: c.Weigh, Stage: c.Stage, NoHugePages: s.NoHugePages,
	}, nil
}

// Files in Config.Out.
const trainingLog = "training.log"

// OutFiles are patterns of the files that a fit writes to Config.Out.
var OutFiles = []string{"trial-[0-9]*.log", "trial-[0-9]*-peak.json", "trial-[0-9]*-end.json", trainingLog}

// aheadFile is the log of a trial the number of which is not known yet.
func aheadFile(ahead int) string { return fmt.Sprintf("trial-000-%d.log", ahead) }

func trialFile(number int, suffix string) string { return fmt.Sprintf("trial-%03d%s", number, suffix) }

// reserve is the path of a file in Out that somebody else writes; "" without a
// folder.
func (c Config) reserve(name string) (string, error) {
	if c.Out == nil {
		return "", nil
	}
	return c.Out.Reserve(name)
}

// outPath is the path of a file in Out; "" without a folder.
func (c Config) outPath(name string) string {
	if c.Out == nil {
		return ""
	}
	return c.Out.Path(name)
}

func (c Config) writeFootprint(name string, f *footprint.Footprint) error {
	if c.Out == nil || f == nil {
		return nil
	}
	return c.Out.Write(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(f)
	})
}
