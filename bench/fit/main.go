// Command fit measures how steady the answers of tare fit are. It records real trials of
// services into banks, and replays the search on them many times: each replay is
// deterministic by its seed, so that a change of the search is measured by the same
// commands before and after.
//
//	go run ./bench/fit -record -cells sysinfo-25-1,shop-25-1 -for 2h
//	go run ./bench/fit -replay 1000
//	go run ./bench/fit -cells sysinfo-25-1 -prefer throughput
//	go run ./bench/fit -cells sysinfo-25-1 -trace 17
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/neighbour"
	"tare.dev/tare/internal/testkit/results"
)

type bench struct {
	cache, dir, packed string
	cells              []cell
	record, page       bool
	prefer             fit.Prefer
	fits, replays      int
	trace              uint64
	nodes              int
	length             time.Duration
	port               int
	out                io.Writer
}

// allCells are those of the figure, in the order in which they are recorded.
var allCells = cellsOf([]string{"sysinfo", "shop", "wiremock", "camel", "keycloak"}, []string{"25", "17"})

func cellsOf(names, jdks []string) []cell {
	var out []cell
	for _, jdk := range jdks {
		for _, s := range names {
			out = append(out, cell{s, jdk, 1, false}, cell{s, jdk, 1, true}, cell{s, jdk, 0.5, false})
		}
	}
	return out
}

func main() {
	if neighbour.Main() {
		return
	}
	b := bench{out: os.Stdout}
	flag.StringVar(&b.cache, "cache", os.Getenv("TARE_CACHE"), "folder that holds jdks and services")
	flag.StringVar(&b.dir, "banks", "", "folder of the banks that are recorded (default: banks in the cache)")
	flag.StringVar(&b.packed, "packed", "docs/results/raw", "folder of packed banks: read where there is no other of the cell, and written by -page")
	names := flag.String("cells", "", "cells such as sysinfo-25-1,shop-17-0.5,sysinfo-25-1-noisy (default: all)")
	flag.BoolVar(&b.record, "record", false, "make real trials, and keep them in the banks")
	flag.DurationVar(&b.length, "for", time.Hour, "how long to record; it ends with the trial under way")
	flag.IntVar(&b.fits, "fits", 3, "real fits of each cell, before other trials are recorded")
	flag.IntVar(&b.replays, "replay", 1000, "searches to replay on each bank")
	flag.Uint64Var(&b.trace, "trace", 0, "show the steps of the replay with this seed instead")
	prefer := flag.String("prefer", string(fit.PreferMemory), "memory, balanced or throughput: what the replayed searches prefer, and with -record those that say which trials are made")
	flag.IntVar(&b.nodes, "nodes", 1, "on how many nodes the search of -trace runs")
	flag.BoolVar(&b.page, "page", false, "write docs/results/steady.md, and the banks that it is of, packed")
	flag.IntVar(&b.port, "port", 18670, "port of the service")
	flag.Parse()
	b.cells = allCells
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := errors.Join(b.parseCells(*names), b.parsePrefer(*prefer), b.locate()); err != nil {
		exit(err)
	}
	if err := b.run(ctx); err != nil {
		exit(err)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func (b *bench) parseCells(names string) error {
	if names == "" {
		return nil
	}
	b.cells = nil
	for name := range strings.SplitSeq(names, ",") {
		c, err := parseCell(name)
		if err != nil {
			return err
		}
		b.cells = append(b.cells, c)
	}
	return nil
}

func (b *bench) parsePrefer(text string) (err error) {
	b.prefer, err = fit.ParsePrefer(text)
	if err == nil && b.page && b.prefer != fit.PreferMemory {
		err = errors.New("-page is of searches that prefer memory")
	}
	return err
}

func (b *bench) locate() error {
	if b.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		b.cache = filepath.Join(base, "tare")
	}
	b.dir = cmp.Or(b.dir, filepath.Join(b.cache, "banks"))
	return nil
}

func (b bench) run(ctx context.Context) error {
	if b.record {
		return b.recordAll(ctx)
	}
	if b.trace > 0 {
		return b.traceAll()
	}
	var all []figures
	for _, c := range b.cells {
		r, err := b.open(c)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		begin := time.Now()
		f, err := figuresOf(r, b.replays)
		if err == nil {
			err = f.replayOnNodes(r, b.replays, mostNodes)
		}
		if err != nil {
			return err
		}
		if b.page {
			if f.preferences, err = preferencesOf(r, b.replays); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %d searches in %s\n", c, b.replays, time.Since(begin).Round(10*time.Millisecond))
		all = append(all, f)
	}
	if len(all) == 0 {
		return fmt.Errorf("no bank in %s or %s: record one with -record", b.dir, b.packed)
	}
	text := pageOf(all)
	fmt.Fprint(b.out, text)
	if !b.page {
		return nil
	}
	for _, f := range all {
		if from, _ := b.bankOf(f.cell); from != b.packedOf(f.cell) {
			if err := records.Pack(b.packedOf(f.cell), from); err != nil {
				return err
			}
		}
	}
	return results.Write("steady", "How steady the answers of a fit are", "make bench-fit", text)
}

// bankOf is the file of a cell's bank: the one that is recorded here, or else the packed one.
func (b bench) bankOf(c cell) (string, error) {
	recorded := filepath.Join(b.dir, c.String()+bankSuffix)
	if _, err := os.Stat(recorded); err == nil {
		return recorded, nil
	}
	_, err := os.Stat(b.packedOf(c))
	return b.packedOf(c), err
}

func (b bench) packedOf(c cell) string {
	return filepath.Join(b.packed, "bank-"+c.String()+packedSuffix)
}

// open reads the bank of a cell.
func (b bench) open(c cell) (*replayed, error) {
	name, err := b.bankOf(c)
	if err != nil {
		return nil, err
	}
	bank, err := readBank(name)
	if err != nil {
		return nil, err
	}
	r, err := newReplayed(bank)
	if err == nil {
		r.prefer = b.prefer
	}
	return r, err
}

// traceAll shows the steps of one replay of each cell.
func (b bench) traceAll() error {
	for _, c := range b.cells {
		r, err := b.open(c)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		rep, err := r.runOn(b.nodes, b.trace, func(e fit.Event) {
			if o := e.Outcome; o != nil {
				fmt.Fprintf(b.out, "  %s: %s\n", e.Attempt, outcomeText(o))
			}
			if e.Note != "" {
				fmt.Fprintf(b.out, "  %s\n", e.Note)
			}
		}, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%s, seed %d: %d MiB (as given %d), %d trials and %d of proof in %s, %.0f %% modelled %s\n", c, b.trace, rep.LimitBytes/mib, rep.AsGivenBytes/mib,
			rep.Search, rep.Proof, rep.wall.Round(time.Second), 100*rep.modelled, rep.Failure)
		if rep.need != nil {
			for _, part := range parts {
				fmt.Fprintf(b.out, "  %s %.1f\n", part.name, part.of(rep))
			}
		}
	}
	return nil
}

// outcomeText tells of a trial what the search looks at.
func outcomeText(o *fit.Outcome) string {
	text := string(o.Verdict)
	if o.SlowElsewhere {
		text += " elsewhere"
	}
	text += fmt.Sprintf(", needed %d MiB, cache %d MiB", o.NeededBytes/mib, o.CacheBytes/mib)
	if cost, measured := o.Result.AnswerCost(); measured {
		text += fmt.Sprintf(", %.0f/s at %.2f ms of processor time", o.Throughput, cost.Seconds()*1000)
	}
	if len(o.Result.Evidence) > 0 {
		text += "\n    " + strings.Join(o.Result.Evidence, "; ")
	}
	return text
}

// recordedEach is how many trials are recorded of one cell before the next.
const recordedEach = 8

// recordAll records in rounds, so that a machine that changes changes all cells.
func (b bench) recordAll(ctx context.Context) error {
	run, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return err
	}
	note := func(format string, a ...any) {
		fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), fmt.Sprintf(format, a...))
	}
	var all []*recorder
	for _, c := range b.cells {
		r, err := openRecorder(ctx, c, b.cache, b.dir, b.port, run, note)
		if err != nil {
			return err
		}
		defer r.close()
		all = append(all, r)
	}
	end := time.Now().Add(b.length)
	for time.Now().Before(end) {
		for _, r := range all {
			if err := r.round(ctx, end, b.fits, b.prefer); err != nil {
				return err
			}
		}
	}
	return nil
}

// round makes a fit of a cell that has not enough of them, then some other trials, of those that
// searches with a preference ask for.
func (r *recorder) round(ctx context.Context, end time.Time, fits int, prefer fit.Prefer) error {
	if time.Now().Before(end) && len(r.answers) < fits {
		if err := r.fitOnce(ctx); err != nil {
			return err
		}
	}
	for range recordedEach {
		if !time.Now().Before(end) {
			return nil
		}
		bank, err := newReplayed(r.bank)
		if err != nil {
			return err
		}
		bank.prefer = prefer
		w, err := bank.next(rand.New(rand.NewPCG(uint64(len(r.trials)), 1)))
		if err != nil {
			return err
		}
		if err := r.trialOf(ctx, w); err != nil {
			return err
		}
	}
	return nil
}
