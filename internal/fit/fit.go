// Package fit finds the smallest memory limit that an application gets by on,
// with its options as given and with built-in ones, and proves it by fresh
// runs.
package fit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/footprint"
	"tare/internal/jvmopts"
	"tare/internal/linux"
	"tare/internal/load"
	"tare/internal/runner"
	"tare/internal/trial"
)

// Config says what to fit, and how to try it.
type Config struct {
	Runner  runner.Runner
	Command jvmopts.Command
	// Image is where the application is, nil on this machine. Command, Java
	// and Env are then those inside; Dir is not.
	Image *Image
	// Given are the user's options, from all sources.
	Given jvmopts.Options
	Java  Java
	// Env is the application's environment, Dir its folder. AddedEnv is the
	// part of it that was given for this application.
	Env      []string
	AddedEnv []string
	Dir      string
	// CPUs and Cpuset are as in runner.Limits.
	CPUs   float64
	Cpuset string

	Ready        trial.Ready
	ReadyTimeout time.Duration
	// Job is as in trial.Spec.
	Job      bool
	Load     Load
	Warmup   time.Duration
	Duration time.Duration
	SLO      trial.SLO

	AmpleBytes int64
	Levers     []Lever
	// Terms are the terms of the search.
	Terms

	// OutDir keeps logs and footprints of all trials; empty keeps none.
	OutDir string
	// ArchiveDir is where class archives are made; one that is part of the
	// recommendation stays there. It must exist.
	ArchiveDir string
	Weigh      trial.WeighFunc
	// Observe and Stage are told of each step; nil is nobody.
	Observe func(Event)
	Stage   func(trial.Stage)
	// Journal keeps each step as it ends, and gives those of a fit that goes
	// on; nil keeps nothing.
	Journal Journal
}

// Image is the container image that an application is in.
type Image struct {
	Name string
	// ID is the digest of all that is in it.
	ID string
	// Dir is the working directory inside.
	Dir string
	// Args are what follows the image's name in docker run.
	Args []string `json:",omitempty"`
	// ByVariable says that options go to the JVM by JAVA_TOOL_OPTIONS, for the
	// image's command is not java's.
	ByVariable bool `json:",omitempty"`
}

// Terms decide how far a search goes; all are as in Search, and Allow as in
// Facts.
type Terms struct {
	Baselines     int
	Confirmations int
	MaxTrials     int           `json:",omitempty"`
	Budget        time.Duration `json:",omitempty"`
	Margin        float64       `json:",omitempty"`
	Prefer        Prefer
	HeapCurve     bool
	Ablation      bool   `json:",omitempty"`
	Seed          uint64 `json:",omitempty"`
	Allow         []Mark `json:",omitempty"`
}

// Load is the load of a fit.
type Load struct {
	// Loader is nil where no load is put.
	Loader  trial.Loader
	Targets []load.Target
	// Command is the external generator, when that is what loads.
	Command     []string
	Concurrency int
	Rate        float64
}

// Result is the end of a fit.
type Result struct {
	Found
	Time   time.Time
	Took   time.Duration
	Config Config
	// RunnerName is the runner's Name.
	RunnerName string
	Machine    Machine
	// Peak is the footprint of the confirming run that used most.
	Peak *footprint.Footprint
	// Archive is the class archive that the recommendation uses, and
	// TrainOption the option that makes it; empty without one.
	Archive, TrainOption string
	// UnpaidBytes is the most that a confirming run did not pay for; see
	// trial.Result.
	UnpaidBytes int64
	Warnings    []string
}

// Ended tells whether a fit that returned err has its answer, be it that there
// is none; else it was cut off.
func Ended(err error) bool {
	var baseline *BaselineError
	var unconfirmed *UnconfirmedError
	return err == nil || errors.As(err, &baseline) || errors.As(err, &unconfirmed)
}

// Machine is where it was measured.
type Machine struct {
	Kernel      string `json:"kernel"`
	Arch        string `json:"arch"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memoryBytes"`
}

// Run fits. On an error the result holds what was found until then.
func Run(ctx context.Context, c Config) (*Result, error) {
	t := &trier{config: c}
	s := c.search(t)
	begin := time.Now()
	res := &Result{Time: begin, Config: c, Machine: ThisMachine()}
	var rec Recorder
	if c.Journal != nil {
		rec = *NewRecorder(t, c)
		s.Trier = &rec
		res.Time, res.Took = c.Journal.Began(), tookOf(rec.past)
	}
	if c.Runner != nil {
		res.RunnerName = c.Runner.Name()
	}
	found, err := s.Run(ctx)
	res.Found, res.Took = *found, res.Took+time.Since(begin)
	res.Peak, res.UnpaidBytes = peakOf(found.Confirmations), unpaid(found.Confirmations)
	if c.Journal == nil || Ended(err) { // else it goes on later, with its archives
		t.archives = append(rec.archives, t.archives...)
		res.Archive, res.TrainOption = t.settle(found.Setup, err == nil)
	}
	res.Warnings = append(warnings(found), heapWarning(res)...)
	if kib := c.readAhead(); kib >= largeReadAhead {
		res.Warnings = append(res.Warnings, fmt.Sprintf("the disk of the JDK reads ahead %d KiB at a time, where 128 is usual: near the limit reclaim costs more "+
			"here than elsewhere, and class archives save less; fit on a disk like that of production, or blockdev --setra 256 this one", kib))
	}
	if linux.PagesOutIdle("/sys") {
		res.Warnings = append(res.Warnings, "this machine's kernel pages out what was not used for a while, be there ever so much free memory (DAMON): "+
			"in long trials less page cache is counted than elsewhere")
	}
	return res, err
}

// search is the search that the config asks for.
func (c Config) search(t Trier) *Search {
	facts := Facts{Release: jvmopts.ParseRelease(c.Java.Version), Given: c.Given, Allow: c.Allow, CPUs: c.CPUs, Nested: c.Image == nil && nestedJars(c.jarPath()),
		ReadAheadBytes: c.readAhead() << 10, Inherits: c.Runner != nil && strings.HasPrefix(c.Runner.Name(), "cgroup")}
	return &Search{Trier: t, Levers: c.Levers, Facts: facts, AmpleBytes: c.AmpleBytes, Baselines: c.Baselines, Confirmations: c.Confirmations,
		MaxTrials: c.MaxTrials, Budget: c.Budget, Margin: c.Margin, Prefer: c.Prefer, ShowFailure: true, Ablation: c.Ablation, HeapCurve: c.HeapCurve,
		Seed: c.Seed, Observe: c.Observe}
}

// jarPath is the application's jar, or "".
func (c Config) jarPath() string {
	jar := c.Command.Jar()
	if jar == "" || filepath.IsAbs(jar) {
		return jar
	}
	return filepath.Join(c.Dir, jar)
}

// ThisMachine describes the machine that tare runs on.
func ThisMachine() Machine {
	m := Machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		m.MemoryBytes = int64(si.Totalram) * int64(si.Unit)
	}
	return m
}

// readAhead is that of the JDK's disk; of an image's it is not known.
func (c Config) readAhead() int64 {
	if c.Image != nil {
		return 0
	}
	return ReadAheadKiB(c.Java.Path)
}

// ReadAheadKiB is how much the disk that holds a file reads at a time
// (Documentation/ABI/testing/sysfs-class-bdi); 0 when the kernel does not tell.
func ReadAheadKiB(file string) int64 {
	var st unix.Stat_t
	if unix.Stat(file, &st) != nil {
		return 0
	}
	dev := uint64(st.Dev)
	b, err := os.ReadFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return 0
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return kib
}

// peakOf is the footprint of the run with the highest usage.
func peakOf(runs []Trial) *footprint.Footprint {
	var most int64
	var f *footprint.Footprint
	for _, t := range runs {
		if t.Result != nil && t.Result.Peak != nil && t.PeakBytes > most {
			most, f = t.PeakBytes, t.Result.Peak
		}
	}
	return f
}

// unpaid is the most that a run did not pay for.
func unpaid(runs []Trial) int64 {
	var most int64
	for _, t := range runs {
		if t.Result != nil {
			most = max(most, t.Result.UnpaidBytes)
		}
	}
	return most
}

// warnings collects what the trials could not measure, each once, and what
// stood in the way of measuring well.
func warnings(f *Found) []string {
	var out []string
	seen := make(map[string]bool)
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	disturbed := 0
	var baselines []Trial
	for _, t := range f.Trials {
		if t.Result == nil {
			continue
		}
		for _, w := range t.Result.Warnings {
			add(w)
		}
		if t.Result.Others >= disturbingShare {
			disturbed++
		}
		if t.Phase == PhaseBaseline {
			baselines = append(baselines, t)
		}
	}
	if slices.ContainsFunc(f.Confirmations, Trial.codeCacheFull) {
		add("the code cache was full, and the JVM stopped to compile for a while: a larger -XX:ReservedCodeCacheSize helps")
	}
	for _, w := range growthWarnings(f.Confirmations) {
		add(w)
	}
	if disturbed > 0 {
		add(fmt.Sprintf("other processes took more than a tenth of the processors in %d of %d trials: rates are less certain", disturbed, len(f.Trials)))
	}
	if sp := spread(baselines); sp > maxSpread {
		add(fmt.Sprintf("the fastest baseline was %.0f %% faster than the slowest", 100*sp))
	}
	return out
}

// growthWarnings tell of what grew steadily in half of the runs or more.
func growthWarnings(runs []Trial) []string {
	seen := map[string][]int64{}
	for _, t := range runs {
		if t.Result == nil {
			continue
		}
		for _, g := range t.Result.Growth {
			seen[g.Of] = append(seen[g.Of], g.PerSecond)
		}
	}
	var out []string
	for _, of := range slices.Sorted(maps.Keys(seen)) {
		if paces := seen[of]; 2*len(paces) >= len(runs) {
			slices.Sort(paces)
			out = append(out, fmt.Sprintf("%s grew steadily in %d of %d confirming runs, by %.1f MiB per second: a leak, or a warm-up that had not ended. "+
				"A longer run needs more: try a longer --duration", of, len(paces), len(runs), float64(paces[len(paces)/2])/mib))
		}
	}
	return out
}

const (
	disturbingShare = 0.1
	largeReadAhead  = 1024
	slowStart       = 10
	slowJob         = 4
	minReadyTimeout = 10 * time.Second
	patience        = 4
	minPatience     = 5 * time.Second
	// TrainGrace is how long a JVM may take to write its class archive.
	TrainGrace = 3 * time.Minute
)

// trier makes real trials.
type trier struct {
	config   Config
	archives []trained
}

// trained is an archive and the option that made it, or without an option the
// folder of extracted jars.
type trained struct{ file, option string }

// Try runs one trial.
func (t *trier) Try(ctx context.Context, a Attempt) (Outcome, error) {
	spec := t.spec(a.Setup, a.LimitBytes)
	spec.SLO, spec.Baseline = t.config.SLO, a.Baseline
	a.Limit(&spec)
	spec.Probe = a.Phase == PhaseBaseline
	spec.Squeeze = a.Squeeze && len(t.config.Load.Targets) > 0
	spec.LogFile = t.config.outFile(a.Number, ".log")
	r, err := t.run(ctx, a.Setup, spec)
	if err != nil {
		return Outcome{}, err
	}
	for suffix, f := range map[string]*footprint.Footprint{"-peak.json": r.Peak, "-end.json": r.End} {
		if err := writeFootprint(t.config.outFile(a.Number, suffix), f); err != nil {
			return Outcome{}, err
		}
	}
	return OutcomeOf(r), nil
}

// run makes the trial of a setup.
func (t *trier) run(ctx context.Context, s Setup, spec trial.Spec) (*trial.Result, error) {
	if s.NoHugePages {
		if err := hugePages(false); err != nil {
			return nil, err
		}
		defer func() { _ = hugePages(true) }() // it was on
	}
	return trial.Run(ctx, t.config.Runner, spec)
}

// hugePages switches transparent huge pages of this process on or off. Started
// processes inherit it (prctl(2)).
func hugePages(on bool) error {
	off := uintptr(1)
	if on {
		off = 0
	}
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, off, 0, 0, 0); err != nil {
		return fmt.Errorf("switching huge pages off: %w", err)
	}
	return nil
}

// OutcomeOf is what the search has to know of a trial that was made.
func OutcomeOf(r *trial.Result) Outcome {
	o := Outcome{Passed: r.Passed(), Verdict: r.Verdict, Narrow: r.Narrow, Measured: r.Measured(), PeakBytes: r.PeakBytes,
		NeededBytes: r.NeededBytes, LiveBytes: r.LiveBytes, HeapBytes: r.HeapBytes, UnpaidBytes: r.UnpaidBytes, CacheBytes: r.CacheBytes, Took: r.Took, Result: r}
	if r.Load != nil {
		o.Throughput = r.Load.Throughput()
	}
	if len(r.Broken) == 1 {
		o.AskedSpeed, o.AskedShare = asked(r.Broken[0])
	}
	return o
}

// asked is the speed that a clause asks for, and the same as a share of the
// baseline's: 0 where it is about something else, or absolute.
func asked(b trial.Broken) (speed, share float64) {
	c := b.Clause
	switch {
	case b.Bar <= 0:
		return 0, 0
	case c.Metric == trial.Throughput:
		speed, share = b.Bar, c.Value
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
	}
}

func (t *trier) spec(s Setup, limit int64) trial.Spec {
	c := t.config
	args, env := c.started(s)
	dir := c.Dir
	if c.Image != nil {
		dir = c.Image.Dir
	}
	withAdded, _ := jvmopts.Parse(args)
	files := withAdded.Files()
	for i, f := range files {
		if !filepath.IsAbs(f) {
			files[i] = filepath.Join(dir, f)
		}
	}
	if s.Jar != "" {
		files = append(files, filepath.Dir(s.Jar))
	}
	return trial.Spec{
		Args: args, Env: env, Dir: dir,
		Limits: runner.Limits{MemoryBytes: limit, CPUs: c.CPUs, Cpuset: c.Cpuset},
		Ready:  c.Ready, ReadyTimeout: c.ReadyTimeout, Job: c.Job, Loader: c.Load.Loader, Targets: c.Load.Targets,
		Warmup: c.Warmup, Duration: c.Duration, JavaHome: c.Java.Home, Files: files, Weigh: c.Weigh, Stage: c.Stage,
	}
}

// started is what runs with a setup, and its environment.
func (c Config) started(s Setup) (args, env []string) {
	env = slices.Concat(c.Env, s.Env)
	if c.Image != nil && c.Image.ByVariable {
		if len(s.Options) > 0 {
			env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "JAVA_TOOL_OPTIONS=") })
			env = append(env, "JAVA_TOOL_OPTIONS="+c.ToolOptions(s.Options))
		}
		return c.Command.With(), env
	}
	command := c.Command
	command.Java = c.Java.Path
	return s.Command(command), env
}

// ToolOptions joins options for JAVA_TOOL_OPTIONS, where quotes keep spaces (and
// no quote can be escaped); the user's own value comes last and wins.
func (c Config) ToolOptions(options []string) string {
	words := make([]string, 0, len(options)+1)
	for _, o := range options {
		if strings.ContainsAny(o, " \t\n\"") {
			o = "'" + o + "'"
		}
		words = append(words, o)
	}
	for _, e := range c.Env {
		if own, ok := strings.CutPrefix(e, "JAVA_TOOL_OPTIONS="); ok && own != "" {
			words = append(words, own)
		}
	}
	return strings.Join(words, " ")
}

func (c Config) outFile(number int, suffix string) string {
	if c.OutDir == "" {
		return ""
	}
	return filepath.Join(c.OutDir, fmt.Sprintf("trial-%03d%s", number, suffix))
}

func writeFootprint(name string, f *footprint.Footprint) error {
	if name == "" || f == nil {
		return nil
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("footprint: %w", err)
	}
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("footprint: %w", err)
	}
	return nil
}

// Train runs the application under load with ample memory and ends it in good
// order, for only then the JVM writes its archive.
func (t *trier) Train(ctx context.Context, s Setup, option string) (string, error) {
	file := t.config.archiveFile(option)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("class archive of an earlier run: %w", err)
	}
	t.archives = append(t.archives, trained{file, option})
	spec := t.spec(s.plus(Setup{Options: []string{strings.ReplaceAll(option, "{archive}", file)}}), t.config.AmpleBytes)
	spec.StopGrace = TrainGrace
	spec.LogFile = t.config.trainingLog()
	r, err := t.run(ctx, s, spec)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(file)
	if err != nil || st.Size() == 0 {
		return "", fmt.Errorf("%w: the training run was %s, %s", ErrNoArchive, r.Verdict, trial.ExitText(r.Exit))
	}
	return file, Flush(file)
}

// Extract takes the application's jar apart, in the folder of archives.
func (t *trier) Extract(context.Context) (string, error) {
	dir := t.config.extractedDir()
	jar, err := ExtractJars(t.config.jarPath(), dir)
	if err == nil {
		t.archives = append(t.archives, trained{file: dir})
	}
	return jar, err
}

// extractedDir is where the application's jar is taken apart.
func (c Config) extractedDir() string { return filepath.Join(c.ArchiveDir, "extracted") }

// archiveFile is the file that a training run with the option makes.
func (c Config) archiveFile(option string) string {
	suffix := ".jsa"
	if strings.Contains(option, "AOT") {
		suffix = ".aot"
	}
	return filepath.Join(c.ArchiveDir, "app"+suffix)
}

func (c Config) trainingLog() string {
	if c.OutDir == "" {
		return ""
	}
	return filepath.Join(c.OutDir, "training.log")
}

// Flush writes a class archive to its disk: dirty pages cannot be dropped from
// the page cache, and the next trial would not be charged for them.
func Flush(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	return nil
}

// settle keeps what the recommendation uses of archives and extracted jars, and
// removes the rest.
func (t *trier) settle(s Setup, ok bool) (archive, option string) {
	for _, a := range t.archives {
		switch {
		case ok && a.option == "" && filepath.Dir(s.Jar) == a.file:
		case ok && a.option != "" && strings.Contains(strings.Join(s.Options, "\n"), "="+a.file):
			archive, option = a.file, strings.ReplaceAll(a.option, "{archive}", a.file)
		default:
			_ = os.RemoveAll(a.file)
		}
	}
	return archive, option
}
