package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/neighbour"
	"tare.dev/tare/internal/testkit/results"
	"tare.dev/tare/internal/trial"
)

// recorder makes real trials of a cell and keeps them in its bank.
type recorder struct {
	*bankFile
	config fit.Config
	cache  string
	dir    string // of class archives and extracted jars
	note   func(format string, a ...any)
	// fit is the number of the fit under way, 0 without one; archive the number of
	// its class archive, and trained the training run that made it.
	fit     int
	archive int
	trained *training
}

// openRecorder opens the bank of a cell below dir.
func openRecorder(ctx context.Context, c cell, cache, dir string, port int, run runner.Runner, note func(string, ...any)) (*recorder, error) {
	conf, err := c.config(ctx, cache, port)
	if err != nil {
		return nil, err
	}
	conf.Runner = run
	if err := conf.Survey(ctx); err != nil {
		return nil, err
	}
	h := head{Cell: c, Began: time.Now().UTC(), Command: withoutPlace(conf.Command.With()[1:], cache, port), Java: conf.Java.Version, Machine: conf.Machine, Load: conf.Load.Description,
		SLO: conf.SLO.String(), AmpleBytes: conf.AmpleBytes, Nested: conf.NestedJars, ReadAheadBytes: conf.ReadAheadBytes, PaceWork: runner.PaceWork}
	h.Load.Targets = withoutPlace(h.Load.Targets, cache, port)
	file := filepath.Join(dir, c.String()+bankSuffix)
	r := &recorder{config: conf, cache: cache, dir: filepath.Join(cache, "archives", "bench-fit", c.String()), note: note}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if h.Work, h.Warming, err = r.measureWork(ctx); err != nil {
			return nil, err
		}
	}
	r.bankFile, err = openBank(file, h)
	return r, err
}

// withoutPlace takes the machine's own folder and port from words.
func withoutPlace(words []string, cache string, port int) []string {
	out := slices.Clone(words)
	for i := range out {
		out[i] = strings.ReplaceAll(strings.ReplaceAll(out[i], cache+"/", ""), strconv.Itoa(port), "8080")
	}
	return out
}

// measureWork is what the load does in its time with ample memory, once the application has
// warmed up: all trials of the bank do that, so that any two compare.
func (r *recorder) measureWork(ctx context.Context) (trial.Work, []trial.WarmBlock, error) {
	o, err := fit.NewTrier(r.config).Try(ctx, fit.Attempt{Number: 1, Phase: fit.PhaseBaseline, LimitBytes: r.config.AmpleBytes})
	if err != nil {
		return trial.Work{}, nil, err
	}
	if !o.Passed {
		return trial.Work{}, nil, fmt.Errorf("with ample memory the application is %s: %s", o.Verdict, strings.Join(o.Result.Evidence, "; "))
	}
	return fit.WorkOf(o.Measured), o.Result.Warming, nil
}

// fitOnce makes a real fit, and keeps each of its trials.
func (r *recorder) fitOnce(ctx context.Context) error {
	r.fit = r.fits() + 1
	r.archive, r.trained = 0, nil
	defer func() { r.fit = 0 }()
	begin := time.Now()
	s := r.config.Search(r)
	s.Seed = uint64(r.fit)
	s.Observe = func(e fit.Event) {
		if e.Outcome != nil {
			r.note("%s fit %d: %s: %s", r.head.Cell, r.fit, e.Attempt, e.Outcome.Verdict)
		}
		if e.Note != "" {
			r.note("%s fit %d: %s", r.head.Cell, r.fit, e.Note)
		}
	}
	found, err := s.Run(ctx)
	if err != nil && !fit.Ended(err) {
		return err
	}
	a := answerOf(found, err)
	a.Number, a.Took = r.fit, time.Since(begin)
	var others []float64
	for _, t := range found.Trials {
		others = append(others, t.Result.Others)
	}
	a.Others = results.Median(others)
	return r.keep(line{Answer: &a})
}

// answerOf is what a search found.
func answerOf(found *fit.Found, err error) answer {
	a := answer{LimitBytes: found.LimitBytes, AsGivenBytes: found.AsGiven.LimitBytes, Setup: found.Setup}
	if err != nil {
		a.Failure = err.Error()
	}
	for _, t := range found.Trials {
		if t.Phase == fit.PhaseConfirm || t.Phase == fit.PhaseLong || a.Proof > 0 {
			a.Proof++
		} else {
			a.Search++
		}
		a.Took += t.Took
	}
	return a
}

// Try makes a trial of the fit under way.
func (r *recorder) Try(ctx context.Context, a fit.Attempt) (fit.Outcome, error) {
	return r.try(ctx, a, byFit)
}

// try makes a trial with the cell's work, and keeps it.
func (r *recorder) try(ctx context.Context, a fit.Attempt, why string) (fit.Outcome, error) {
	a.Work = r.head.Work
	m := made{Why: why, Fit: r.fit, Phase: a.Phase, Setup: a.Setup, LimitBytes: a.LimitBytes, Squeeze: a.Squeeze}
	if b := a.Baseline; b != nil && b.Load != nil {
		m.Speed, _ = b.Load.Throughput()
		m.Cost = b.Cost
	}
	m.SLO = r.config.SLO.String()
	if usesArchive(a.Setup) {
		m.Trained = r.trained
	}
	a.Setup = r.here(a.Setup)
	if r.head.Cell.Noisy {
		end, err := neighbour.Start(ctx)
		if err != nil {
			return fit.Outcome{}, err
		}
		defer end()
	}
	o, err := fit.NewTrier(r.config).Try(ctx, a)
	if err != nil {
		return o, err
	}
	if a.Phase == fit.PhaseBaseline {
		o.Result.Warming = r.head.Warming
	}
	if m.Result, err = slim(o.Result, r.cache, r.config.Dir); err != nil {
		return o, err
	}
	return o, r.keep(line{Trial: &m})
}

// here is a setup with the files of this machine.
func (r *recorder) here(s fit.Setup) fit.Setup {
	s.Options = slices.Clone(s.Options)
	for i := range s.Options {
		s.Options[i] = strings.ReplaceAll(s.Options[i], archiveHere, r.archiveFile(r.archive, s.Options[i]))
	}
	if s.Jar == jarHere {
		s.Jar = filepath.Join(r.dir, "extracted", filepath.Base(r.config.Command.Jar()))
	}
	return s
}

func usesArchive(s fit.Setup) bool {
	return slices.ContainsFunc(s.Options, func(o string) bool { return strings.Contains(o, archiveHere) })
}

func (r *recorder) archiveDir(number int) string {
	return filepath.Join(r.dir, "archive-"+strconv.Itoa(number))
}

// archiveFile is the file of a training run as internal/fit names it.
func (r *recorder) archiveFile(number int, option string) string {
	name := "app.jsa"
	if strings.Contains(option, "AOT") {
		name = "app.aot"
	}
	return filepath.Join(r.archiveDir(number), name)
}

// Train makes a class archive anew for each fit.
func (r *recorder) Train(ctx context.Context, at fit.Attempt, option string) (string, error) {
	a := archive{training: training{at.Setup, option}, Number: len(r.archives) + 1}
	r.archive, r.trained = a.Number, &a.training
	conf := r.config
	dir, err := conf.Runner.OpenArchives(ctx, r.archiveDir(a.Number))
	if err != nil {
		return "", err
	}
	conf.UseArchives(dir)
	err = dir.Keep(ctx)
	begin := time.Now()
	if err == nil {
		at.Setup = r.here(at.Setup)
		_, err = fit.NewTrier(conf).Train(ctx, at, option)
	}
	a.Took = time.Since(begin)
	if errors.Is(err, fit.ErrNoArchive) {
		a.Failure = err.Error()
	} else if err != nil {
		return "", errors.Join(err, dir.Close())
	}
	return archiveHere, errors.Join(err, dir.Close(), r.keep(line{Archive: &a}))
}

// Extract takes the jar apart where that was not done.
func (r *recorder) Extract(context.Context) (string, error) {
	dir := filepath.Join(r.dir, "extracted")
	jar := filepath.Join(dir, filepath.Base(r.config.Command.Jar()))
	if _, err := os.Stat(jar); err == nil {
		return jarHere, nil
	}
	if err := os.RemoveAll(dir); err != nil { // of one that was cut off
		return "", err
	}
	_, err := bootjar.Extract(r.config.Command.Jar(), dir)
	return jarHere, err
}

// isCurrent says that an archive is there, and no older than the application's jar: a JVM does
// without an archive of another one.
func (r *recorder) isCurrent(a archive) bool {
	file, err := os.Stat(r.archiveFile(a.Number, a.Option))
	if err != nil {
		return false
	}
	jar, err := os.Stat(r.config.Command.Jar())
	return err != nil || !file.ModTime().Before(jar.ModTime())
}

// trialOf makes a trial that a plan asks for, beside all fits. It does nothing where
// the training run that it needs makes no archive.
func (r *recorder) trialOf(ctx context.Context, w want) error {
	if w.setup.Jar == jarHere {
		if _, err := r.Extract(ctx); err != nil {
			return err
		}
	}
	if usesArchive(w.setup) {
		if err := r.findArchive(ctx, *w.trained); errors.Is(err, fit.ErrNoArchive) {
			return nil
		} else if err != nil {
			return err
		}
	}
	a := fit.Attempt{Number: len(r.trials) + 1, Phase: w.phase, Setup: w.setup, LimitBytes: w.limit, Squeeze: w.squeeze}
	if b := r.baseline(); b != nil && w.phase != fit.PhaseBaseline {
		m := b.Result.Measured()
		a.Baseline = &m
	}
	o, err := r.try(ctx, a, w.why)
	if err == nil {
		r.note("%s %s: %s: %s", r.head.Cell, w.why, a, o.Verdict)
	}
	return err
}

// archivesEach is how many training runs of one kind there are before trials share
// their archives.
const archivesEach = 3

// findArchive takes one of the archives that training runs of the kind made, in turn,
// or makes one.
func (r *recorder) findArchive(ctx context.Context, t training) error {
	var have []archive
	for _, a := range r.archives {
		if a.kind() == t.kind() && r.isCurrent(a) {
			have = append(have, a)
		}
	}
	if len(have) < archivesEach && len(r.trials)%(4*(len(have)+1)) == 0 || len(have) == 0 {
		_, err := r.Train(ctx, fit.Attempt{Setup: t.Setup, LimitBytes: r.config.AmpleBytes}, t.Option)
		return err
	}
	a := have[len(r.trials)%len(have)]
	r.archive, r.trained = a.Number, &a.training
	return nil
}
