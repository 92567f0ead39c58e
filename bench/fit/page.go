package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
)

// Goals of the figure.
const (
	steadyShare, steadyWithin = 0.95, 0.05
	looseWithin               = 0.08 // with a neighbour, and at half a processor
	searchGoal, proofGoal     = 12, 8
	failGoal                  = 1.0 / 400
)

// pageOf is the text of the results.
func pageOf(all []figures) string {
	var t strings.Builder
	t.WriteString(introduction)
	writeBanks(&t, all)
	writeReal(&t, all)
	writeReplays(&t, all)
	writeCost(&t, all)
	writeNodes(&t, all)
	writeTruth(&t, all)
	writeAgain(&t, all)
	writeDrift(&t, all)
	writePreferences(&t, all)
	writeParts(&t, all)
	writeWorst(&t, all)
	t.WriteString(missing(all))
	return t.String()
}

const introduction = "Real trials of a service are recorded into a bank, and the search of `tare fit` is replayed on it: each trial that it asks for is answered by one recorded trial of the same setup at the " +
	"nearest limits, drawn as a whole, and judged against the baseline of the search by the default objective. Where the bank has none, a model answers (bench/fit/replay.go says how); a search with more than " +
	"10 % of such answers does not count. Draws are independent of each other: what a machine does to trials that follow one another is not in the replay. A proof's run of ten times the load, and its run with half the processors, are answered by runs of the load, and tell nothing here. All trials of a bank do the " +
	"same work, so that a fit on a slow machine does not see an earlier part of the warm-up. Those that were recorded before the lever that sizes the heap made allocation buffers larger answer for it at a higher cost. Limits in MiB.\n\n"

// writeBanks tells what was recorded.
func writeBanks(t *strings.Builder, all []figures) {
	t.WriteString("## Banks\n\nOthers is the share of the machine's processor time that other processes took during the load of a trial: median (least … most). A cell in which it is more than a few per cent was not quiet. Where the disk reads ahead more than the usual 128 KiB, page cache that lacks costs more than elsewhere. The pace of a machine is that of a fixed piece of work beside each trial; a chain through memory does not feel who else is on a core. A bank is of the machine that recorded it, which its kernel tells; only the replays are of the one above.\n\n" +
		"| cell | JDK | recorded from | kernel | trials | concurrency | requests of a trial | disk reads ahead KiB | pace by | others |\n|---|---|---|---|---:|---:|---:|---:|---|---|\n")
	for _, f := range all {
		fmt.Fprintf(t, "| %s | %s | %s | %s | %d | %d | %d + %d | %d | %s | %s |\n", f.cell, f.head.Java, f.head.Began.Format(time.DateOnly), f.head.Machine.Kernel, f.trials, f.head.Load.Concurrency,
			f.head.Work.Warmup, f.head.Work.Measured, f.head.ReadAheadBytes>>10, cmp.Or(f.head.PaceWork, "chain or none"), results.Spread(f.others, "%.2f"))
	}
	t.WriteString("\n")
}

// writeReal tells of the fits that were made for real.
func writeReal(t *strings.Builder, all []figures) {
	t.WriteString("## Real fits\n\nEach with the defaults of `tare fit` but for its load; in brackets the trials before the proof and in it. Others is as above, the median of a fit. They are of the search as it was on the day of the bank, which the replays need not be.\n\n| cell | recommended | as given | minutes | others |\n|---|---|---|---|---|\n")
	for _, f := range all {
		var limits, given, minutes, others []string
		for _, a := range f.real {
			limit := fmt.Sprintf("%d (%d + %d)", a.LimitBytes/mib, a.Search, a.Proof)
			if a.Failure != "" {
				limit = "none: " + a.Failure
			}
			limits = append(limits, limit)
			given = append(given, fmt.Sprint(a.AsGivenBytes/mib))
			minutes = append(minutes, fmt.Sprintf("%.0f", a.Took.Minutes()))
			others = append(others, fmt.Sprintf("%.2f", a.Others))
		}
		if len(f.real) == 0 {
			limits = []string{"not measured"}
		}
		fmt.Fprintf(t, "| %s | %s | %s | %s | %s |\n", f.cell, strings.Join(limits, ", "), strings.Join(given, ", "), strings.Join(minutes, ", "), strings.Join(others, ", "))
	}
	t.WriteString("\n")
}

// countedFor is how many searches must count for each one that does not, where a bank tells of
// the goal.
const countedFor = 4

// goalWithin is how near to the median 19 of 20 answers of a cell are to be.
func (c cell) goalWithin() float64 {
	if c.Noisy || c.CPUs < 1 {
		return looseWithin
	}
	return steadyWithin
}

// writeReplays tells how far apart answers are.
func writeReplays(t *strings.Builder, all []figures) {
	t.WriteString("## Replayed searches: how steady\n\nThe goal is that 19 of 20 answers are within 5 % of the median, within 8 % with a noisy neighbour or at half a processor; that there is none without an answer, " +
		"and none above as given. Drawn from is the number of recorded trials that a trial of a search was drawn from: where that is one or two, answers are nearer to each other than they would be for real. Where more than a fifth of the searches do not count, the bank has too few trials to tell. Same levers is the share of answers with the levers that most of them have.\n\n" +
		"| cell | searches | not counted | drawn from | without an answer | above as given | median | 2.5 % … 97.5 % | as given | same levers | within 5 % | within 8 % | goal |\n|---|---:|---:|---|---:|---:|---:|---|---:|---:|---:|---:|---|\n")
	for _, f := range all {
		answers := f.answered()
		limits := of(answers, limitOf)
		none := len(f.replays) - len(answers)
		share := within(limits, f.cell.goalWithin())
		goal := results.Reached(len(answers) > 0 && share >= steadyShare && none == 0 && above(answers) == 0)
		if countedFor*len(f.modelled) > len(f.replays) {
			goal = "too few trials"
		}
		fmt.Fprintf(t, "| %s | %d | %d | %s | %d | %d | %.0f | %.0f … %.0f | %.0f | %.1f %% | %.1f %% | %.1f %% | %s |\n", f.cell, len(f.replays)+len(f.modelled), len(f.modelled), results.Spread(f.drawn, "%.0f"), none, above(answers),
			results.Median(limits), quantile(limits, 0.025), quantile(limits, 0.975), results.Median(of(answers, givenOf)), 100*sameLevers(answers),
			100*within(limits, steadyWithin), 100*within(limits, looseWithin), goal)
	}
	t.WriteString("\n")
	for _, f := range all {
		writeModelled(t, f)
		for _, why := range slices.Sorted(maps.Keys(f.unanswered)) {
			fmt.Fprintf(t, "- %s, %d without an answer: %s\n", f.cell, f.unanswered[why], why)
		}
	}
	t.WriteString("\n")
}

// writeModelled tells what searches that do not count would have answered: they are not
// a fair sample, for what is rare is what the bank lacks.
func writeModelled(t *strings.Builder, f figures) {
	if len(f.modelled) == 0 {
		return
	}
	none, given, others := 0, 0, f
	for _, r := range f.modelled {
		if r.Failure != "" {
			none++
		} else if r.Setup.Same(fit.Setup{}) {
			given++
		}
	}
	others.replays = f.modelled
	limits := of(others.answered(), limitOf)
	fmt.Fprintf(t, "- %s: of the %d that do not count, %d ended without an answer and %d with the options as given; the median is %.0f (%.0f … %.0f)\n", f.cell, len(f.modelled), none, given,
		results.Median(limits), quantile(limits, 0), quantile(limits, 1))
}

// writeCost tells what a search takes.
func writeCost(t *strings.Builder, all []figures) {
	t.WriteString("## Replayed searches: what they take\n\nMedian (least … most); the goal is at most 12 trials before the proof and 8 in it, in each. Time is that of the recorded trials and training runs. Unmet are answers that were confirmed without a run that met the objective: all of them were slow, and memory was not the reason.\n\n" +
		"| cell | trials before | at most 12 | trials of proof | at most 8 | unmet | minutes |\n|---|---|---:|---|---:|---:|---|\n")
	for _, f := range all {
		search, proof := of(f.replays, searchOf), of(f.replays, proofOf)
		fmt.Fprintf(t, "| %s | %s | %.1f %% | %s | %.1f %% | %d | %s |\n", f.cell, results.Spread(search, "%.0f"), 100*atMost(search, searchGoal),
			results.Spread(proof, "%.0f"), 100*atMost(proof, proofGoal), unmet(f.answered()), results.Spread(of(f.replays, minutesOf), "%.1f"))
	}
	t.WriteString("\n")
}

// writeTruth tells whether answers are right.
func writeTruth(t *strings.Builder, all []figures) {
	t.WriteString("## Against the recorded trials\n\nThe smallest limit that truly passes is the least one above which memory failed none of the trials that were recorded with an answer's options; the more trials, the larger it is. " +
		"A fresh run at an answer fails by memory as often as the trials within 2.5 % of it did; the goal is at most 1 in 400. At 0.9 of it are the searches' own runs there, at a limit that is smaller by what runs did not touch of the heap: the goal is that at least half of them fail; in brackets those that failed or waited for memory as long as no limit may that a search looks for (half of what follows). " +
		"Fewest is the number of trials that the share of one answer is of. Memory failed a trial that had such a verdict when it was recorded, or that waited for memory for as much of the time as the objective leaves of the speed. An answer is not told where its options or limits are not in the bank, or memory failed no trial. Cost is the processor time of the work with the answer's options over that as given, by the recorded trials of both that had room.\n\n" +
		"| cell | answer over the smallest | fresh runs that fail | at 0.9 of it | fewest | not told | cost |\n|---|---|---:|---:|---:|---:|---|\n")
	for _, f := range all {
		r := f.truth
		fails, low := "not known", "not known"
		if r.runs > 0 {
			fails = fmt.Sprintf("%.1f %%", 100*r.fails/r.runs)
		}
		if r.runsBelow > 0 {
			low = fmt.Sprintf("%.0f %% (%.0f %%)", 100*r.failsBelow/r.runsBelow, 100*r.pressedBelow/r.runsBelow)
		}
		least := r.least
		if len(r.over) == 0 {
			least = 0
		}
		fmt.Fprintf(t, "| %s | %s | %s | %s | %d | %d | %s |\n", f.cell, results.Spread(r.over, "%.2f"), fails, low, least, r.untold, results.Spread(r.cost, "%.2f"))
	}
	t.WriteString("\n")
}

// writePreferences tells what searches answer that prefer something else.
func writePreferences(t *strings.Builder, all []figures) {
	if !slices.ContainsFunc(all, func(f figures) bool { return len(f.preferences) > 0 }) {
		return
	}
	t.WriteString("## Replayed searches by preference\n\nAs above, with each --prefer. A search that prefers speed asks for trials that a bank of fits which prefer memory may not have: it counts less often, and its answer's cost is known less often.\n\n" +
		"| cell | --prefer | counted | median | 2.5 % … 97.5 % | within 5 % | same levers | cost | of answers | fresh runs that fail | trials before, most | of proof |\n|---|---|---:|---:|---|---:|---:|---|---:|---:|---:|---|\n")
	for _, cell := range all {
		for _, f := range cell.preferences {
			answers := f.answered()
			limits := of(answers, limitOf)
			fails := "not known"
			if f.truth.runs > 0 {
				fails = fmt.Sprintf("%.1f %%", 100*f.truth.fails/f.truth.runs)
			}
			fmt.Fprintf(t, "| %s | %s | %d | %.0f | %.0f … %.0f | %.1f %% | %.1f %% | %s | %d | %s | %.0f | %s |\n", f.cell, f.prefer, len(f.replays), results.Median(limits), quantile(limits, 0.025), quantile(limits, 0.975),
				100*within(limits, steadyWithin), 100*sameLevers(answers), results.Spread(f.truth.cost, "%.2f"), len(f.truth.cost), fails, quantile(of(f.replays, searchOf), 1), results.Spread(of(f.replays, proofOf), "%.0f"))
		}
	}
	t.WriteString("\n")
}

// parts are what a limit is made of, in MiB. The last is what a proof that failed, or the
// limit as given, made of the bound.
var parts = []struct {
	name string
	of   func(replay) float64
}{
	{"held", func(r replay) float64 { return float64(r.need.HeldBytes) / mib }},
	{"page cache", func(r replay) float64 { return float64(r.need.CacheBytes) / mib }},
	{"tried", func(r replay) float64 { return float64(r.need.TriedBytes) / mib }},
	{"growth", func(r replay) float64 { return float64(r.need.GrowthBytes) / mib }},
	{"difference of runs", func(r replay) float64 { return float64(r.need.BoundBytes-r.need.MeanBytes) / mib }},
	{"proof", func(r replay) float64 { return float64(r.LimitBytes-r.need.BoundBytes) / mib }},
	{"deviation %", func(r replay) float64 { return 100 * r.need.Deviation }},
	{"runs", func(r replay) float64 { return float64(r.need.Samples) }},
}

// writeParts tells what the limits are made of.
func writeParts(t *strings.Builder, all []figures) {
	t.WriteString("## What the limits are made of\n\nMedian (least … most) of the answers, MiB. Held is what cannot be dropped, with the heap full, and page cache what runs with room could not do without. " +
		"Tried is what limits near the answer added to that, by how long runs waited for memory there; growth is for what still grew; the difference of runs is from the mean to the bound that 99 % of runs keep, by the deviation of so many runs; and proof what runs at the bound added to it, in whole MiB.\n\n| cell |")
	for _, p := range parts {
		t.WriteString(" " + p.name + " |")
	}
	t.WriteString("\n|---|" + strings.Repeat("---|", len(parts)) + "\n")
	for _, f := range all {
		known := slices.DeleteFunc(f.answered(), func(r replay) bool { return r.need == nil })
		t.WriteString("| " + f.cell.String() + " |")
		for _, p := range parts {
			t.WriteString(" " + results.Spread(of(known, p.of), "%.1f") + " |")
		}
		t.WriteString("\n")
	}
	t.WriteString("\n")
}

// shownWorst is how many searches of a cell are named.
const shownWorst = 3

// writeWorst names the searches whose answers are farthest off.
func writeWorst(t *strings.Builder, all []figures) {
	t.WriteString("## Farthest from the median\n\n`go run ./bench/fit -cells CELL -trace SEED` shows the steps of one.\n\n| cell | seed | limit | as given | trials | setup |\n|---|---:|---:|---:|---:|---|\n")
	for _, f := range all {
		for _, r := range worst(f.answered(), shownWorst) {
			fmt.Fprintf(t, "| %s | %d | %.0f | %.0f | %d + %d | %s |\n", f.cell, r.seed, limitOf(r), givenOf(r), r.Search, r.Proof, setupText(r.Setup))
		}
	}
	t.WriteString("\n")
}

func setupText(s fit.Setup) string {
	words := slices.Concat(s.Env, s.Options)
	if s.Jar != "" {
		words = append(words, "-jar "+s.Jar)
	}
	if len(words) == 0 {
		return "as given"
	}
	return "`" + strings.Join(words, " ") + "`"
}

// missing names the cells that no bank is of.
func missing(all []figures) string {
	var names []string
	for _, c := range allCells {
		if !slices.ContainsFunc(all, func(f figures) bool { return f.cell == c }) {
			names = append(names, c.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "## Not measured\n\nNo bank yet of " + strings.Join(names, ", ") + ". `make bench-fit-record RECORD='-cells " + names[0] + " -for 2h'` goes on.\n"
}
