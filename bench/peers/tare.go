package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tare.dev/tare/bench/applications"
	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

const wayTare = "tare"

// fitted is the part of schema tare.fit/1 that is looked at.
type fitted struct {
	Error        *string
	TookSeconds  float64
	LimitBytes   int64
	Options, Env []string
	// MarginBytes is the part of LimitBytes that was added for safety.
	MarginBytes int64
	// Jar stands in for the command's, where nested jars were extracted.
	Jar    string
	JDK    string
	Trials []fittedTrial
	// Recommended is the confirmation of median throughput.
	Recommended struct {
		PeakBytes, NeededBytes  int64
		Throughput, ReadyMillis float64
	}
	Footprint struct {
		Rows []struct {
			Owner         string
			ResidentBytes int64
		}
	}
}

// fittedTrial is one of its trials.
type fittedTrial struct{ Phase fit.Phase }

// measureTare asks tare fit, and then measures what it recommends: warm, again
// and again, and on a grid.
func (m *measurer) measureTare(ctx context.Context) error {
	slo, err := m.slo(ctx)
	if err != nil {
		return err
	}
	found := m.found(m.cell, wayTare)
	if found == nil {
		if found, err = m.fit(ctx, slo); err != nil {
			return err
		}
	}
	if !m.lacks(*found) {
		return nil
	}
	if err := m.remake(ctx, *found); err != nil {
		return err
	}
	if err := m.measureWarm(ctx, *found); err != nil {
		return err
	}
	if err := m.measurePairs(ctx, *found); err != nil {
		return err
	}
	for n := range m.proof {
		for _, s := range m.proofStages() {
			limit := found.LimitBytes
			if s == below {
				limit = limit * 9 / 10 / mib * mib
			}
			if _, err := m.again(ctx, *found, s, proving, n+1, limit); err != nil {
				return err
			}
		}
	}
	if m.grid {
		return m.measureGrid(ctx, *found)
	}
	return nil
}

// proofStages are the runs of a proof, which are made in turn. A cell without a quota has no
// half of it.
func (m *measurer) proofStages() []stage {
	if m.shape.cpus == 0 {
		return []stage{proving, below}
	}
	return []stage{proving, halved, below}
}

// measurePairs makes trials with what was found and with the best other's, each at
// its limit, in turn: the machine's speed differs from hour to hour, and only what
// was made side by side compares.
func (m *measurer) measurePairs(ctx context.Context, found record) error {
	best := m.whole().best(m.cell)
	if best == nil {
		return nil
	}
	for n := range m.pairs {
		pair := []record{found, *best}
		if n%2 == 1 {
			slices.Reverse(pair)
		}
		for _, r := range pair {
			if _, err := m.trial(ctx, r.attempt(pairing, n+1, r.LimitBytes, noErrors)); err != nil {
				return err
			}
		}
	}
	return nil
}

// paceEvery is how many trials are judged by the same baselines beside them.
const paceEvery = 5

// again makes the n-th trial of a stage with what was found, judged by baselines beside
// those of a stage, for a machine's own speed differs from hour to hour.
func (m *measurer) again(ctx context.Context, found record, s, paces stage, n int, limit int64) (record, error) {
	slo, err := m.objective(ctx, paces+beside, (n-1)/paceEvery*baselines, s.processors()*m.share)
	if err != nil {
		return record{}, err
	}
	return m.trial(ctx, found.attempt(s, n, limit, slo))
}

// lacks says that trials of what was found are still to be made.
func (m *measurer) lacks(found record) bool {
	short := func(s stage, wanted int) bool { return len(m.of(m.cell, wayTare, s)) < wanted }
	return found.Answer.Failure == "" && (short(warming, m.warm) || short(pairing, m.pairs) || m.grid && !m.gridded(found) ||
		slices.ContainsFunc(m.proofStages(), func(s stage) bool { return short(s, m.proof) }))
}

// remake makes what the options need and another machine had: the extracted jars,
// and the class archive, in a training run such as tare fit's with the options that
// come before it.
func (m *measurer) remake(ctx context.Context, found record) error {
	if gone(found.Jar) {
		jars := m.app.Jars(applications.Place{JDK: m.shape.jdk, Cache: m.cache})
		if _, err := bootjar.Extract(jars[0], filepath.Dir(found.Jar)); err != nil {
			return err
		}
	}
	for i, o := range found.Options {
		if train, file, ok := fit.TrainingOf(o); ok && gone(file) {
			return m.train(ctx, found, append(slices.Clone(found.Options[:i]), train), file)
		}
	}
	return nil
}

// gone says that a file is named, and not there.
func gone(file string) bool {
	_, err := os.Stat(file)
	return file != "" && err != nil
}

func (m *measurer) train(ctx context.Context, found record, options []string, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	a := found.attempt(training, 1, ampleBytes, noErrors)
	a.options = options
	spec, err := m.spec(a)
	if err != nil {
		return err
	}
	spec.StopGrace = fit.TrainGrace
	res, err := trial.Run(ctx, m.runner, spec)
	if err != nil {
		return err
	}
	if gone(file) {
		return fmt.Errorf("%w: the training run was %s", fit.ErrNoArchive, res.Verdict)
	}
	return m.runner.Flush(ctx, file)
}

// gridOf are the limits to be tried with what was found, from that of the
// defaults on.
func (m *measurer) gridOf(found record) []int64 {
	high := found.LimitBytes * 3 / 2
	if d := m.found(m.cell, ways.Defaults); d != nil {
		high = max(high, d.LimitBytes)
	}
	return gridLimits(high, int64(gridLow*float64(found.LimitBytes)))
}

// gridded says that the last of them was tried.
func (m *measurer) gridded(found record) bool {
	trials, limits := m.of(m.cell, wayTare, gridding), m.gridOf(found)
	return len(trials) > 0 && trials[len(trials)-1].LimitBytes == limits[len(limits)-1]
}

// gridLow is the share of tare's limit that the grid ends at: far below what
// passes.
const gridLow = 0.8

// measureGrid tries tare's options at every limit from that of the defaults on.
func (m *measurer) measureGrid(ctx context.Context, found record) error {
	number := 0
	for _, limit := range m.gridOf(found) {
		for repeat := 0; repeat <= maxNarrow; repeat++ {
			number++
			r, err := m.again(ctx, found, gridding, gridding, number, limit)
			if err != nil {
				return err
			}
			if !r.Narrow {
				break
			}
		}
	}
	return nil
}

// fit runs tare fit; one that was cut off goes on.
func (m *measurer) fit(ctx context.Context, slo string) (*record, error) {
	dir := filepath.Join("bin", "peers") // it is out of version control
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	store := filepath.Join(dir, fmt.Sprintf("%s-%s-%08x.db", m.cell.App, m.cell.Shape, sum(m.plan)))
	args := []string{"fit", "--resume", "--json", "--store", store, "1"}
	if _, err := os.Stat(store); err == nil {
		if f, err := m.runFit(ctx, args); err == nil || ctx.Err() != nil {
			return m.keepFit(f, slo, err, store)
		}
		fmt.Fprintln(m.log, "the stored fit cannot go on: a new one begins")
	}
	if err := removeStore(store); err != nil {
		return nil, err
	}
	f, err := m.runFit(ctx, m.fitArgs(store))
	return m.keepFit(f, slo, err, store)
}

// fitArgs is tare fit as its user would call it, with the objective that the
// others are measured with. The port is the same each time,
// so that it can go on. MALLOC_ARENA_MAX, where it stands for processors that are
// not there, is left out: tare takes it for the user's own and leaves it alone.
func (m *measurer) fitArgs(store string) []string {
	port := firstPort + 2*int(sum(m.cell.App+m.cell.Shape)%portPairs)
	p := applications.Place{JDK: m.shape.jdk, Cache: m.cache, Port: port, Second: port + 1}
	args := []string{"fit", "--json", "--store", store, "--slo", fmt.Sprintf("%s throughput>=%gx", noErrors, m.share), "--ample", strconv.Itoa(ampleBytes/mib) + "m",
		"--concurrency", strconv.Itoa(concurrency), "--warmup", "0s", "--duration", m.load.String(), "--ready-timeout", readyTimeout.String(),
		"--ready", m.app.ReadyURL(p)}
	if m.shape.cpus > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(m.shape.cpus, 'g', -1, 64))
	}
	for _, u := range m.app.LoadURLs(p) {
		args = append(args, "--load", u)
	}
	return slices.Concat(args, []string{"--", m.java.Path}, m.shape.options(), m.app.Command(p))
}

const (
	firstPort = 20_000
	portPairs = 1_000
)

func sum(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

// noLimit is tare fit's exit code where it found that there is no answer.
const noLimit = 6

// runFit returns what tare fit found, also where that is nothing.
func (m *measurer) runFit(ctx context.Context, args []string) (*fitted, error) {
	cmd := exec.CommandContext(ctx, "bin/tare", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it clears up
	cmd.WaitDelay = time.Minute
	cmd.Stderr = m.log
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == noLimit {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("tare %q: %w", args, err)
	}
	f := &fitted{}
	if err := json.Unmarshal(out, f); err != nil {
		return nil, fmt.Errorf("tare %q: %w", args, err)
	}
	return f, nil
}

// keepFit keeps what tare fit found, and then its own store is of no use.
func (m *measurer) keepFit(f *fitted, slo string, err error, store string) (*record, error) {
	if err != nil {
		return nil, err
	}
	r := f.record(slo)
	r.key = key{cell: m.cell, Way: wayTare, Stage: answering}
	r.Machine, r.Time = runner.ThisMachine(), time.Now().UTC().Truncate(time.Second)
	if err := m.keep(r); err != nil {
		return nil, err
	}
	return &r, removeStore(store)
}

func (f *fitted) record(slo string) record {
	a := &answer{SLO: slo, MarginBytes: f.MarginBytes, Throughput: f.Recommended.Throughput, Ready: f.Recommended.ReadyMillis / 1000}
	if f.Error != nil {
		a.Failure = *f.Error
	}
	proof := slices.IndexFunc(f.Trials, func(t fittedTrial) bool { return t.Phase == fit.PhaseConfirm || t.Phase == fit.PhaseLong })
	if a.Trials = proof; proof < 0 {
		a.Trials = len(f.Trials)
	}
	for _, t := range f.Trials {
		if t.Phase == fit.PhaseConfirm {
			a.Confirmations++
		}
	}
	r := record{JDK: f.JDK, Took: f.TookSeconds, LimitBytes: f.LimitBytes, Options: f.Options, Env: f.Env, Jar: f.Jar,
		PeakBytes: f.Recommended.PeakBytes, NeededBytes: f.Recommended.NeededBytes, Answer: a, Rows: map[string]int64{}}
	for _, row := range f.Footprint.Rows {
		r.Rows[row.Owner] = row.ResidentBytes
	}
	return r
}

// removeStore removes a store and what SQLite has beside it.
func removeStore(store string) error {
	files, err := filepath.Glob(store + "*")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
