package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/testkit/results"
)

// The goals.
const (
	settledGoal = 0.01
	peakGoal    = 0.05
	// dullest is the widest interval of a score, as a share of it, that can
	// tell whether the profilers change it.
	dullest = 0.2
)

// The forks that tell what the profilers cost are many and short: a machine that
// does other things too is faster at one time than at another.
const (
	costForks = 15
	costEach  = 3 * time.Second
)

// steady are the metrics whose variation is shown, with the goal of each, 0 of
// none.
var steady = []struct {
	metric string
	goal   float64
}{
	{"mem.retained", settledGoal}, {"mem.heap.live", settledGoal}, {"mem.heap.settled", settledGoal}, {"mem.used.settled", settledGoal},
	{"mem.used.fin", 0}, {"mem.peak.used", 0}, {"mem.committed.settled", 0}, {"mem.peak.committed", 0},
	{"proc.rss.peak", peakGoal}, {"proc.hwm", peakGoal}, {"mem.alloc.norm", 0}, {jmh.Score, 0},
}

func (b bench) profilers(ctx context.Context) (string, error) {
	truth, err := b.truth(ctx)
	if err != nil {
		return "", err
	}
	whole, err := b.steadiness(ctx)
	if err != nil {
		return "", err
	}
	paired := b
	paired.forks, paired.warmups, paired.iterations, paired.each = costForks, 1, 3, costEach
	with, without, err := paired.withAndWithout(ctx)
	if err != nil {
		return "", err
	}
	return truth + variationText(whole, b.setup()) + costText(with, without, paired.setup()), nil
}

// truth has the Java test measure what a benchmark is known to hold.
func (b bench) truth(ctx context.Context) (string, error) {
	file, err := filepath.Abs(filepath.Join(b.runs, "truth.md"))
	if err != nil {
		return "", err
	}
	rows, err := os.ReadFile(file)
	if err != nil {
		if err := os.MkdirAll(b.runs, 0o755); err != nil {
			return "", err
		}
		fmt.Fprintln(os.Stderr, "bench: known truth")
		part := file + ".part"
		cmd := exec.CommandContext(ctx, "mvn", "-B", "-ntp", "-q", "-f", "java/pom.xml", "-pl", "libraries/memory,libraries/jmh", "verify", "-Dtest=KnownTruthTest",
			"-Dsurefire.failIfNoSpecifiedTests=false", "-DfailIfNoTests=false", "-Dtare.truth.all=true", "-Dtare.truth.out="+part)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.Env = append(os.Environ(), "TARE_CACHE="+b.cache)
		failed := cmd.Run() // a missed goal fails the test, and is a result
		if rows, err = os.ReadFile(part); err != nil || len(rows) == 0 {
			return "", fmt.Errorf("the known truth was not measured: %w", failed)
		}
		if failed == nil {
			err = os.Rename(part, file)
		}
		if err != nil {
			return "", err
		}
	}
	return truthText(string(rows)), nil
}

func truthText(rows string) string {
	const jvms = 26
	var out bytes.Buffer
	fmt.Fprintf(&out, "## Known truth\n\nA benchmark that holds 300 MiB, and 40 MiB more across a collection; one run on each JVM, -Xmx768m, with ZGC -Xmx1g."+
		" Retained is beside the 300 MiB; the peak in use after a collection beside the live heap by histogram, and the 40 MiB. Goal: retained within 0.5 %%,"+
		" the peak within 2 %% or what is open of regions: with ZGC a medium page, and small ones by processor.\n\n%s%s\n",
		table("JDK", "collector", "retained off by", "peak off by", "", "open"), rows)
	retained, peak, missed := 0.0, 0.0, 0
	for line := range strings.Lines(rows) {
		var c [6]string
		copy(c[:], strings.Split(strings.Trim(line, "| \n"), " | "))
		r, p, extra, region := percent(c[2]), percent(c[3]), number(c[4]), number(c[5])
		retained = math.Max(retained, math.Abs(r))
		if !strings.HasPrefix(c[1], "Z") {
			peak = math.Max(peak, math.Abs(p))
		}
		if !(math.Abs(r) <= 0.5) || !(math.Abs(p) <= 2 || math.Abs(extra) <= region) {
			missed++
		}
	}
	n := strings.Count(rows, "\n")
	fmt.Fprintf(&out, "On %d of %d JVMs. Largest error: retained %.3f %%, the peak %.2f %% but for ZGC, whose pages count whole. The goal: %s", n, jvms, retained, peak,
		results.Reached(missed == 0 && n == jvms))
	if missed > 0 {
		fmt.Fprintf(&out, ", missed on %d", missed)
	}
	out.WriteString(".\n\n")
	return out.String()
}

func percent(cell string) float64 { return number(strings.TrimSuffix(cell, " %")) }

// number is that at the start of a cell; NaN of none.
func number(cell string) float64 {
	var v float64
	if _, err := fmt.Sscan(cell, &v); err != nil {
		return math.NaN()
	}
	return v
}

// subject is the benchmark that is measured, with none of the profilers and with
// all six.
func subject() (none, all []string, err error) {
	tare, err := filepath.Abs("bin/tare")
	if err != nil {
		return nil, nil, err
	}
	none = []string{"ZipfianSequenceLoading", "-t", "1", "-p", "cache=caffeine", "-p", "entries=100000", "-p", "keys=500%"}
	all = slices.Concat(none, profilers, []string{"-prof", "dev.tare.jmh.NativeMemory", "-prof", "dev.tare.jmh.ObjectGraph", "-prof", "dev.tare.jmh.Footprint:tare=" + tare})
	return none, all, nil
}

const (
	subjectJDK     = "21"
	subjectOptions = "-Xmx512m -XX:+UseG1GC -XX:NativeMemoryTracking=summary"
)

// steadiness runs the benchmark with all profilers.
func (b bench) steadiness(ctx context.Context) (jmh.Result, error) {
	_, all, err := subject()
	if err != nil {
		return jmh.Result{}, err
	}
	results, err := b.rounds(ctx, "steady", subjectJDK, subjectOptions, all...)
	if err != nil {
		return jmh.Result{}, err
	}
	return results[0], nil
}

// withAndWithout runs the benchmark with all profilers and with none, in turn,
// so that what else happens on the machine hits both alike.
func (b bench) withAndWithout(ctx context.Context) (with, without jmh.Result, err error) {
	none, all, err := subject()
	if err != nil {
		return with, without, err
	}
	var a, n []jmh.Result
	for fork := range b.forks {
		for _, one := range []struct {
			name string
			args []string
			to   *[]jmh.Result
		}{{"none", none, &n}, {"all", all, &a}} {
			results, err := b.run(ctx, fmt.Sprintf("cost-%s-%d", one.name, fork+1), subjectJDK, subjectOptions, one.args...)
			if err != nil {
				return with, without, err
			}
			*one.to = merge(*one.to, results)
		}
	}
	return a[0], n[0], nil
}

func variationText(r jmh.Result, setup string) string {
	var out bytes.Buffer
	fmt.Fprintf(&out, "## Steadiness\n\nCaffeine with 100 000 entries and 500 000 keys, JDK %s, G1, -Xmx512m, 1 thread; %s. Variation is the standard deviation of the forks' values as a share of their mean;"+
		" the interval is half of 99.9 %%, as a share of the mean.\n\n%s", r.JDK, setup, table("metric", "mean", "variation", "interval of 3 forks", fmt.Sprintf("of %d", len(forks(r, jmh.Score))), "goal"))
	reached := true
	for _, s := range steady {
		values := forks(r, s.metric)
		v := variation(values)
		goal := ""
		if s.goal > 0 {
			goal = fmt.Sprintf("≤ %.0f %%: %s", 100*s.goal, results.Reached(v <= s.goal))
			reached = reached && v <= s.goal
		}
		fmt.Fprintf(&out, "| %s | %s %s | %.2f %% | ± %.1f %% | ± %.1f %% | %s |\n", s.metric, jmh.Quantity(mean(values)), r.Metrics[s.metric].Unit, 100*v,
			100*precision(values, 3), 100*precision(values, len(values)), goal)
	}
	fmt.Fprintf(&out, "\nThe goal, that what has settled varies by 1 %% at most, and the process's peak by 5 %%: %s.\n\n", results.Reached(reached))
	return out.String()
}

func costText(with, without jmh.Result, setup string) string {
	w, o := with.Metrics[jmh.Score].Estimate(), without.Metrics[jmh.Score].Estimate()
	change := w.Center - o.Center
	verdict := results.Reached(math.Abs(change) < o.Margin())
	if !(o.Margin() <= dullest*o.Center) {
		verdict = "not told, the interval is too wide: measure on a machine that does nothing else"
	}
	var ratios []float64
	each := forks(without, jmh.Score)
	for i, score := range forks(with, jmh.Score) {
		ratios = append(ratios, score/each[i])
	}
	return fmt.Sprintf("## Cost\n\nThe same benchmark with none of the profilers and with all six of them, in turn; %s. %s %s %s without, %s %s with: a change of %+.1f %%,"+
		" where the interval of the score without them is ± %.1f %%. With them it is %s of that without (median, least … most of the pairs). The goal, that it changes by less than the interval: %s.\n",
		setup, jmh.Quantity(o.Center), o.Interval(), o.Unit, jmh.Quantity(w.Center), w.Interval(), 100*change/o.Center, 100*o.Margin()/o.Center,
		results.Spread(ratios, "%.3f"), verdict)
}
