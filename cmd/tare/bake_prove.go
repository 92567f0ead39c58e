package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// proof runs an image and what was baked of it, side by side.
type proof struct {
	// config is of the image as given; its runner runs that.
	config fit.Config
	baking baking
	change image.Change
	baked  docker.Image
	runs   int
	engine *docker.Engine
	stderr io.Writer
}

// UnprovenError says that a run of a baked image failed: it is not to be used.
type UnprovenError struct {
	Run, Runs int
	Trial     fit.Trial
	// Slow is how many runs were slower than asked, where that is the reason.
	Slow int
	// Why is set where the run passed, and yet was not what was proven.
	Why string
}

// Error names the run and what happened in it.
func (e *UnprovenError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("fresh run %d of %d of the baked image: %s", e.Run, e.Runs, e.Why)
	}
	what := fmt.Sprintf("fresh run %d of %d of the baked image at %s: %s", e.Run, e.Runs, report.Limit(e.Trial.LimitBytes), e.Trial.Verdict)
	if e.Slow > 1 {
		what += fmt.Sprintf(", as were %d before it", e.Slow-1)
	}
	return what
}

// slowAlone says that the run was slower than a share of the image as given, and nothing else.
func (e *UnprovenError) slowAlone() bool { return e.Why == "" && e.Trial.SlowAlone() }

// bears says that the median run is still as fast as asked, and this one had enough memory:
// runs differ by a few per cent, so of many with an objective that is a share of the image
// as given some are slower.
func (e *UnprovenError) bears() bool { return e.slowAlone() && 2*e.Slow < e.Runs }

// run makes one run of the image as given, with ample memory, which the objective
// compares with, and then fresh runs of the baked one at its limit.
func (p proof) run(ctx context.Context) (given fit.Trial, baked []fit.Trial, err error) {
	if given, err = p.givenRun(ctx); err != nil {
		return given, nil, err
	}
	if !given.Passed {
		return given, nil, &fit.BaselineError{Trial: given}
	}
	d, err := p.config.Runner.(*runner.Docker).Of(ctx, p.baked.ID)
	if err != nil {
		return given, nil, err
	}
	slow := 0
	for n := 1; n <= p.runs; n++ {
		t, err := p.bakedRun(ctx, d, n, given.Measured)
		if again, ok, besideErr := p.beside(ctx, t, err); besideErr != nil {
			return given, baked, besideErr
		} else if ok {
			t, err = p.bakedRun(ctx, d, n, again)
		}
		var unproven *UnprovenError
		if errors.As(err, &unproven) && unproven.slowAlone() {
			slow++
			if unproven.Slow = slow; unproven.bears() {
				fmt.Fprintln(p.stderr, "it is slower than asked, and not for want of memory: the median run decides")
				err = nil
			}
		}
		if err != nil {
			return given, baked, err
		}
		baked = append(baked, t)
	}
	return given, baked, nil
}

// givenRun is a run of the image as given, with ample memory.
func (p proof) givenRun(ctx context.Context) (fit.Trial, error) {
	spec := p.spec(p.config.Command.With(), p.config.Env)
	spec.Args[0] = p.javaOf(spec.Args[0])
	spec.Limits.MemoryBytes, spec.Probe = p.config.AmpleBytes, true
	return p.try(ctx, p.config.Runner, spec, 0)
}

// beside measures the image as given anew beside a run of the baked one that was too
// slow, and nothing else: where it is as slow, ok says to make that run again, once, by
// what was measured. A fit does so too.
func (p proof) beside(ctx context.Context, slow fit.Trial, failed error) (m trial.Measured, ok bool, err error) {
	var unproven *UnprovenError
	if !errors.As(failed, &unproven) || !unproven.slowAlone() {
		return m, false, nil
	}
	given, err := p.givenRun(ctx)
	if err != nil || !slow.FastBeside(given) {
		return m, false, err
	}
	fmt.Fprintln(p.stderr, "the image as given beside it was as slow: the machine has slowed, and the run is made again")
	return given.Measured, true, nil
}

// javaOf is the launcher that a fit starts, whose path it looked up.
func (p proof) javaOf(command string) string {
	if !p.config.Command.IsJava() {
		return command
	}
	return p.config.Java.Path
}

func (p proof) bakedRun(ctx context.Context, d *runner.Docker, n int, baseline trial.Measured) (fit.Trial, error) {
	args := p.baked.Config.Cmd
	if given := p.baking.fit.Image.Args; len(given) > 0 && len(p.baked.Config.Entrypoint) > 0 {
		args = given
	}
	spec := p.spec(slices.Concat(p.baked.Config.Entrypoint, args), runner.Environ(p.config.Env, p.change.Env))
	spec.Files = append(spec.Files, runner.InImage)
	spec.Weigh = true
	fit.Attempt{LimitBytes: *p.baking.fit.LimitBytes, Baseline: &baseline}.Limit(&spec)
	spec.Baseline = &baseline
	t, err := p.try(ctx, d, spec, n)
	switch {
	case err != nil:
		return t, err
	case !t.Passed:
		return t, &UnprovenError{Run: n, Runs: p.runs, Trial: t}
	case p.archiveRefused(t):
		return t, &UnprovenError{Run: n, Runs: p.runs, Trial: t, Why: fmt.Sprintf("its JVM does not use %s, which was made by another JDK, or for other jars", p.baking.fit.Archive.File)}
	}
	return t, nil
}

// spec is a run of a command as the fit ran it.
func (p proof) spec(args, env []string) trial.Spec {
	c := p.config
	return trial.Spec{Args: args, Env: env, Dir: c.Dir, Limits: runner.Limits{CPUs: c.CPUs, Cpuset: c.Cpuset}, Ready: c.Ready, ReadyTimeout: c.ReadyTimeout,
		Job: c.Job, Loader: c.Load.Loader, Warmup: c.Warmup, Duration: c.Duration, Work: c.Work(), SLO: c.SLO, JavaHome: c.Java.Home, Files: c.Command.Files()}
}

func (p proof) try(ctx context.Context, r runner.Runner, spec trial.Spec, n int) (fit.Trial, error) {
	res, err := trial.Run(ctx, r, spec)
	if err != nil {
		return fit.Trial{}, err
	}
	t := fit.Trial{Attempt: fit.Attempt{Number: n, LimitBytes: spec.Limits.MemoryBytes}, Outcome: fit.OutcomeOf(res)}
	what := fmt.Sprintf("fresh run %d of %d", n, p.runs)
	if n == 0 {
		what = "the image as given"
	}
	fmt.Fprintf(p.stderr, "  %-20s %9s  %s, %s needed, ready in %s\n", what, report.Limit(t.LimitBytes), t.Verdict, report.Size(t.NeededBytes), report.Duration(t.Measured.Start))
	return t, nil
}

// sawArchive says that the JVM of each run was seen, and used the archive.
func (p proof) sawArchive(runs []fit.Trial) bool {
	return !slices.ContainsFunc(runs, func(t fit.Trial) bool { return !p.mapsArchive(weighed(t)) })
}

// archiveRefused says that the JVM of a run was seen not to use the archive: it has it
// not mapped, or says so itself (JDK: src/hotspot/share/cds/filemap.cpp).
func (p proof) archiveRefused(t fit.Trial) bool {
	f := weighed(t)
	switch {
	case p.baking.fit.Archive == nil || t.Result == nil:
		return false
	case f == nil:
		return slices.ContainsFunc(t.Result.Log, func(line string) bool {
			return strings.Contains(line, "Unable to use shared archive") || strings.Contains(line, "Unable to map shared spaces")
		})
	}
	return !p.mapsArchive(f)
}

// weighed is the footprint of a run at the end of its load, for in the first moments a
// JVM has no archive yet; else that near its peak, nil where none was taken.
func weighed(t fit.Trial) *footprint.Footprint {
	if t.Result == nil {
		return nil
	}
	return cmp.Or(t.Result.End, t.Result.Peak)
}

// mapsArchive says that a JVM had the archive mapped, which it has only where it takes
// it: as its own, for the same jars of the same time.
func (p proof) mapsArchive(f *footprint.Footprint) bool {
	if f == nil {
		return false
	}
	name := path.Base(p.baking.fit.Archive.File)
	for _, r := range f.Rows {
		if slices.ContainsFunc(r.Children, func(c footprint.Child) bool {
			file, ok := footprint.FileOfPart(c.ID)
			return ok && file == name
		}) {
			return true
		}
	}
	return false
}

// proofError gives an error of a proof its exit code, and its evidence.
func proofError(err error) error {
	var unproven *UnprovenError
	if !errors.As(err, &unproven) {
		return fitError(err)
	}
	if unproven.Why != "" {
		return &exitError{exitNoLimit, fmt.Errorf("%w%s", err, lastLines(unproven.Trial))}
	}
	return &exitError{exitNoLimit, fmt.Errorf("%w%s\nfit it again, with --margin or more --confirmations", err, evidence(unproven.Trial))}
}
