package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// Lab runs an experiment.
type Lab struct {
	Experiment *Experiment
	// Dir is the folder that relative paths start from.
	Dir    string
	Runner runner.Runner
	// Results holds what was run before and takes what is run now.
	Results *Results
	// Java finds the launcher of a major version, or of a path.
	Java func(ctx context.Context, name string) (fit.Java, error)
	// Image finds an image, and what Java it has.
	Image func(ctx context.Context, name string) (Place, error)
	// Self is tare's own program, for runs in virtual machines.
	Self string
	// Observe is told of each step; nil is nobody.
	Observe func(Event)

	scratch *scratch
	// places are where the cells run, once they are found.
	places map[placeName]Place
}

// Event tells what the lab does.
type Event struct {
	Job Job
	// Number is the job's, from 1, among the Total of those to be run now.
	Number, Total int
	// Record is nil before the run, and set after it.
	Record *Record
	// Left is how long the rest takes, by those run so far; 0 at first.
	Left time.Duration
}

// defaultSettle is how long a program without load idles before it is weighed.
const defaultSettle = 2 * time.Second

// Pending are the jobs that have no result yet, in their order. Where the plan has
// none left, they are one more round of the cells whose claims are unclear.
func (l *Lab) Pending() []Job {
	e := l.Experiment
	missing := slices.DeleteFunc(e.plan(max(e.Repeats, e.MostRepeats)), func(j Job) bool { return l.Results.Has(e.Hash(j.Cell), j.Round, l.places[j.Cell.Run.place()].on()) })
	if len(missing) > 0 && missing[0].Round > e.Repeats {
		unclear := Analyse(e, l.Results).unclear()
		missing = slices.DeleteFunc(missing, func(j Job) bool { return !unclear[e.Hash(j.Cell)] })
	}
	if len(missing) == 0 {
		return nil
	}
	last := max(e.Repeats, missing[0].Round)
	return slices.DeleteFunc(missing, func(j Job) bool { return j.Round > last })
}

// Run makes all runs that are pending. A program that fails is a result; an
// error is what keeps the lab from going on, and nothing that was measured
// before is lost.
func (l *Lab) Run(ctx context.Context) error {
	var err error
	if l.places, err = l.findPlaces(ctx); err != nil {
		return err
	}
	if l.scratch, err = newScratch(l.Results.file.Name() + scratchSuffix); err != nil {
		return err
	}
	defer l.scratch.remove()
	for jobs := l.Pending(); len(jobs) > 0; jobs = l.Pending() {
		if err := l.runAll(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) runAll(ctx context.Context, jobs []Job) error {
	begin := time.Now()
	for i, j := range jobs {
		e := Event{Job: j, Number: i + 1, Total: len(jobs)}
		if i > 0 {
			e.Left = time.Since(begin) / time.Duration(i) * time.Duration(len(jobs)-i)
		}
		l.observe(e)
		rec, err := l.run(ctx, j, l.places[j.Cell.Run.place()])
		if err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(l.Experiment.Key(j.Cell), l.Experiment.Title), err)
		}
		if err := l.Results.Append(rec); err != nil {
			return err
		}
		e.Record = rec
		l.observe(e)
	}
	return nil
}

func (l *Lab) observe(e Event) {
	if l.Observe != nil {
		l.Observe(e)
	}
}

// run makes one job and says what came of it.
func (l *Lab) run(ctx context.Context, j Job, at Place) (*Record, error) {
	begin := time.Now().UTC()
	run := l.measure
	if j.Cell.Run.Machine != nil {
		run = l.runInMachine
	}
	hash := l.Experiment.Hash(j.Cell)
	rec, err := run(ctx, j.Cell.Run, at, l.hints(j.Cell))
	if err != nil {
		return nil, err
	}
	rec.Hash, rec.Round, rec.Time, rec.Took = hash, j.Round, begin, time.Since(begin)
	if rec.Build = at.Java.Build; at.Image != "" {
		rec.Build = ""
	}
	if s := l.Experiment.Search; s != nil {
		rec.Tolerance = s.Tolerance
	}
	rec.Cell = map[string]string{}
	for i, f := range l.Experiment.Factors {
		rec.Cell[f.Name] = j.Cell.Labels[i]
	}
	return rec, nil
}

// measure makes one run, or a search, on this machine. The record does not say yet
// what cell it is of.
func (l *Lab) measure(ctx context.Context, run Run, at Place, known hints) (*Record, error) {
	machine, err := at.Runner.Machine(ctx)
	if err != nil {
		return nil, err
	}
	rec := &Record{Schema: Schema, JDK: at.Java.Version, Runner: at.Runner.Name(), Image: at.Image, Machine: machine}
	t := &tester{lab: l, run: run, at: at, hints: known}
	var o *observation
	if err = t.train(ctx); err == nil {
		if l.Experiment.Search == nil {
			o, err = t.once(ctx, nil, nil)
		} else {
			o, err = t.search(ctx, l.Experiment.Search)
		}
	}
	if err != nil {
		return nil, err
	}
	rec.Trials = t.trials
	if o.trial != nil {
		rec.Verdict, rec.Evidence, rec.Warnings, rec.Others = string(o.trial.Verdict), o.trial.Evidence, o.trial.Warnings, o.trial.Others
	}
	rec.Values = o.values(l.Experiment.Measure)
	return rec, nil
}

// tester runs one cell, once or until something is found.
type tester struct {
	lab    *Lab
	run    Run
	at     Place
	hints  hints
	trials int
	// inspect is called at the end of the load; nil is nobody.
	inspect func(context.Context, runner.Process)
}

// Seen is what one run outside of an experiment showed.
type Seen struct {
	Trial *trial.Result
	// Objects are those that a full collection left at the end, where MeasureReachable was
	// asked for; nil where the JVM does not tell.
	Objects *attach.Histogram
	// Values are the measures, in the base units; one that could not be measured is missing.
	Values map[string]float64
}

// Once makes one run at a place. inspect is called at the end of the load, after all that
// is measured; nil is nobody. Errors are those of trial.Run.
func (r Run) Once(ctx context.Context, at Place, measures []string, inspect func(context.Context, runner.Process)) (*Seen, error) {
	t := &tester{lab: &Lab{Experiment: &Experiment{Measure: measures}}, run: r, at: at, inspect: inspect}
	o, err := t.once(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	return &Seen{Trial: o.trial, Objects: o.objects, Values: o.values(measures)}, nil
}

// values are those of some measures that could be measured.
func (o *observation) values(measures []string) map[string]float64 {
	out := map[string]float64{}
	for _, name := range measures {
		m, _ := MeasureNamed(name)
		if v, ok := m.value(o); ok {
			out[name] = v
		}
	}
	return out
}

// Check says what of a run cannot be run.
func (r Run) Check() error {
	if _, err := r.spec(Place{Dir: "/"}, 1); err != nil {
		return err
	}
	return r.checkPlace()
}

// once makes one trial, with more names replaced; one of a search for a limit
// with the attempt's, others have none.
func (t *tester) once(ctx context.Context, names map[string]string, a *fit.Attempt) (*observation, error) {
	ports, err := t.at.Runner.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	run := t.run.replace(func(name string) (string, bool) {
		v, ok := names[name]
		return v, ok
	})
	spec, err := run.spec(t.at, ports[0])
	if err != nil {
		return nil, err
	}
	if a != nil {
		a.Limit(&spec)
	}
	spec.JavaHome = t.at.Java.Home
	o := &observation{}
	spec.Weigh = true
	spec.Inspect = func(ctx context.Context, p runner.Process) {
		if s, err := p.Status(ctx); err == nil {
			o.status = &s
		}
		if t.wantsNMT() {
			o.nmt, _ = p.NativeMemory(ctx) // a JVM without it has no such measures
		}
		if asked, ok := p.(runner.Asked); ok && slices.Contains(t.lab.Experiment.Measure, reachableMeasure) {
			o.objects, o.noObjects = asked.Objects(ctx)
		}
		if t.inspect != nil {
			t.inspect(ctx, p)
		}
	}
	result, err := newJMHResult(run, &spec)
	if err != nil {
		return nil, err
	}
	defer result.remove()
	t.trials++
	if o.trial, err = trial.Run(ctx, t.at.Runner, spec); err != nil {
		return nil, err
	}
	o.end = o.trial.End
	if o.noObjects != nil {
		o.trial.Warnings = append(o.trial.Warnings, fmt.Sprintf("what a full collection leaves is unknown: %v", o.noObjects))
	}
	result.read(o)
	return o, nil
}

func (t *tester) wantsNMT() bool {
	return slices.ContainsFunc(t.lab.Experiment.Measure, func(m string) bool { return strings.HasPrefix(m, nmtPrefix) })
}

// spec is the trial of a run at a place.
func (r Run) spec(at Place, port int) (trial.Spec, error) {
	number := strconv.Itoa(port)
	r = r.replace(func(name string) (string, bool) { return number, name == "port" })
	java := cmp.Or(at.Java.Path, "java")
	s := trial.Spec{Args: append(slices.Concat([]string{java}, r.Options), r.Command...), Dir: at.Dir, Env: r.environ(at.Env), ReadyTimeout: time.Duration(r.ReadyTimeout),
		Duration: time.Duration(r.Settle)}
	var err error
	if s.Limits, err = r.limits(); err != nil {
		return s, err
	}
	loader, err := r.loader()
	if err != nil {
		return s, err
	}
	if loader != nil {
		s.Loader = loader
	}
	slo := r.SLO
	if r.Load != nil {
		s.Warmup, s.Duration = time.Duration(r.Load.Warmup), time.Duration(r.Load.Duration)
		s.Work = trial.Work{Warmup: r.Load.WarmupRequests, Measured: r.Load.Requests, Due: r.Load.Requests > 0}
	} else if s.Duration == 0 {
		s.Duration = defaultSettle
	}
	if slo != "" {
		if s.SLO, err = trial.ParseSLO(slo); err != nil {
			return s, err
		}
		if err := s.SLO.CheckLoader(s.Loader); err != nil {
			return s, err
		}
	}
	switch {
	case r.Workload != "":
		err = r.jmhSpec(&s)
	case r.Ready != "":
		s.Ready, err = trial.ParseReady(r.Ready)
	case loader != nil:
		s.Ready, err = trial.ParseReady(loader.Plan.Targets[0].URL)
	default:
		err = errors.New("when is it ready? give ready: a URL, tcp:PORT or log:REGEX")
	}
	if err != nil {
		return s, err
	}
	command, err := jvmopts.Parse(append([]string{"java"}, s.Args[1:]...))
	if err != nil {
		return s, err
	}
	for _, f := range command.Files() {
		s.Files = append(s.Files, absolute(at.Dir, f))
	}
	if len(r.Launcher) > 0 {
		if !strings.Contains(r.Launcher[0], "/") {
			return s, fmt.Errorf("launcher %q: give its path, such as ./%s", r.Launcher[0], r.Launcher[0])
		}
		program := absolute(at.Dir, r.Launcher[0])
		s.Args = slices.Concat([]string{program}, r.Launcher[1:], s.Args)
		s.Files = append(s.Files, program)
	}
	return s, nil
}

func absolute(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// environ is an environment with the run's.
func (r Run) environ(env []string) []string {
	var own []string
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		own = append(own, k+"="+string(r.Env[k]))
	}
	return runner.Environ(env, own)
}

func (r Run) limits() (l runner.Limits, err error) {
	l.Cpuset = string(r.Cpuset)
	if r.Limit != "" {
		if l.MemoryBytes, err = runner.ParseSize(string(r.Limit)); err != nil {
			return l, fmt.Errorf("limit %w", err)
		}
		if l.MemoryBytes < runner.MinMemoryBytes {
			return l, fmt.Errorf("limit %q: no JVM starts in it", r.Limit)
		}
	}
	if r.CPUs != "" {
		if l.CPUs, err = strconv.ParseFloat(string(r.CPUs), 64); err != nil || !(l.CPUs > 0 && l.CPUs <= 4096) {
			return l, fmt.Errorf("cpus %q: give a number of processors such as 1.5", r.CPUs)
		}
	}
	return l, nil
}

// loader is nil where no load is put.
func (r Run) loader() (*load.HTTP, error) {
	if r.Load == nil {
		return nil, nil
	}
	var targets []load.Target
	for _, u := range r.Load.URLs {
		t, err := load.ParseTarget(u)
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		targets = append(targets, t)
	}
	c := r.Load.Concurrency
	if c == 0 {
		c = 8
	}
	switch {
	case len(targets) == 0:
		return nil, errors.New("load: give urls")
	case c < 1 || c > load.MaxConcurrency:
		return nil, fmt.Errorf("load: concurrency %d: give 1 to %d", c, load.MaxConcurrency)
	case !(r.Load.Rate >= 0 && r.Load.Rate <= load.MaxRate):
		return nil, fmt.Errorf("load: rate %g: give requests per second up to %g, or 0 for a closed loop", r.Load.Rate, float64(load.MaxRate))
	case r.Load.Duration == 0:
		return nil, errors.New("load: give duration")
	case r.Load.Requests < 0:
		return nil, fmt.Errorf("load: requests %d: give how many end the load, or 0", r.Load.Requests)
	case r.Load.WarmupRequests < 0 || r.Load.WarmupRequests > 0 && r.Load.Warmup == 0:
		return nil, fmt.Errorf("load: warmupRequests %d: give how many end the warm-up, and in warmup how long it may take", r.Load.WarmupRequests)
	}
	return &load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: c, Rate: r.Load.Rate, Timeout: load.RequestTimeout}}, nil
}
