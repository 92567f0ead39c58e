package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare.dev/tare/internal/compose"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

type fitOptions struct {
	cpus          float64
	cpuset        string
	ready         string
	readyTimeout  time.Duration
	loads         []string
	loadCommand   string
	loadOutput    string
	loadTimeout   time.Duration
	concurrency   int
	rate          float64
	warmup        time.Duration
	warmBlocks    int // see fit.Terms
	duration      time.Duration
	requests      int64
	slo           string
	ample         string
	baselines     int
	confirmations int
	cgroupParent  string
	runner        string
	image         string
	json          bool
	out           string
	profile       string
	env           []string
	runFlags
	composeFlags
	kubeFlags
	store     string
	resume    bool
	job       bool
	prefer    string
	heapCurve bool
	trials    int
	budget    time.Duration
	levers    string
	ownLevers []string
	allow     string
	margin    string
	proof     string
	ablation  bool
	seed      uint64
}

const fitLong = `Fit runs a Java application again and again, each time in a fresh control group
with a memory limit, puts load on it, and looks for the smallest limit that it
passes with: first with the options as given, then with built-in levers on top.
The rows of the footprint decide which are tried: one that could save too little
is not. At most 12 trials (--trials) come before the fresh runs that must pass with
the limit and options that it recommends. An option
that you set, on the command line or by JAVA_TOOL_OPTIONS and the like, is
never overridden. Options that trade memory for speed are carried along, but for
those that others are sure to beat in both; --prefer picks among them before the
limit is looked for, and the report shows them all.

The command may be a script that starts the JVM: options then go to it by
JAVA_TOOL_OPTIONS. Of several JVMs the one with the most memory is fitted.

Each trial of a service starts the application, waits until it is ready, warms it up, and
measures it under load. It passes when it is alive at the end, nothing was
killed, and the objective (--slo) holds. Clauses with an x are relative to the
baseline: the application as given with ample memory, the median of several
runs. A trial that misses by little, with no sign that memory is the reason, is
tried again before it counts. A trial of a job (--job) runs the application to
its end.

Before each start the application's files are dropped from the page cache, so
that each trial pays for its pages like a fresh container does.

It needs a control group to make groups in: root, or a delegated subtree.
Ctrl-C ends the application and removes the group.

With --image the application runs in containers of that image, which a Docker
Engine on this machine makes. They have the machine's network: what it listens
on, it listens on here. With --compose it is a service of a Compose file, and the
services that it depends on run beside it, in a network of their own.

With --runner kubernetes each trial is a Job of one pod in a cluster, all on one
node; readiness and load are the pod's own (docs/kubernetes.md).

Each trial is stored when it ends. A fit that was interrupted or killed goes on
with --resume; tare fit list, show, report and delete are for all that were made.

Exit codes: ` + exitCodesHelp

const fitExample = `  tare fit --ready http://127.0.0.1:8080/health --load http://127.0.0.1:8080/ \
      -- java -jar app.jar
  tare fit --cpus 1 --slo 'p99<200ms errors=0' --ready log:Started --rate 200 \
      --load 'POST http://127.0.0.1:8080/orders' -- java -Xss512k -jar app.jar
  tare fit --runner docker --image shop:1.4 --load http://127.0.0.1:8080/
  tare fit --runner kubernetes --from deployment/shop -n prod --in trials --load http://127.0.0.1:8080/
  tare fit --load http://127.0.0.1:8080/ -- bin/standalone.sh
  tare fit --job --slo 'time<=1.2x' -- java -jar batch.jar input.csv
  tare fit --resume`

func newFitCommand() *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:     "fit [flags] -- java [options] -jar app.jar [arguments]\n  tare fit --resume [ID]",
		Short:   "The smallest memory limit that an application passes its load with",
		Long:    fitLong,
		Example: fitExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.resume && o.image == "" && o.from == "" && !o.composeFlags.given() {
				return usageError(errors.New("fit takes a command after --, such as: tare fit --ready tcp:8080 -- java -jar app.jar"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			h, args, err := openHistory(cmd, args, &o)
			if err != nil {
				return err
			}
			if err := o.boundWork(cmd.Flags()); err != nil {
				return errors.Join(usageError(err), h.close())
			}
			_, err = runFit(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, o, h)
			return errors.Join(err, h.close())
		},
	}
	cmd.AddCommand(newFitListCommand(), newFitShowCommand(), newFitReportCommand(), newFitDeleteCommand())
	f := cmd.Flags()
	f.SetInterspersed(false)
	o.addFlags(f)
	f.StringVar(&o.cgroupParent, "cgroup-parent", "", "control group to make groups in (default: the one tare runs in)")
	f.StringVar(&o.runner, "runner", "", "cgroup, docker for an application in an image, or kubernetes (default: cgroup, with --image docker)")
	f.StringVar(&o.image, "image", "", "image that the application is in, of Docker or for the cluster; its own command runs, or what stands after --")
	f.StringVar(&o.profile, "profile", "", "file to write what was proven to, for tare exec: tare.json beside the jar")
	f.StringArrayVar(&o.ownLevers, "lever", nil, "'NAME: OPTION or VARIABLE=VALUE …', a lever of your own to try with the others, or @FILE with one on each line; repeatable, each may take a trial more than --trials")
	f.BoolVar(&o.resume, "resume", false, "go on with a fit that was cut off: --resume [ID], without one the newest started here")
	return cmd
}

// addFlags are the flags of a fit, wherever the application is.
func (o *fitOptions) addFlags(f *pflag.FlagSet) {
	f.Float64Var(&o.cpus, "cpus", 0, "processors the application may use, such as 1.5 (0: no quota)")
	f.StringVar(&o.cpuset, "cpuset", "", "processors it is pinned to, such as 0-1")
	f.StringVar(&o.ready, "ready", "", "when it is ready: a URL that answers, tcp:PORT, or log:REGEX (default: the first --load URL)")
	f.DurationVar(&o.readyTimeout, "ready-timeout", trial.DefaultReadyTimeout, "how long it may take to be ready")
	f.StringArrayVar(&o.loads, "load", nil, "'[METHOD ]URL' to send, or @FILE of HTTP requests; repeatable, sent in turn")
	f.StringVar(&o.loadCommand, "load-command", "", "a shell command that puts the load instead: k6, wrk, oha, hey, or any other whose last line is {\"requests\":N,\"failed\":N,…}")
	f.StringVar(&o.loadOutput, "load-output", "", "what tells the load command's result: line, k6, wrk, oha, hey, or status (its exit status alone); by the program's name where nothing is given")
	f.DurationVar(&o.loadTimeout, "load-timeout", load.DefaultCommandTime, "how long the load command may take beyond --duration before it is killed")
	f.IntVar(&o.concurrency, "concurrency", 8, "requests at a time (closed loop); with --rate the most in flight")
	f.Float64Var(&o.rate, "rate", 0, "requests per second (open loop)")
	f.DurationVar(&o.warmup, "warmup", firstWarmup, fmt.Sprintf("load before the measurement; in a closed loop as many requests in each later trial as in the first. Where it is not given it goes on, %s at a time, until the application has warmed up, up to %s", firstWarmup, fit.DefaultWarmBlocks*firstWarmup))
	f.DurationVar(&o.duration, "duration", 10*time.Second, "measured load; in a closed loop as many requests in each later trial as in the first")
	f.Int64Var(&o.requests, "requests", 0, "measure this many requests from readiness on instead, without --warmup, for at most --duration (then 10m where it is not given)")
	f.StringVar(&o.slo, "slo", "", "what must hold (default '"+trial.DefaultSLO+"'; without load '"+trial.DefaultStartSLO+"'; of a job '"+trial.DefaultJobSLO+"')")
	f.StringVar(&o.ample, "ample", "", "memory of the baseline, such as 2g (default: half of what is available, at most 2g, or the heap that you have sized and 1g)")
	f.IntVar(&o.baselines, "baselines", fit.DefaultBaselines, "runs of the baseline")
	f.IntVar(&o.confirmations, "confirmations", fit.DefaultConfirmations, "fresh runs that must pass at the recommended limit")
	f.BoolVar(&o.job, "job", false, "the application is a job: it runs to its end, within --ready-timeout (default 1h), and its time is the measure")
	f.StringVar(&o.prefer, "prefer", string(fit.PreferMemory), "what is picked of the options that hold the objective: memory: what needs least; balanced: the least product of memory and processor time; throughput: what needs least of all that cost no speed")
	f.BoolVar(&o.heapCurve, "heap-curve", false, "at the end, trials with other heaps: where is the cliff?")
	f.IntVar(&o.trials, "trials", fit.DefaultTrials, "the most trials before those that confirm, baselines included")
	f.DurationVar(&o.budget, "budget", 0, "about how long trials and confirmations may take (0: no bound)")
	f.StringVar(&o.levers, "levers", "", "levers to try, such as collector,c1; with a minus those to leave alone: -c1,-archive; or none (docs/levers.md lists them)")
	f.StringVar(&o.allow, "allow", "", "diagnostic, experimental: options that are not for production (those that change only where things are need no leave); framework: properties of Spring Boot and Quarkus")
	f.StringVar(&o.margin, "margin", "", "what is added to what is needed on the average, such as 5% (default: up to what 99 % of runs need, with a confidence of 95 %)")
	f.StringVar(&o.proof, "proof", proofFull, "full, or short: without the run of ten times the load and the one with half the processors")
	f.BoolVar(&o.ablation, "ablation", false, "at the end, trials without each of the levers: what does each save by itself?")
	f.Uint64Var(&o.seed, "seed", 0, "draws the order of the ablation's trials")
	f.BoolVar(&o.json, "json", false, "write JSON (schema "+report.FitSchema+")")
	f.StringVar(&o.out, "out", "", "folder for report.html, result.json, and the log and footprints of each trial")
	o.runFlags.addFlags(f)
	o.composeFlags.addFlags(f)
	o.kubeFlags.addFlags(f)
	f.StringArrayVar(&o.env, "env", nil, "NAME=VALUE for the application; repeatable")
	f.StringVar(&o.store, "store", "", storeHelp+"; none keeps nothing")
}

func usageError(err error) error { return &exitError{exitUsage, err} }

// runFit makes a fit and shows it. The result is nil where none was begun.
func runFit(ctx context.Context, stdout, stderr io.Writer, args []string, o fitOptions, h *history) (result *fit.Result, err error) {
	c, err := fitConfig(ctx, args, o, stderr)
	defer closeRunner(c.Runner, stderr)
	if err != nil {
		return nil, err
	}
	folders, err := openFolders(ctx, &c, o, h, stderr)
	if err != nil {
		return nil, err
	}
	defer folders.close(stderr)
	if err := c.Survey(ctx); err != nil {
		return nil, err
	}
	if err := h.begin(ctx, &c, stderr); err != nil {
		return nil, err
	}
	down, err := o.startBeside(ctx, &c, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, down()) }()
	progress := newProgress(stderr)
	progress.note(strings.TrimPrefix(fmt.Sprintf("%s, baseline with %s", h.going(), report.Limit(c.AmpleBytes)), ", "))
	c.Observe, c.Stage = progress.event, progress.stage
	result, err = fit.Run(ctx, c)
	progress.end()
	if err := folders.keep(ctx, result); err != nil {
		progress.note(err.Error())
	}
	keepErr := h.end(ctx, result, err)
	if ctx.Err() != nil && !fit.Ended(err) {
		return result, fmt.Errorf("interrupted after %d trials: nothing is left running%s", len(result.Trials), h.hint(result))
	}
	failure := fitError(err)
	if !fit.Ended(err) {
		failure = hinted(failure, h.hint(result))
	}
	// One that cannot be written keeps none of the others from being written.
	err = errors.Join(failure, keepErr, showFit(stdout, result, failure, o), folders.write(result, failure))
	if err != nil || o.profile == "" {
		return result, err
	}
	if result.OptionsByVariable() {
		return result, fmt.Errorf("--profile %s: tare exec puts options on the command line, which the JVM that was fitted does not see: set JAVA_TOOL_OPTIONS instead", o.profile)
	}
	if jar := result.Setup.Jar; jar != "" {
		progress.note(fmt.Sprintf("the profile is for the extracted jars: %s goes beside %s", filepath.Base(o.profile), jar))
	}
	return result, writeProfile(o.profile, result)
}

// showFit writes the result to stdout.
func showFit(stdout io.Writer, r *fit.Result, failure error, o fitOptions) error {
	if o.json {
		return report.WriteFitJSON(stdout, r, failure)
	}
	if failure != nil {
		return nil
	}
	if err := show(stdout, report.Fit(r), false); err != nil || o.out == "" {
		return err
	}
	_, err := fmt.Fprintf(stdout, "\n  kept in %s: report.html, result.json, and the log and footprints of each trial\n", o.out)
	return err
}

func styleOf(w io.Writer) document.Style {
	if f, ok := w.(*os.File); ok {
		return document.StyleFor(f)
	}
	return document.Style{}
}

// fitConfig checks everything that can be checked before anything runs.
func fitConfig(ctx context.Context, args []string, o fitOptions, stderr io.Writer) (fit.Config, error) {
	c := fit.Config{CPUs: o.cpus, Cpuset: o.cpuset, ReadyTimeout: o.readyTimeout, Warmup: o.warmup, Duration: o.duration, Requests: o.requests,
		Job: o.job, Weigh: true}
	if err := cmp.Or(o.checkNumbers(), o.checkKubernetes()); err != nil {
		return c, usageError(err)
	}
	var err error
	if c.Terms, c.Levers, err = o.terms(); err != nil {
		return c, usageError(err)
	}
	if c.From, err = os.Getwd(); err != nil {
		return c, err
	}
	if err := cmp.Or(o.composeFlags.check(o.image, o.runFlags), o.runFlags.check(o.image != "" || o.composeFlags.given(), c.From)); err != nil {
		return c, usageError(err)
	}
	if o.env, err = o.withEnvFiles(o.env); err != nil {
		return c, usageError(err)
	}
	var composed *fit.Compose
	if o.composeFlags.given() {
		if composed, args, err = o.fromCompose(ctx, args); err != nil {
			return c, usageError(err)
		}
		c.CPUs, c.Cpuset = o.cpus, o.cpuset
	}
	c.AddedEnv = o.env
	if c.Job {
		if err := o.checkJob(); err != nil {
			return c, usageError(err)
		}
		if o.readyTimeout == trial.DefaultReadyTimeout {
			c.ReadyTimeout = trial.DefaultJobTimeout
		}
	}
	if c.Load, err = o.load(); err != nil {
		return c, usageError(err)
	}
	if c.Ready, err = o.readiness(c.Load); err != nil {
		return c, usageError(err)
	}
	if c.SLO, err = o.objective(c.Load); err != nil {
		return c, usageError(err)
	}
	given, err := parseAmple(o.ample)
	if err != nil {
		return c, usageError(err)
	}
	switch {
	case o.runner == inCluster:
		err = o.applicationInCluster(ctx, &c, args, stderr)
	case o.image != "":
		err = o.applicationInImage(ctx, &c, args, composed, stderr)
	default:
		err = o.application(ctx, &c, args, stderr)
	}
	if err != nil {
		return c, err
	}
	if c.AmpleBytes, c.MostAmpleBytes, err = ample(ctx, given, c.Given, c.Runner); err != nil {
		return c, usageError(err)
	}
	return c, nil
}

// application finds the application on this machine, and opens the runner.
func (o fitOptions) application(ctx context.Context, c *fit.Config, args []string, stderr io.Writer) error {
	var err error
	c.Dir, c.Inherits = c.From, true // tare exec will start it
	if c.Command, err = fit.CommandOf(args); err != nil {
		return usageError(fmt.Errorf("%w: give a java command after --, such as: java -jar app.jar", err))
	}
	if err := o.checkScript(c.Command); err != nil {
		return usageError(err)
	}
	if jar := c.Command.Jar(); jar != "" {
		if st, err := os.Stat(jar); err != nil || !st.Mode().IsRegular() {
			return usageError(fmt.Errorf("no such jar: %s: build it, or check the path (from %s)", jar, c.Dir))
		}
	}
	if c.Env, err = applicationEnv(os.Environ(), o.env); err != nil {
		return usageError(err)
	}
	if c.Java, err = runner.FindJavaOf(ctx, args, c.Env); err != nil {
		return usageError(err)
	}
	if c.Given, err = jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease(c.Java.Version), Args: javaArgs(args), Env: c.Env, Dir: c.Dir}); err != nil {
		return usageError(err)
	}
	c.Runner, err = openRunner(o.cgroupParent, stderr)
	return err
}

// checkScript checks a command of this machine that is not java's: a script that starts a JVM.
func (o fitOptions) checkScript(c jvmopts.Command) error {
	if c.IsJava() {
		return nil
	}
	if _, err := exec.LookPath(c.Java); err != nil {
		return fmt.Errorf("no such program: %w: give a java command after --, such as: java -jar app.jar, or a script that starts one", err)
	}
	if o.profile != "" {
		return fmt.Errorf("--profile %s: tare exec starts java commands, and %s is none: leave it out", o.profile, c.Java)
	}
	return nil
}

func (o fitOptions) checkNumbers() error {
	switch {
	case o.runner != "" && o.runner != "cgroup" && o.runner != "docker" && o.runner != inCluster:
		return fmt.Errorf("--runner %q: give cgroup, docker or kubernetes", o.runner)
	case o.runner != inCluster && (o.runner == "docker") != (o.image != "" || o.composeFlags.given()) && o.runner != "":
		return errors.New("--runner docker and --image go together: give both, or --image alone")
	case (o.image != "" || o.composeFlags.given()) && o.cgroupParent != "":
		return errors.New("--cgroup-parent is for --runner cgroup: the engine says where its containers are")
	case !(o.cpus >= 0 && o.cpus <= 4096):
		return fmt.Errorf("--cpus %g: give a number of processors such as 1.5, or 0 for no quota", o.cpus)
	case o.baselines < 1 || o.baselines > 100:
		return fmt.Errorf("--baselines %d: give 1 to 100", o.baselines)
	case o.confirmations < 1 || o.confirmations > 100:
		return fmt.Errorf("--confirmations %d: give 1 to 100", o.confirmations)
	case o.trials < o.baselines+1 || o.trials > 1000:
		return fmt.Errorf("--trials %d: give more than the %d baselines, and up to 1000", o.trials, o.baselines)
	case o.budget < 0 || o.budget > 7*24*time.Hour:
		return fmt.Errorf("--budget %s: give a time up to a week, or 0 for no bound", o.budget)
	case o.readyTimeout <= 0 || o.readyTimeout > 24*time.Hour:
		return fmt.Errorf("--ready-timeout %s: give a time up to a day", o.readyTimeout)
	case o.duration <= 0 || o.duration > 24*time.Hour:
		return fmt.Errorf("--duration %s: give a time up to a day", o.duration)
	case o.warmup < 0 || o.warmup > 24*time.Hour:
		return fmt.Errorf("--warmup %s: give a time up to a day, or 0", o.warmup)
	case o.profile != "" && !isFolder(filepath.Dir(o.profile)):
		return fmt.Errorf("--profile %s: there is no such folder: make it first", o.profile)
	case len(o.loads) > 0 && o.loadCommand != "":
		return errors.New("--load and --load-command exclude each other: give one of them")
	}
	return nil
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// applicationEnv is an environment with what --env adds.
func applicationEnv(env, add []string) ([]string, error) {
	for _, e := range add {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsAny(e, "\x00") {
			return nil, fmt.Errorf("--env %q: write it as NAME=VALUE", e)
		}
	}
	return runner.Environ(env, add), nil
}

// openRunner makes the runner and clears what an earlier, killed tare left.
func openRunner(parent string, stderr io.Writer) (runner.Runner, error) {
	r, err := runner.NewCgroup(runner.CgroupOptions{Parent: parent})
	if err != nil {
		return nil, &exitError{exitPermission, err}
	}
	sweep(r, stderr)
	return r, nil
}

// closeRunner undoes what a runner made for itself.
func closeRunner(r runner.Runner, stderr io.Writer) {
	if closer, ok := r.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			fmt.Fprintf(stderr, "note: %v\n", err)
		}
	}
}

// sweep clears what an earlier, killed tare left.
func sweep(r runner.Runner, stderr io.Writer) {
	removed, err := r.Sweep(context.Background())
	if len(removed) > 0 {
		fmt.Fprintf(stderr, "removed what an earlier run had left: %s\n", strings.Join(removed, ", "))
	}
	if err != nil {
		fmt.Fprintf(stderr, "note: not all that an earlier run had left could be removed: %v\n", err)
	}
}

// fitError gives an error of a fit its exit code and next step.
func fitError(err error) error {
	var baseline *fit.BaselineError
	var unconfirmed *fit.UnconfirmedError
	var budget *fit.BudgetError
	var port *trial.PortInUseError
	var beside *compose.ServiceError
	var otherJava *fit.OtherJavaError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &beside):
		return besideError(err)
	case errors.As(err, &baseline):
		return baselineError(baseline)
	case errors.As(err, &unconfirmed):
		return &exitError{exitNoLimit, fmt.Errorf("%w%s\nraise --ample, relax --slo, or look for what disturbs the machine", err, evidence(unconfirmed.Last))}
	case errors.As(err, &budget):
		return &exitError{exitNoLimit, err}
	case errors.As(err, &port):
		return &exitError{exitNotReady, err}
	case errors.Is(err, load.ErrTarget) || errors.Is(err, load.ErrSummary):
		return usageError(err)
	case errors.Is(err, fit.ErrNoJVM):
		return usageError(fmt.Errorf("%w: give one that does", err))
	case errors.As(err, &otherJava):
		return usageError(fmt.Errorf("%w: give --env JAVA_HOME=%s", err, otherJava.Runs))
	case errors.Is(err, runner.ErrUnavailable):
		return &exitError{exitPermission, err}
	}
	return err
}

// hinted adds a hint to an error and keeps its exit code.
func hinted(err error, hint string) error {
	if hint == "" {
		return err
	}
	code := exitFailure
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	return &exitError{code, fmt.Errorf("%w%s", err, hint)}
}

// baselineError tells why the application fails even with ample memory.
func baselineError(b *fit.BaselineError) error {
	t := b.Trial
	switch {
	case b.HeapBy != "":
		return &exitError{exitNoLimit, fmt.Errorf("%w%s\nits heap may become %d MiB by %s: set a larger one, or none", b, evidence(t), b.HeapBytes/report.MiB, b.HeapBy)}
	case b.HeapBytes > 0:
		return &exitError{exitNoLimit, fmt.Errorf("%w%s\nits heap may become %d MiB of that: raise --ample, or set a larger heap", b, evidence(t), b.HeapBytes/report.MiB)}
	case t.Verdict == trial.OOMKilled || t.Verdict == trial.Stalled:
		return &exitError{exitNoLimit, fmt.Errorf("%w%s\nraise --ample", b, evidence(t))}
	case t.Measured.Start == 0 && t.Measured.Time == 0:
		return &exitError{exitNotReady, fmt.Errorf("%w%s%s", b, evidence(t), lastLines(t))}
	case t.Verdict == trial.Crashed || t.Verdict == trial.OutOfMemory:
		return &exitError{exitNoLimit, fmt.Errorf("%w%s%s", b, evidence(t), lastLines(t))}
	case t.Verdict == trial.Errors:
		return &exitError{exitNoLimit, fmt.Errorf("%w%s%s\nmend what fails, or relax --slo, or the load", b, evidence(t), lastLines(t))}
	}
	return &exitError{exitNoLimit, fmt.Errorf("%w%s\nrelax --slo, or the load", b, evidence(t))}
}

func evidence(t fit.Trial) string {
	if t.Result == nil || len(t.Result.Evidence) == 0 {
		return ""
	}
	return ": " + linux.Printable(strings.Join(t.Result.Evidence, "; "))
}

// lastLines are the last lines of the application's log, indented.
func lastLines(t fit.Trial) string {
	if t.Result == nil || len(t.Result.Log) == 0 {
		return "\nit wrote nothing on stdout or stderr"
	}
	var b strings.Builder
	b.WriteString("\nits last lines:")
	for _, l := range t.Result.Log {
		b.WriteString("\n  | " + linux.Printable(l))
	}
	return b.String()
}
