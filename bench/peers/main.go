// Command peers measures how little memory applications get by on with what tare
// fit recommends, and with the options that others choose: each with the same
// search, load and objective. What was measured is kept after each trial, so
// that a run that was cut off goes on where it stopped.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/bench/applications"
	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/results"
)

// rawFile has the trials that the reports were made of, as a fresh clone has them.
const rawFile = "docs/results/raw/peers.jsonl" + records.Packed

// usualLoad is the load of a trial that the report without a time in its name
// is of.
const usualLoad = 10 * time.Second

// usualFlags are those of make bench-peers without PEERS.
const usualFlags = "-proof 20 -grid"

// usualConfirmations are those of a limit that was found.
const usualConfirmations = 3

type bench struct {
	cache         string
	apps          []applications.Application
	shapes        []shape
	ways, all     []ways.Way
	tare          bool // it comes last
	state, packed string
	load          time.Duration
	warmup        time.Duration
	share         float64
	confirmations int
	warm          int
	pairs         int
	proof         int
	fresh         int
	hand          bool
	grid          bool
	// readAhead is that of the cache's disk, in KiB.
	readAhead int64
	// plan tells trials apart that do not compare.
	plan   string
	runner runner.Runner
	done   map[key]record
	kept   *records.File // open while it measures
	log    io.Writer
}

func main() {
	b := &bench{log: os.Stderr}
	flag.StringVar(&b.cache, "cache", os.Getenv("TARE_CACHE"), "folder that holds jdks, jars and services")
	apps := flag.String("apps", strings.Join(appNames(measured), ","), "applications, in this order")
	shapes := flag.String("shapes", strings.Join(shapeNames(allShapes), ","), "JDKs and processors, in this order: 25x1 is JDK 25 on one, 8s72 is JDK 8 that sees 72")
	names := flag.String("ways", strings.Join(append(ways.Names(allWays("")), wayTare), ","), "ways to choose the options")
	short := flag.Bool("short", false, "only the first applications (sysinfo, WireMock, Camel), on one processor")
	flag.StringVar(&b.packed, "packed", rawFile, "trials that the reports are of, packed")
	flag.StringVar(&b.state, "state", "", "trials that were made since, which a report that is written moves to the packed ones (default: banks/peers.jsonl in the cache)")
	flag.DurationVar(&b.load, "load", usualLoad, "load of a trial, from readiness on; the report's name tells another one")
	flag.DurationVar(&b.warmup, "warmup", 20*time.Second, "load before the load of a warm trial")
	flag.Float64Var(&b.share, "share", 0.6, "what must be kept of the throughput that the defaults have with ample memory; where runs of the same differ less, tare fit's own 0.9 can be asked")
	flag.IntVar(&b.confirmations, "confirmations", usualConfirmations, "fresh runs that must pass at a limit that was found")
	flag.IntVar(&b.warm, "warm", 2, "warm trials at each limit")
	flag.IntVar(&b.pairs, "pairs", 5, "trials at tare's limit, each beside one at the best other's")
	flag.IntVar(&b.proof, "proof", 0, "fresh runs at tare's limit, as many there with half the processors, and as many at 0.9 of it")
	flag.IntVar(&b.fresh, "fresh", 0, "fresh runs that all must pass at the limits that are compared at equal robustness; such a report is one of its own, for all of it is measured anew")
	flag.BoolVar(&b.hand, "hand", false, "search by hand too: a beam search over ten levers, an hour or more for each application")
	flag.BoolVar(&b.grid, "grid", false, "tare's options at every limit of a grid of 2 %")
	list := flag.Bool("list", false, "say what is still to be measured, and end")
	write := flag.Bool("write", true, "write docs/results/peers.md, or with another load peers-LOAD.md, with -fresh peers-fresh.md")
	flag.Parse()
	b.state = cmp.Or(b.state, filepath.Join(b.cache, "banks", "peers.jsonl"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *short {
		*apps, *shapes = "sysinfo,WireMock,Camel", "25x1,17x1"
	}
	if err := b.run(ctx, *apps, *shapes, *names, *list, *write); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, apps, shapes, names string, list, write bool) error {
	clean, err := b.prepare(apps, shapes, names)
	if err != nil {
		return err
	}
	defer clean()
	if list {
		if err := b.readState(); err != nil {
			return err
		}
		return b.list(os.Stdout)
	}
	if err := b.openState(); err != nil {
		return err
	}
	defer b.kept.Close()
	for _, c := range b.cells() {
		if err := b.measureCell(ctx, c); err != nil {
			return fmt.Errorf("%s on %s: %w", c.App, b.shape(c), err)
		}
	}
	text := b.whole().text()
	fmt.Print(text)
	if !write {
		return nil
	}
	if err := b.pack(); err != nil {
		return err
	}
	name, title, command := b.report()
	return results.Write(name, title, command, text)
}

// report is the report's name and title, and the command that makes it.
func (b *bench) report() (name, title, command string) {
	name, title = "peers", "How little memory, against other ways to choose the options"
	var flags []string
	if b.load != usualLoad {
		name += "-" + b.load.String()
		title += fmt.Sprintf(", under a load of %s", b.load)
		flags = append(flags, fmt.Sprintf("-load %s", b.load))
	}
	if b.fresh > 0 {
		name += "-fresh"
		title += ", at equal robustness"
		flags = append(flags, fmt.Sprintf("-fresh %d", b.fresh))
	}
	if b.confirmations != usualConfirmations {
		flags = append(flags, fmt.Sprintf("-confirmations %d", b.confirmations))
	}
	if b.proof > 0 {
		flags = append(flags, fmt.Sprintf("-proof %d", b.proof))
	}
	if b.hand {
		flags = append(flags, "-hand")
	}
	if b.grid {
		flags = append(flags, "-grid")
	}
	command = "make bench-peers"
	if given := strings.Join(flags, " "); given != usualFlags {
		command += fmt.Sprintf(" PEERS='%s'", given)
	}
	return name, title, command
}

// prepare checks the flags. clean removes what it unpacked.
func (b *bench) prepare(apps, shapes, names string) (clean func(), err error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	script, clean, err := ways.Unpack(b.cache)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.choose(script, apps, shapes, names), b.openRunner()); err != nil {
		clean()
		return nil, err
	}
	return clean, nil
}

func (b *bench) check() error {
	if b.confirmations < 1 || b.load <= 0 || !(b.share > 0 && b.share <= 1) || b.warmup < 0 || b.warm < 0 || b.pairs < 0 || b.proof < 0 || b.fresh < 0 {
		return errors.New("give one confirmation or more, a load, a share up to 1, and no negative number")
	}
	b.readAhead = runner.ReadAhead(filepath.Join(b.cache, "jdks")) >> 10
	b.plan = fmt.Sprintf("%s closed loop of %d, ample %d MiB, %g of the throughput, read-ahead %d KiB", b.load, concurrency, ampleBytes/mib, b.share, b.readAhead)
	if b.fresh > 0 {
		b.plan += fmt.Sprintf(", %d fresh runs", b.fresh)
	}
	return nil
}

// choose picks what is to be measured. The report shows whatever was, now and
// before.
func (b *bench) choose(script, apps, shapes, names string) error {
	b.all = allWays(script)
	var errs [3]error
	b.apps, errs[0] = pick(measured, apps, func(a applications.Application) string { return a.Name })
	b.shapes, errs[1] = pick(allShapes, shapes, func(s shape) string { return s.name })
	asked := strings.Split(names, ",")
	b.tare = slices.Contains(asked, wayTare)
	b.ways, errs[2] = ways.Named(b.all, slices.DeleteFunc(asked, func(name string) bool { return name == wayTare }))
	return errors.Join(errs[:]...)
}

// allWays are all of the others. script is that of ways.All.
func allWays(script string) []ways.Way { return append(ways.All(script), ways.More()...) }

// whole is for the report of all applications, shapes and ways.
func (b *bench) whole() *bench {
	w := *b
	w.apps, w.shapes, w.ways = measured, allShapes, b.all
	return &w
}

func (b *bench) openRunner() (err error) {
	if b.runner, err = runner.NewCgroup(runner.CgroupOptions{}); err != nil {
		return err
	}
	_, err = b.runner.Sweep(context.Background())
	return err
}

// pick returns those of all that are named in a list, in the list's order.
func pick[T any](all []T, list string, name func(T) string) ([]T, error) {
	var out []T
	for want := range strings.SplitSeq(list, ",") {
		found := false
		for _, v := range all {
			if strings.EqualFold(name(v), want) {
				out, found = append(out, v), true
			}
		}
		if !found {
			var names []string
			for _, v := range all {
				names = append(names, name(v))
			}
			return nil, fmt.Errorf("%q: give some of %s", want, strings.Join(names, ","))
		}
	}
	return out, nil
}

// measureCell measures all ways for one application on one JDK: the others
// first, for the objective comes from the JVM's defaults, and tare's limit is
// judged by theirs.
func (b *bench) measureCell(ctx context.Context, c cell) error {
	m, err := b.newMeasurer(ctx, c)
	if err != nil {
		return err
	}
	for _, w := range b.ways {
		if err := m.measurePeer(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	if !b.tare {
		return nil
	}
	if err := m.measureTare(ctx); err != nil {
		return fmt.Errorf("%s: %w", wayTare, err)
	}
	if err := m.measureHand(ctx); err != nil {
		return fmt.Errorf("%s: %w", wayHand, err)
	}
	return m.measureFresh(ctx)
}

// list says which cells are whole.
func (b *bench) list(w io.Writer) error {
	for _, c := range b.cells() {
		state := "measured"
		if missing := b.missing(c, append(ways.Names(b.ways), wayTare)); len(missing) > 0 {
			state = "missing: " + strings.Join(missing, ", ")
		}
		if _, err := fmt.Fprintf(w, "%-9s %-27s %s\n", c.App, b.shape(c), state); err != nil {
			return err
		}
	}
	return nil
}
