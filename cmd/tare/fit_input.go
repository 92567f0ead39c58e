package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// load is the load that the flags describe.
func (o fitOptions) load() (fit.Load, error) {
	if o.loadCommand != "" {
		return o.commandLoad()
	}
	var targets []load.Target
	for _, s := range o.loads {
		more, err := loadTargets(s)
		if err != nil {
			return fit.Load{}, err
		}
		targets = append(targets, more...)
	}
	if len(targets) == 0 {
		return fit.Load{}, nil
	}
	if o.concurrency < 1 || o.concurrency > load.MaxConcurrency {
		return fit.Load{}, fmt.Errorf("--concurrency %d: give 1 to %d", o.concurrency, load.MaxConcurrency)
	}
	if !(o.rate >= 0 && o.rate <= load.MaxRate) {
		return fit.Load{}, fmt.Errorf("--rate %g: give requests per second up to %g, or 0 for a closed loop", o.rate, float64(load.MaxRate))
	}
	return fit.NewLoad(load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: o.concurrency, Rate: o.rate, Timeout: load.RequestTimeout}}), nil
}

// firstWarmup is the warm-up where --warmup does not say: it goes on by as much at a time.
const firstWarmup = 5 * time.Second

// workTime is how long --requests may take where --duration does not say.
const workTime = 10 * time.Minute

// boundWork checks --requests, and adapts the times that it goes with. Without it, and
// without --warmup, the warm-up goes on until the application has warmed up.
func (o *fitOptions) boundWork(given *pflag.FlagSet) error {
	switch {
	case o.requests < 0 || o.requests > load.MaxRequests:
		return fmt.Errorf("--requests %d: give up to %d, or 0 for a load of --duration", o.requests, load.MaxRequests)
	case o.requests == 0:
		if !given.Changed("warmup") && !o.job {
			o.warmBlocks = fit.DefaultWarmBlocks
		}
		return nil
	case len(o.loads) == 0:
		return errors.New("--requests needs --load: only tare's own load counts its requests to an end")
	case given.Changed("warmup") && o.warmup != 0:
		return errors.New("--requests counts from readiness on, without a warm-up: leave out --warmup")
	}
	o.warmup = 0
	if !given.Changed("duration") {
		o.duration = workTime
	}
	return nil
}

// commandLoad is the load of --load-command.
func (o fitOptions) commandLoad() (fit.Load, error) {
	c, err := load.NewCommand(o.loadCommand, os.Environ(), load.Format(o.loadOutput))
	if err != nil {
		return fit.Load{}, err
	}
	if o.loadTimeout <= 0 || o.loadTimeout > maxLoadTimeout {
		return fit.Load{}, fmt.Errorf("--load-timeout %s: give a time up to %s", o.loadTimeout, maxLoadTimeout)
	}
	c.Time = o.loadTimeout
	return fit.NewLoad(c), nil
}

const maxLoadTimeout = 24 * time.Hour

// loadTargets reads one --load: "[METHOD ]URL", or "@FILE" of requests.
func loadTargets(s string) ([]load.Target, error) {
	name, isFile := strings.CutPrefix(s, "@")
	if !isFile {
		t, err := load.ParseTarget(s)
		return []load.Target{t}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--load %s: %w", s, err)
	}
	defer f.Close()
	targets, err := load.ReadTargets(f, bodies{filepath.Dir(name)})
	if err != nil {
		return nil, fmt.Errorf("--load %s: %w", s, err)
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("--load %s: the file holds no request", s)
	}
	return targets, nil
}

// bodies opens the files that a request file names: beside it, or absolute.
// The user wrote the file, so it may name what the user may read.
type bodies struct{ dir string }

// Open opens name below dir, unless it is absolute.
func (b bodies) Open(name string) (fs.File, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(b.dir, name)
	}
	return os.Open(name)
}

// readiness is --ready, or that the first target answers.
func (o fitOptions) readiness(l fit.Load) (trial.Ready, error) {
	if o.job {
		return trial.Ready{}, nil
	}
	if o.ready != "" {
		return trial.ParseReady(o.ready)
	}
	if len(l.Targets) > 0 {
		if url, ok := strings.CutPrefix(l.Targets[0], http.MethodGet+" "); ok {
			return trial.ParseReady(url)
		}
	}
	return trial.Ready{}, errors.New("when is the application ready? give --ready URL, tcp:PORT or log:REGEX")
}

// objective is --slo, or the default.
func (o fitOptions) objective(l fit.Load) (trial.SLO, error) {
	text := o.slo
	if text == "" && o.job {
		text = trial.DefaultJobSLO
	} else if text == "" && l.Loader == nil {
		text = trial.DefaultStartSLO
	} else if text == "" {
		text = trial.DefaultSLO
	}
	slo, err := trial.ParseSLO(text)
	if err != nil {
		return nil, err
	}
	for _, c := range slo {
		switch {
		case o.job != (c.Metric == trial.JobTime):
			return nil, fmt.Errorf("SLO clause %q: time is what a job is measured by (--job), and nothing else", c)
		case l.Loader == nil && !o.job && c.Metric != trial.StartTime:
			return nil, fmt.Errorf("SLO clause %q looks at load, and there is none: give --load or --load-command", c)
		}
	}
	if o.job {
		return slo, nil
	}
	return slo, slo.CheckLoader(l.Loader)
}

// terms are how far the search goes, and the levers that it tries.
func (o fitOptions) terms() (fit.Terms, []fit.Lever, error) {
	t := fit.Terms{Baselines: o.baselines, Confirmations: o.confirmations, MaxTrials: o.trials, Budget: o.budget, HeapCurve: o.heapCurve, Ablation: o.ablation, Seed: o.seed}
	if o.parallel > 1 {
		t.Parallel = o.parallel
	}
	t.Stress, t.WarmBlocks = o.proof == proofFull, o.warmBlocks
	var errs [6]error
	t.Prefer, errs[0] = fit.ParsePrefer(o.prefer)
	t.Allow, errs[1] = fit.ParseAllow(o.allow)
	t.Margin, errs[2] = parseMargin(o.margin)
	levers, err := fit.SelectLevers(fit.Levers, o.levers)
	errs[3] = err
	own, err := fit.OwnLevers(o.ownLevers)
	errs[4] = err
	if o.proof != proofFull && o.proof != proofShort {
		errs[5] = fmt.Errorf("%q is neither %s nor %s", o.proof, proofFull, proofShort)
	}
	for i, flag := range []string{"--prefer", "--allow", "--margin", "--levers", "--lever", "--proof"} {
		if errs[i] != nil {
			return t, nil, fmt.Errorf("%s %w", flag, errs[i])
		}
	}
	if len(own) > 0 && o.profile != "" {
		return t, nil, errors.New("--profile holds nothing but what tare's own levers add: leave out --lever, and what it adds put into the command")
	}
	t.MaxTrials += len(own)
	return t, slices.Concat(levers, own), nil
}

// What --proof can be.
const proofFull, proofShort = "full", "short"

// parseMargin reads a percentage; none is the bound of what is needed.
func parseMargin(s string) (float64, error) {
	if s == "" {
		return fit.MarginByBound, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(n >= 0 && n <= 100) || !strings.HasSuffix(s, "%") {
		return 0, fmt.Errorf("%q is no percentage from 0%% to 100%%", s)
	}
	return n / 100, nil
}

// checkJob refuses what is for services.
func (o fitOptions) checkJob() error {
	for flag, given := range map[string]bool{"--ready": o.ready != "", "--load": len(o.loads) > 0, "--load-command": o.loadCommand != "", "--rate": o.rate != 0} {
		if given {
			return fmt.Errorf("%s is for services, and a job runs to its end by itself: leave it out, or leave out --job", flag)
		}
	}
	return nil
}

const minAmple = 16 * report.MiB

// parseAmple reads --ample; 0 is none.
func parseAmple(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := runner.ParseSize(s)
	if err != nil {
		return 0, fmt.Errorf("--ample %w", err)
	}
	if n < minAmple {
		return 0, fmt.Errorf("--ample %s: no JVM starts in less than %s", s, report.Limit(minAmple))
	}
	return (n + report.MiB - 1) / report.MiB * report.MiB, nil
}

// ample is the memory of the baselines: what --ample gives, or what fit.Ample has of half of what is
// available where the trials run, and up to that half more where a script has sized the heap.
func ample(ctx context.Context, given int64, options jvmopts.Options, h runner.Host) (ample, most int64, err error) {
	available, err := h.Available(ctx)
	if err != nil {
		return 0, 0, err
	}
	if given > available {
		return 0, 0, fmt.Errorf("--ample %s: only %s are available where the trials run", report.Limit(given), report.Limit(available))
	}
	if given > 0 {
		return given, 0, nil
	}
	most = available / 2
	if ample = fit.Ample(options, most); ample < minAmple {
		return 0, 0, fmt.Errorf("only %s of memory are available: free some, or give --ample", report.Limit(available))
	}
	return ample, most, nil
}
