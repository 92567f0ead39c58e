package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/bench/applications"
	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
)

// The goals.
const (
	goalShare    = 0.50      // of the best other's limit, over the applications
	goalSeen     = 0.30      // of the defaults' limit, where many processors are seen
	goalRate     = 1.00      // of the best other's throughput, over the applications
	goalTrials   = 12        // before confirming
	goalEqual    = 0.55      // of the best other's limit at equal robustness
	goalCost     = 1.00      // of its processor time for a request
	goalGrid     = 0.03      // from the smallest of the grid
	goalGridTime = 0.25      // of the grid's
	goalBelow    = 0.5       // of the runs at 0.9 of the limit lack memory
	goalFails    = 1.0 / 400 // of the runs at the limit, with all processors and with half, lack memory
	goalCell     = 1         // of those of one cell, with all or with half
)

// text is the report of all that was measured.
func (b *bench) text() string {
	var t strings.Builder
	b.method(&t)
	var missing []string
	for _, s := range b.shapes {
		if b.measured(s) {
			b.shapeText(&t, s)
		} else {
			missing = append(missing, s.String())
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(&t, "\nNot measured yet: %s.\n", strings.Join(missing, "; "))
	}
	b.equalText(&t)
	b.handText(&t)
	b.searchText(&t)
	b.gridText(&t)
	b.proofText(&t)
	b.slopeText(&t)
	b.conditions(&t)
	return t.String()
}

// method says how it was measured.
func (b *bench) method(t *strings.Builder) {
	fmt.Fprintf(t, "An application runs in a control group, and is loaded for %s by a closed loop of %d requests at a time from the moment that it is ready: "+
		"what it serves while it is cold counts. The objective is the same for all: no error, and %g of the throughput that the JVM's defaults have with %d MiB (the "+
		"median of %d runs). For each of the others the smallest limit that passes is found by halving, to 2 %% or 2 MiB, and confirmed by fresh runs (%d), raised by 3 %% "+
		"until all pass; a run that missed by little is made again, twice at most. *Over* a limit is a way that failed at the smallest that another one of them had passed with: it was not searched further. *Refused* is a limit that the way itself has no options for. %s*tare* is `tare fit` with its own defaults and that objective, by its own baselines. "+
		"Its rates are of the median confirming run, as those of the others. *Warm* is the rate at that limit after %s of load, of fresh runs of which nothing is asked "+
		"but no error, and how those that failed ended: a limit found by a shorter load need not hold for a longer one. "+
		"Ways are measured one after the other, and hours apart where one was measured anew; the machine's own speed differs between hours. So the last column compares the rates of trials that were made in turn, with tare's and with the best other's options, each at its limit, and says which of them failed.\n\n",
		b.load, concurrency, b.share, ampleBytes/mib, baselines, b.confirmations, b.noise(), b.warmup)
	for _, a := range b.apps {
		fmt.Fprintf(t, "- **%s**: %s\n", a.Name, a.Is)
	}
	t.WriteString("\n")
	for _, w := range b.ways {
		fmt.Fprintf(t, "- **%s**: %s\n", w.Name, w.Is)
	}
	fmt.Fprintf(t, "\nJDK, jars and class archives lie on a disk that reads ahead %d KiB at a time (the kernel's default is 128; `scripts/usual-disk.sh`).", b.readAhead)
	t.WriteString(" Processors seen are told to the JVM (`-XX:ActiveProcessorCount`) and, for the others, to glibc (`MALLOC_ARENA_MAX`, 8 for each); real parallelism is missing. " +
		"tare takes the first for the user's own and keeps it.\n")
}

// noise says how much the runs of one kind differ, which is why the objective
// asks for no more of the throughput.
func (b *bench) noise() string {
	var spreads []float64
	for _, c := range b.cells() {
		var rates []float64
		for n := range baselines {
			if r, ok := b.done[key{c, ways.Defaults, searching, n + 1, b.plan}]; ok && r.passed() {
				rates = append(rates, r.Throughput)
			}
		}
		if len(rates) == baselines {
			spreads = append(spreads, slices.Max(rates)/slices.Min(rates))
		}
	}
	if len(spreads) == 0 {
		return ""
	}
	return fmt.Sprintf("No more of the throughput is asked because the machine is noisy: of the %d runs with ample memory, one after the other, the fastest was up to %.2f times as fast as the slowest. ",
		baselines, slices.Max(spreads))
}

// measured says that there is something to tell of a shape.
func (b *bench) measured(s shape) bool {
	return slices.ContainsFunc(b.apps, func(a applications.Application) bool { return b.best(cell{a.Name, s.name}) != nil })
}

// judgedBy are the ways that the goals of a shape are about, those that choose options
// alone: where processors are seen that are not there, the defaults are the measure.
func (b *bench) judgedBy(s shape) []string {
	if s.seen > 0 {
		return []string{ways.Defaults, wayTare}
	}
	return append(ways.Names(slices.DeleteFunc(slices.Clone(b.ways), func(w ways.Way) bool { return w.Archive || w.Rule != nil })), wayTare)
}

// shapeText is the table of one JDK, and what the goals make of it.
func (b *bench) shapeText(t *strings.Builder, s shape) {
	fmt.Fprintf(t, "\n## %s\n\n", s)
	t.WriteString("| application | way | smallest limit MiB | of the best other's | req/s | warm req/s | ready s | trials | minutes | req/s beside the best other's |\n|---|---|---|---|---|---|---|---|---|---|\n")
	var all compared
	for _, a := range b.apps {
		c := cell{a.Name, s.name}
		best := b.best(c)
		for _, way := range append(ways.Names(b.ways), wayTare) {
			if r := b.found(c, way); r != nil {
				b.wayText(t, c, *r, best)
			}
		}
		if best != nil {
			b.compare(&all, c, *best)
		}
	}
	if len(all.missing) > 0 {
		fmt.Fprintf(t, "\nNot measured yet: %s. Without them nothing is reached or missed.\n", strings.Join(all.missing, ", "))
		return
	}
	if len(all.shares) == 0 {
		return
	}
	b.goalsText(t, s, all)
	if len(all.short) > 0 {
		t.WriteString("\nWhat holds up the limit where it is more than the goal, MiB resident near the peak:\n\n")
		for _, line := range all.short {
			fmt.Fprintf(t, "- %s\n", line)
		}
	}
}

// compared is what the applications on a shape come to.
type compared struct {
	// shares are tare's limits of the best others', seen of the defaults'.
	shares, seen []float64
	// rates are tare's throughputs of those others', in pairs.
	rates []float64
	// short says what holds up the limits that are above the goal.
	short []string
	// missing names the ways without which the goals are not judged.
	missing []string
}

// compare adds an application.
func (b *bench) compare(all *compared, c cell, best record) {
	for _, way := range b.missing(c, b.judgedBy(b.shape(c))) {
		all.missing = append(all.missing, c.App+" "+way)
	}
	tare := b.found(c, wayTare)
	if tare == nil || !tare.Answer.found() {
		return
	}
	of := ratio(tare.LimitBytes, best.LimitBytes)
	all.shares = append(all.shares, of)
	if pairs := b.pairRates(c, best); len(pairs) > 0 {
		all.rates = append(all.rates, results.Median(pairs))
	}
	if d := b.found(c, ways.Defaults); d != nil && d.Answer.found() {
		all.seen = append(all.seen, ratio(tare.LimitBytes, d.LimitBytes))
	}
	if of > goalShare {
		all.short = append(all.short, fmt.Sprintf("%s, at %.2f: %s", c.App, of, holdUp(*tare)))
	}
}

// goalsText judges the goals. One that is met while applications are missing is
// met so far.
func (b *bench) goalsText(t *strings.Builder, s shape, all compared) {
	reached := func(ok bool) string { return reachedOn(ok, len(all.shares), b.countOn(s)) }
	fmt.Fprintf(t, "\nOver %d of %d applications, geometric means:\n\n", len(all.shares), b.countOn(s))
	if s.seen > 0 && len(all.seen) > 0 {
		of := geometric(all.seen)
		fmt.Fprintf(t, "- tare's limit of the defaults': %.2f; goal at most %.2f: %s\n", of, goalSeen, reached(of <= goalSeen))
	} else {
		of := geometric(all.shares)
		fmt.Fprintf(t, "- tare's limit of the best other's: %.2f; goal at most %.2f: %s\n", of, goalShare, reached(of <= goalShare))
	}
	if len(all.rates) == len(all.shares) {
		of := geometric(all.rates)
		fmt.Fprintf(t, "- tare's throughput of that other's, in pairs: %.2f; goal at least %.2f: %s\n", of, goalRate, reached(of >= goalRate))
	}
	b.warmSumText(t, s)
}

// warmSumText tells how many warm trials the limits held in.
func (b *bench) warmSumText(t *strings.Builder, s shape) {
	var tare, others []record
	for _, a := range b.apps {
		tare = append(tare, b.of(cell{a.Name, s.name}, wayTare, warming)...)
		for _, w := range b.ways {
			others = append(others, b.of(cell{a.Name, s.name}, w.Name, warming)...)
		}
	}
	if len(tare) > 0 && len(others) > 0 {
		fmt.Fprintf(t, "- warm trials without an error at these limits: tare's %d of %d, the others' %d of %d\n", countPassed(tare), len(tare), countPassed(others), len(others))
	}
}

// madeInTurn are the trials that were made in turn, tare's and the best other's, each at
// its limit.
func (b *bench) madeInTurn(c cell, best record) (tare, other []record) {
	tare, other = b.of(c, wayTare, pairing), b.of(c, best.Way, pairing)
	if len(other) == 0 || other[0].LimitBytes != best.LimitBytes {
		return nil, nil
	}
	n := min(len(tare), len(other))
	return tare[:n], other[:n]
}

// pairRates is by how much tare was as fast as the best other, in the pairs of
// which both passed.
func (b *bench) pairRates(c cell, best record) []float64 {
	tare, other := b.madeInTurn(c, best)
	var out []float64
	for i := range tare {
		if tare[i].passed() && other[i].passed() {
			out = append(out, tare[i].Throughput/other[i].Throughput)
		}
	}
	return out
}

// besideText is pairRates, and how the trials ended that failed.
func (b *bench) besideText(c cell, best record) string {
	tare, other := b.madeInTurn(c, best)
	if len(tare) == 0 {
		return ""
	}
	text := results.Spread(b.pairRates(c, best), "%.2f")
	if failed := verdicts(tare); failed != "" {
		text += "; tare's" + failed
	}
	if failed := verdicts(other); failed != "" {
		text += "; the other's" + failed
	}
	return text
}

func (b *bench) countOn(s shape) int {
	n := 0
	for _, a := range b.apps {
		if runsOn(a, s) {
			n++
		}
	}
	return n
}

// wayText is a line of the table.
func (b *bench) wayText(t *strings.Builder, c cell, r record, best *record) {
	if !r.Answer.found() {
		limit := "none: " + r.Answer.Failure
		if r.Answer.Over != "" {
			limit = fmt.Sprintf("over %d: %s", r.LimitBytes/mib, r.Answer.Over)
		}
		fmt.Fprintf(t, "| %s | %s | %s | | | | | %d + %d | %.0f | |\n", c.App, r.Way, limit, r.Answer.Trials, r.Answer.Confirmations, r.Took/60)
		return
	}
	of := "–"
	if best != nil {
		of = fmt.Sprintf("%.2f", ratio(r.LimitBytes, best.LimitBytes))
	}
	var beside string
	if best != nil && r.Way == wayTare {
		beside = b.besideText(c, *best)
	}
	fmt.Fprintf(t, "| %s | %s | %d | %s | %.0f | %s | %.1f | %d + %d | %.0f | %s |\n", c.App, r.Way, r.LimitBytes/mib, of, r.Answer.Throughput,
		warmText(b.of(c, r.Way, warming)), r.Answer.Ready, r.Answer.Trials, r.Answer.Confirmations, r.Took/60, beside)
}

// warmText is the rate of warm trials that passed, and how the others ended.
func warmText(trials []record) string {
	if len(trials) == 0 {
		return "not measured"
	}
	passed := slices.DeleteFunc(slices.Clone(trials), func(r record) bool { return !r.passed() })
	return results.Spread(throughputs(passed), "%.0f") + verdicts(trials)
}

// best is what the best of the others found: the smallest limit, and of equal
// ones the fastest.
func (b *bench) best(c cell) *record {
	var best *record
	for _, w := range b.ways {
		r := b.found(c, w.Name)
		if r == nil || !r.Answer.found() {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(r.LimitBytes, best.LimitBytes), cmp.Compare(best.Answer.Throughput, r.Answer.Throughput)) < 0 {
			best = r
		}
	}
	return best
}

// holdUp names the rows that are most of what is resident.
func holdUp(r record) string {
	owners := slices.SortedFunc(maps.Keys(r.Rows), func(a, b string) int { return cmp.Or(cmp.Compare(r.Rows[b], r.Rows[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, o := range owners[:min(len(owners), 6)] {
		parts = append(parts, fmt.Sprintf("%s %.1f", o, float64(r.Rows[o])/mib))
	}
	parts = append(parts, fmt.Sprintf("page cache %.1f", float64(max(0, r.PeakBytes-r.NeededBytes))/mib))
	return strings.Join(parts, ", ")
}

// searchText is what the search took, over all cells.
func (b *bench) searchText(t *strings.Builder) {
	var trials, minutes []float64
	for _, c := range b.cells() {
		if r := b.found(c, wayTare); r != nil {
			trials, minutes = append(trials, float64(r.Answer.Trials)), append(minutes, r.Took/60)
		}
	}
	if len(trials) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## The search\n\nOf %d fits, median (minimum … maximum):\n\n- trials before confirming: %s; goal at most %d in each: %s\n- minutes: %s\n", len(trials),
		results.Spread(trials, "%.0f"), goalTrials, results.Reached(slices.Max(trials) <= goalTrials), results.Spread(minutes, "%.1f"))
}

// gridText compares limits with what a grid finds for the same options.
func (b *bench) gridText(t *strings.Builder) {
	var lines []string
	near, soon := true, true
	for _, c := range b.cells() {
		r, trials := b.found(c, wayTare), b.of(c, wayTare, gridding)
		if r == nil || len(trials) == 0 {
			continue
		}
		limit, took := gridSmallest(trials)
		found := r.LimitBytes - r.Answer.MarginBytes
		off := ratio(found, limit) - 1
		near, soon = near && math.Abs(off) <= goalGrid, soon && r.Took <= goalGridTime*took
		lines = append(lines, fmt.Sprintf("| %s | %s | %d | %d | %+.1f %% | %.0f | %d, %.0f |\n", c.App, c.Shape, found/mib, limit/mib, 100*off, r.Took/60, len(trials), took/60))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## Against a grid\n\nThe options that tare recommends at every limit of a grid of 2 %%, from 1.5 of its limit, or that of the defaults, down to %.1f of it. "+
		"The grid's limit is the smallest that passed above the first two in a row that did not; tare's is without the margin that it adds.\n\n"+
		"| application | shape | tare's limit | the grid's | off | tare's minutes | the grid's trials, minutes |\n|---|---|---|---|---|---|---|\n%s\n", gridLow, strings.Join(lines, ""))
	fmt.Fprintf(t, "- within %.0f %% of the grid's: %s\n- within a quarter of the grid's time: %s\n", 100*goalGrid, results.Reached(near), results.Reached(soon))
}

// gridSmallest is the smallest limit of a grid, tried from above, that passed
// before two in a row failed; and how long all took, in seconds.
func gridSmallest(trials []record) (limit int64, took float64) {
	failed := 0
	for i, r := range trials {
		took += r.Took
		if i+1 < len(trials) && trials[i+1].LimitBytes == r.LimitBytes {
			continue // a narrow miss, made again
		}
		switch {
		case failed >= 2:
		case r.passed():
			limit, failed = r.LimitBytes, 0
		default:
			failed++
		}
	}
	return limit, took
}

// proofText tells in how many fresh runs memory lacked: at the limit, with half the
// processors, and below it.
func (b *bench) proofText(t *strings.Builder) {
	var lines []string
	runs, failures, most := 0, 0, 0
	tight := true
	for _, c := range b.cells() {
		r, at, half, under := b.found(c, wayTare), b.of(c, wayTare, proving), b.of(c, wayTare, halved), b.of(c, wayTare, below)
		if r == nil || len(at) == 0 {
			continue
		}
		for _, made := range [][]record{at, half} {
			n := countLacking(made)
			runs, failures, most = runs+len(made), failures+n, max(most, n)
		}
		tight = tight && float64(countLacking(under)) >= goalBelow*float64(len(under))
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %d | %.2f |\n", c.App, c.Shape, lacking(at), lacking(half), lacking(under)+b.waiting(under),
			len(b.of(c, ways.Defaults, proving+beside)), results.Median(throughputs(at))/r.Answer.Throughput))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## Proof\n\nFresh runs with what tare recommends, in turn: at its limit, there with half the processors, of which half the throughput is asked, and at 0.9 of it. Told is in how many memory lacked, "+
		"and how all that did not pass ended; *waited* are those at 0.9 that passed and waited for memory as long as no limit may that tare looks for, which was not noted at first. Every %d have baselines beside them, by whose median throughput they are judged. "+
		"Where a run has much less of the throughput than the fit's confirming runs, the machine was slower, or another one.\n\n"+
		"| application | shape | memory lacks at the limit | with half the processors | at 0.9 of it | baselines beside | req/s of the fit's |\n|---|---|---|---|---|---|---|\n%s\n"+
		"- at the limit, also with half the processors, memory lacks in %d of %d; goal at most 1 in %.0f, and %d in each cell: %s\n- it lacks in at least half at 0.9 of it: %s\n",
		paceEvery, strings.Join(lines, ""), failures, runs, 1/goalFails, goalCell, reachedOn(float64(failures) <= goalFails*float64(runs) && most <= goalCell, len(lines), b.countEqual()), reachedOn(tight, len(lines), b.countEqual()))
}

func countLacking(trials []record) int {
	return len(slices.DeleteFunc(slices.Clone(trials), func(r record) bool { return !r.lacksMemory() }))
}

// lacking is a cell of that table.
func lacking(trials []record) string {
	if len(trials) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%d of %d%s", countLacking(trials), len(trials), verdicts(trials))
}

// waiting adds to it how many passed and waited for memory as long as no limit may.
func (b *bench) waiting(trials []record) string {
	most, n := fit.MayWait(1-b.share), 0
	for _, r := range trials {
		if most > 0 && r.passed() && r.Waited >= most {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d waited", n)
}

func throughputs(trials []record) []float64 {
	var rates []float64
	for _, r := range trials {
		rates = append(rates, r.Throughput)
	}
	return rates
}

func countPassed(trials []record) int {
	n := 0
	for _, r := range trials {
		if r.passed() {
			n++
		}
	}
	return n
}

// verdicts counts how failures ended, after a colon.
func verdicts(trials []record) string {
	counts := map[string]int{}
	for _, r := range trials {
		if !r.passed() {
			counts[string(r.Verdict)]++
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// conditions are the recommended options, and where the trials were made.
func (b *bench) conditions(t *strings.Builder) {
	machines, jdks := map[string]bool{}, map[string]bool{}
	t.WriteString("\n## What tare recommends\n\n")
	for _, c := range b.cells() {
		r := b.found(c, wayTare)
		if r == nil || !r.Answer.found() {
			continue
		}
		fmt.Fprintf(t, "- %s, %s: `%s`\n", c.App, c.Shape, b.withoutCache(strings.Join(slices.Concat(r.Env, r.Options), " ")))
	}
	for _, r := range b.done {
		if r.Plan == b.plan {
			machines[fmt.Sprintf("%d processors, %d MiB, Linux %s %s", r.Machine.CPUs, r.Machine.MemoryBytes/mib, r.Machine.Kernel, r.Machine.Arch)] = true
			jdks[r.JDK] = true
		}
	}
	fmt.Fprintf(t, "\nAll trials are in `%s`; they were made with JDK %s on %s.\n", b.packed,
		strings.Join(slices.Sorted(maps.Keys(jdks)), ", "), strings.Join(slices.Sorted(maps.Keys(machines)), "; "))
}

// withoutCache writes the cache's folder short.
func (b *bench) withoutCache(text string) string {
	if b.cache == "" {
		return text
	}
	return strings.ReplaceAll(text, b.cache, "…")
}

// cells are all cells of the report, in its order.
func (b *bench) cells() []cell {
	var out []cell
	for _, s := range b.shapes {
		for _, a := range b.apps {
			if runsOn(a, s) {
				out = append(out, cell{a.Name, s.name})
			}
		}
	}
	return out
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }

// geometric is the geometric mean.
func geometric(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}
