package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/bench/applications"
	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jarfile"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/results"
	"tare.dev/tare/internal/trial"
)

const (
	baselines    = 3
	readyTimeout = 2 * time.Minute
	// maxNarrow is how often a trial is made again that noise may have
	// failed, as tare fit does.
	maxNarrow = 2
)

// measurer measures one cell.
type measurer struct {
	*bench
	cell  cell
	app   applications.Application
	shape shape
	java  fit.Java
	// classes are the application's.
	classes int64
}

func (b *bench) newMeasurer(ctx context.Context, c cell) (*measurer, error) {
	m := &measurer{bench: b, cell: c, app: b.app(c), shape: b.shape(c)}
	var err error
	if m.java, err = runner.FindJava(ctx, filepath.Join(b.cache, "jdks", m.shape.jdk, "bin", "java")); err != nil {
		return nil, err
	}
	b.forget(c, m.java.Build)
	jars := m.app.Jars(applications.Place{JDK: m.shape.jdk, Cache: b.cache})
	if len(jars) == 0 {
		return nil, errors.New("its jars are missing: run scripts/bench-services.sh")
	}
	for _, jar := range jars {
		j, err := jarfile.Open(jar)
		if err != nil {
			return nil, fmt.Errorf("%w: run scripts/bench-services.sh and scripts/bench-jars.sh", err)
		}
		m.classes += int64(j.Classes())
		j.Close() // read only
	}
	return m, nil
}

// attempt is a trial to be made.
type attempt struct {
	key
	limit        int64
	options, env []string
	jar          string // stands in for the command's, "" for its own
	slo          string
	warmup       time.Duration
}

// attempt is a trial of what was found.
func (r record) attempt(s stage, n int, limit int64, slo string) attempt {
	return attempt{key: key{Way: r.Way, Stage: s, Number: n}, limit: limit, options: r.Options, env: r.Env, jar: r.Jar, slo: slo}
}

// trial makes a trial, unless it was made before, and keeps it.
func (m *measurer) trial(ctx context.Context, a attempt) (record, error) {
	a.cell, a.Plan = m.cell, m.plan
	if r, ok := m.done[a.key]; ok && r.LimitBytes == a.limit && slices.Equal(r.Options, a.options) {
		return r, nil
	}
	spec, err := m.spec(a)
	if err != nil {
		return record{}, err
	}
	res, err := trial.Run(ctx, m.runner, spec)
	if err != nil {
		return record{}, err
	}
	r := m.record(a, res)
	fmt.Fprintf(m.log, "%s %s %s: %s %d at %d MiB: %s (%.0f/s, ready in %.1f s)\n", m.cell.App, m.shape.name, a.Way, a.Stage, a.Number, a.limit/mib,
		r.Verdict, r.Throughput, r.Ready)
	return r, m.keep(r)
}

// keep keeps a record with the build that it was measured on.
func (m *measurer) keep(r record) error {
	r.Build = m.java.Build
	return m.bench.keep(r)
}

func (m *measurer) record(a attempt, res *trial.Result) record {
	r := record{key: a.key, JDK: m.java.Version, Machine: runner.ThisMachine(), Time: res.Time.UTC().Truncate(time.Second), Took: res.Took.Seconds(),
		LimitBytes: a.limit, Options: a.options, Env: a.env, Jar: a.jar, Verdict: res.Verdict, Evidence: res.Evidence, Narrow: res.Narrow,
		PeakBytes: res.PeakBytes, NeededBytes: res.NeededBytes, WorkingSet: res.WorkingSetBytes, Waited: res.ReclaimShare, Ready: res.ReadyAfter.Seconds()}
	if res.Load != nil {
		if r.Requests = res.Load.OK; r.Requests > 0 {
			r.Processor = res.LoadCPUTime.Seconds() / float64(r.Requests)
		}
		r.Throughput, _ = res.Load.Throughput()
		p99, _ := res.Load.Latency.P99.Value()
		r.P99 = p99.Seconds()
	}
	if res.Peak != nil {
		r.Rows = map[string]int64{}
		for _, row := range res.Peak.Rows {
			r.Rows[string(row.Owner)] = row.ResidentBytes
		}
	}
	return r
}

func (m *measurer) spec(a attempt) (trial.Spec, error) {
	ports, err := runner.ThisHost().FreePorts(context.Background(), 2)
	if err != nil {
		return trial.Spec{}, err
	}
	p := applications.Place{JDK: m.shape.jdk, Cache: m.cache, Port: ports[0], Second: ports[1]}
	ready, targets, err := m.app.Loading(p)
	if err != nil {
		return trial.Spec{}, err
	}
	slo, err := trial.ParseSLO(a.slo)
	if err != nil {
		return trial.Spec{}, err
	}
	command := m.app.Command(p)
	if i := slices.Index(command, "-jar"); a.jar != "" && i >= 0 {
		command[i+1] = a.jar
	}
	args := slices.Concat([]string{m.java.Path}, m.shape.options(), a.options, command)
	parsed, err := jvmopts.Parse(args)
	if err != nil {
		return trial.Spec{}, err
	}
	return trial.Spec{Args: args, Env: runner.Environ(os.Environ(), slices.Concat(m.shape.env(), a.env)), Limits: runner.Limits{MemoryBytes: a.limit, CPUs: a.Stage.processors() * m.shape.cpus},
		Ready: ready, ReadyTimeout: readyTimeout, SLO: slo, Probe: a.slo == noErrors,
		Loader: load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: concurrency, Timeout: load.RequestTimeout}},
		Warmup: a.warmup, Duration: m.load, JavaHome: m.java.Home, Files: parsed.Files(),
		Weigh: true}, nil
}

// noErrors is the objective where the throughput is what is looked for.
const noErrors = "errors=0"

// slo is the objective of all ways in this cell: a share of the throughput of
// the JVM's defaults with ample memory, the median of some runs.
func (m *measurer) slo(ctx context.Context) (string, error) {
	return m.objective(ctx, searching, 0, m.share)
}

// objective is a share of the throughput of the baselines of a stage after so many of them.
func (m *measurer) objective(ctx context.Context, s stage, after int, share float64) (string, error) {
	var rates []float64
	for n := range baselines {
		rate, err := m.baseline(ctx, s, after+n+1)
		if err != nil {
			return "", err
		}
		rates = append(rates, rate)
	}
	return fmt.Sprintf("%s throughput>=%.1f/s", noErrors, share*results.Median(rates)), nil
}

// baseline is the throughput of the JVM's defaults with ample memory.
func (m *measurer) baseline(ctx context.Context, s stage, n int) (float64, error) {
	r, err := m.trial(ctx, attempt{key: key{Way: ways.Defaults, Stage: s, Number: n}, limit: ampleBytes, slo: noErrors})
	if err != nil {
		return 0, err
	}
	if !r.passed() {
		return 0, fmt.Errorf("with the JVM's defaults and %d MiB it is %s: %s", r.LimitBytes/mib, r.Verdict, strings.Join(r.Evidence, "; "))
	}
	return r.Throughput, nil
}

// measurePeer finds the smallest limit that a way passes with, and how fast it
// is there once warm.
func (m *measurer) measurePeer(ctx context.Context, w ways.Way) error {
	slo, err := m.slo(ctx)
	if err != nil {
		return err
	}
	p := &peer{measurer: m, way: w, slo: slo}
	if w.Name == ways.Defaults {
		p.number = baselines
	}
	found := m.found(m.cell, w.Name)
	if found == nil {
		search := p.search
		if w.Rule != nil {
			search = p.rule
		}
		if found, err = search(ctx); err != nil {
			return err
		}
	}
	if !found.Answer.found() {
		return nil
	}
	return m.measureWarm(ctx, *found)
}

// peer searches for one way.
type peer struct {
	*measurer
	way    ways.Way
	slo    string
	number int // of the last trial
}

func (p *peer) search(ctx context.Context) (*record, error) {
	ample, err := p.try(ctx, searching, ampleBytes)
	if err != nil {
		return nil, err
	}
	if !ample.passed() {
		return p.end(0, nil, answer{Failure: fmt.Sprintf("with %d MiB it is %s", ampleBytes/mib, ample.Verdict)})
	}
	enough := int64(ampleBytes)
	if best := p.whole().best(p.cell); best != nil {
		enough = best.LimitBytes
		r, err := p.try(ctx, searching, enough)
		if err != nil {
			return nil, err
		}
		if !r.passed() {
			return p.end(enough, nil, answer{Over: r.Verdict, Trials: p.number})
		}
	}
	return p.searchBelow(ctx, enough, ample.PeakBytes)
}

// rule confirms the limit that the way itself names.
func (p *peer) rule(ctx context.Context) (*record, error) {
	ample, err := p.try(ctx, searching, ampleBytes)
	if err != nil {
		return nil, err
	}
	if !ample.passed() || ample.WorkingSet == 0 {
		return p.end(0, nil, answer{Failure: fmt.Sprintf("with %d MiB it is %s", ampleBytes/mib, ample.Verdict)})
	}
	limit := wholeMiB(p.way.Rule(ample.WorkingSet))
	a := answer{Trials: p.number}
	var runs []record
	for range p.confirmations {
		r, err := p.try(ctx, confirming, limit)
		if err != nil {
			return nil, err
		}
		a.Confirmations = p.number - a.Trials
		if !r.passed() {
			a.Failure = fmt.Sprintf("with its %d MiB it is %s", limit/mib, r.Verdict)
			return p.end(0, nil, a)
		}
		runs = append(runs, r)
	}
	return p.end(limit, runs, a)
}

// searchBelow finds the smallest limit up to one that was enough.
func (p *peer) searchBelow(ctx context.Context, enough, usage int64) (*record, error) {
	limit, err := smallest(enough, usage, func(limit int64) (bool, error) {
		r, err := p.try(ctx, searching, limit)
		return r.passed(), err
	})
	if err != nil {
		return nil, err
	}
	a := answer{Trials: p.number}
	var runs []record
	limit, err = confirmed(limit, enough, p.confirmations, func(limit int64) (bool, error) {
		r, err := p.try(ctx, confirming, limit)
		runs = append(runs, r)
		return r.passed(), err
	})
	if err != nil {
		return nil, err
	}
	a.Confirmations = p.number - a.Trials
	switch {
	case limit == 0 && enough < ampleBytes:
		a.Over = runs[len(runs)-1].Verdict
		return p.end(enough, nil, a)
	case limit == 0:
		a.Failure = "no limit could be confirmed"
		return p.end(0, nil, a)
	}
	return p.end(limit, runs[len(runs)-p.confirmations:], a)
}

// try makes the next trial, and again while noise may have failed it. A limit
// that the way itself gives up on takes none.
func (p *peer) try(ctx context.Context, s stage, limit int64) (record, error) {
	chosen, err := p.chosen(p.way, limit)
	if errors.Is(err, ways.ErrUnfit) {
		return record{Verdict: "refused"}, nil
	}
	if err != nil {
		return record{}, err
	}
	return p.tryChosen(ctx, s, limit, chosen)
}

// tryChosen is try with what was chosen, which is made where it is gone.
func (p *peer) tryChosen(ctx context.Context, s stage, limit int64, chosen record) (record, error) {
	if err := p.remake(ctx, chosen); err != nil {
		return record{}, err
	}
	for repeat := 0; ; repeat++ {
		p.number++
		r, err := p.trial(ctx, chosen.attempt(s, p.number, limit, p.slo))
		if err != nil || !r.Narrow || repeat == maxNarrow {
			return r, err
		}
	}
}

// chosen is what a way chooses for a limit. The error wraps ways.ErrUnfit where it gives up.
func (m *measurer) chosen(w ways.Way, limit int64) (record, error) {
	options, err := w.Options(ways.Container{JDK: m.shape.jdk, MemoryBytes: limit, CPUs: m.shape.cpus, Classes: m.classes})
	r := record{key: key{Way: w.Name}, LimitBytes: limit, Options: options}
	if err != nil || !w.Archive {
		return r, err
	}
	r.Options = append(r.Options, m.archiveOption("app"))
	if jar := m.app.Jars(applications.Place{JDK: m.shape.jdk, Cache: m.cache})[0]; bootjar.Nested(jar) {
		r.Jar = filepath.Join(m.archives(), "extracted", filepath.Base(jar))
	}
	return r, nil
}

// archives is the folder of the cell's class archives and extracted jars.
func (m *measurer) archives() string {
	return filepath.Join(m.cache, "archives", "bench-peers", m.app.Name+"-"+m.shape.name)
}

// archiveOption uses a class archive of the cell.
func (m *measurer) archiveOption(name string) string {
	if m.shape.jdk == "25" {
		return "-XX:AOTCache=" + filepath.Join(m.archives(), name+".aot")
	}
	return "-XX:SharedArchiveFile=" + filepath.Join(m.archives(), name+".jsa")
}

// end keeps what was found. The record of the median confirmation tells how it
// goes there.
func (p *peer) end(limit int64, runs []record, a answer) (*record, error) {
	a.SLO = p.slo
	r := p.ended(p.way.Name, answering)
	r.LimitBytes, r.Answer = limit, &a
	if len(runs) > 0 {
		slices.SortFunc(runs, func(a, b record) int { return cmp.Compare(a.Throughput, b.Throughput) })
		middle := runs[len(runs)/2]
		r.Options, r.Jar, r.PeakBytes, r.NeededBytes, r.Rows = middle.Options, middle.Jar, middle.PeakBytes, middle.NeededBytes, middle.Rows
		a.Throughput, a.Ready = middle.Throughput, middle.Ready
	}
	for n := 1; n <= p.number; n++ {
		for _, s := range []stage{searching, confirming} {
			r.Took += p.done[key{p.cell, p.way.Name, s, n, p.plan}].Took
		}
	}
	return &r, p.keep(r)
}

// ended is the record of a search that ends now.
func (m *measurer) ended(way string, s stage) record {
	return record{key: key{cell: m.cell, Way: way, Stage: s}, JDK: m.java.Version, Machine: runner.ThisMachine(), Time: time.Now().UTC().Truncate(time.Second)}
}

// measureWarm loads a way at its limit once it is warm.
func (m *measurer) measureWarm(ctx context.Context, found record) error {
	for n := range m.warm {
		a := found.attempt(warming, n+1, found.LimitBytes, noErrors)
		a.warmup = m.warmup
		if _, err := m.trial(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
