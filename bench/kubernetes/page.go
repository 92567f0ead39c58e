package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/testkit/results"
)

// page is what was measured so far.
func page(all []record, o options) string {
	var b strings.Builder
	b.WriteString("A cluster of one node: Kubernetes 1.35.4, containerd, control groups of version 1, all on this machine (scripts/kubernetes.sh). JVMs of JDK " + jdk + " where no other is named. Spreads are median (least … most).\n\n")
	fitText(&b, all, o)
	interruptionText(&b, all, o)
	killText(&b, all)
	podText(&b, all, o)
	b.WriteString("## Not measured\n\nControl groups of version 2, limits of the node itself, and other applications than those named here. Fits on several nodes are [replayed](steady.md#on-several-nodes).\n")
	return b.String()
}

// measured says when and where what is picked was measured, and how busy the machine was.
func measured(b *strings.Builder, all []record, picked func(record) bool) {
	var days, machines []string
	var loads []float64
	for _, r := range all {
		if !picked(r) {
			continue
		}
		days, machines = append(days, r.At.Format(time.DateOnly)), append(machines, r.Machine)
		if load, err := strconv.ParseFloat(r.Load, 64); err == nil {
			loads = append(loads, load)
		}
	}
	if len(days) == 0 {
		return
	}
	slices.Sort(days)
	slices.Sort(machines)
	fmt.Fprintf(b, "Measured on %s: %s. Load of the machine (1 minute) after each: %s.\n\n", strings.Join(slices.Compact(days), ", "), strings.Join(slices.Compact(machines), "; "), results.Spread(loads, "%.1f"))
}

// of says how much of what is to be measured was.
func of(done, want int) string {
	if done >= want {
		return fmt.Sprint(done)
	}
	return fmt.Sprintf("%d of %d, **partial**", done, want)
}

func fitText(b *strings.Builder, all []record, o options) {
	b.WriteString("## The same fit on this machine and in the cluster\n\n")
	measured(b, all, func(r record) bool { return r.Fit != nil })
	fmt.Fprintf(b, "Services without options, `tare fit %s`, by turns on each runner, with so much memory in the baselines (`--ample`): %s. Time for each trial is that of the whole search over its trials: in the cluster a pod is made and removed for each.\n\n", strings.Join(search[:len(search)-1], " "), strings.Join(amples(), ", "))
	b.WriteString("| service | JDK | runner | fits | limit, MiB | trials | s for each trial | of it around the trial |\n|---|---:|---|---:|---:|---:|---:|---:|\n")
	var found strings.Builder
	for _, c := range fitCells {
		name := services[c.Service].name
		limits, each := map[string]float64{}, map[string]float64{}
		for _, runner := range runners {
			fits := fitsOf(all, c, runner)
			var limit, trials, whole, around []float64
			for _, f := range fits {
				w, a := f.perTrial()
				limit, trials, whole, around = append(limit, float64(f.LimitBytes)/(1<<20)), append(trials, float64(f.Trials)), append(whole, w.Seconds()), append(around, a.Seconds())
			}
			limits[runner], each[runner] = results.Median(limit), results.Median(whole)
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", name, c.JDK, runner, of(len(fits), o.fits), results.Spread(limit, "%.0f"), results.Spread(trials, "%.0f"), results.Spread(whole, "%.1f"), results.Spread(around, "%.1f"))
		}
		if here, there := limits[runners[0]], limits[runners[1]]; here > 0 && there > 0 {
			apart, more := 100*(there-here)/here, each[runners[1]]-each[runners[0]]
			fmt.Fprintf(&found, "- %s on JDK %s: limits, medians, %+.1f %% in the cluster, goal 5 %%: %s; time for each trial beyond the local one %.1f s, goal 5 s: %s\n", name, c.JDK, apart, results.Reached(apart <= 5 && apart >= -5), more, results.Reached(more <= 5))
		}
	}
	fmt.Fprintf(b, "\n%s\n", found.String())
}

// amples are the baselines' limits.
func amples() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(services)) {
		out = append(out, services[name].name+" "+services[name].ample)
	}
	return out
}

func interruptionText(b *strings.Builder, all []record, o options) {
	done, whole, rests := interruptionsOf(all)
	b.WriteString("## Interruptions\n\n")
	measured(b, all, func(r record) bool { return r.Interruption != nil })
	fmt.Fprintf(b, "%s fits of the demo service with short trials (`%s`), each interrupted once by SIGKILL at a random moment, up to %d trials and %s after its start (seed %d). What stopped was started again, with `--resume` where a trial was stored. The API server was away for up to %s.\n\n", of(len(done), o.interruptions), strings.Join(short[:len(short)-1], " "), moreTrials-1, moreTime, o.seed, awayTime)
	if len(done) == 0 {
		return
	}
	var reference []float64
	for _, w := range whole {
		reference = append(reference, float64(w.LimitBytes)/(1<<20))
	}
	b.WriteString("| killed | interruptions | went on by itself | trials lost | answer, MiB | left behind by a fit that ended |\n|---|---:|---:|---:|---:|---|\n")
	lost, same, clean := 0, 0, true
	var interrupted []float64
	for _, kind := range kinds {
		var answers []float64
		on, gone := 0, 0
		var behind []string
		for _, i := range done {
			if i.Kind != kind {
				continue
			}
			answers = append(answers, float64(i.LimitBytes)/(1<<20))
			if !i.Stopped {
				on++
			}
			gone += max(0, i.Ended-i.Stored)
			behind = append(behind, i.Behind...)
			if a := float64(i.LimitBytes) / (1 << 20); a <= 1.05*results.Median(reference) && a >= 0.95*results.Median(reference) {
				same++
			}
		}
		interrupted = append(interrupted, answers...)
		lost, clean = lost+gone, clean && len(behind) == 0
		fmt.Fprintf(b, "| %s | %d | %d | %d | %s | %s |\n", kind, len(answers), on, gone, results.Spread(answers, "%.0f"), strings.Join(append(behind, "")[:max(1, len(behind))], ", "))
	}
	fmt.Fprintf(b, "| nothing | %d | | | %s | |\n\n", len(reference), results.Spread(reference, "%.0f"))
	var seconds []float64
	for _, l := range rests {
		seconds, clean = append(seconds, l.Seconds), clean && l.Gone
	}
	if len(seconds) > 0 {
		fmt.Fprintf(b, "After a tare was killed its jobs and pods were gone within %s s; the agent waits 5 minutes, a job stays for one more.\n", results.Spread(seconds, "%.0f"))
	}
	for _, r := range all {
		if r.Swept != nil {
			clean = clean && len(r.Swept.Left) == 0
			fmt.Fprintf(b, "Its secret goes with the next fit, 15 minutes later: the secrets' time was put back, and after one more fit there was left: %s.\n", strings.Join(append(r.Swept.Left, "nothing")[:max(1, len(r.Swept.Left))], ", "))
		}
	}
	fmt.Fprintf(b, "\n- nothing left: %s\n- finished trials lost, %d: %s\n- answers within 5 %% of the median without an interruption, %d of %d: %s\n", results.Reached(clean), lost, results.Reached(lost == 0), same, len(done), results.Reached(same == len(done)))
	if len(reference) > 0 {
		over := results.Median(interrupted) / results.Median(reference)
		fmt.Fprintf(b, "- the median answer over that without an interruption, %.3f, goal 5 %%: %s\n", over, results.Reached(math.Abs(over-1) <= 0.05))
	}
	if least, most := slices.Min(append(reference, math.Inf(1))), slices.Max(append(reference, 0)); most > 1.1*least {
		fmt.Fprintf(b, "\nThe fits without an interruption differ by %.0f %% themselves: their trials are short, and what is asked of each answer is more than such a fit can keep. That a search which was cut off anywhere ends like one that was not, with the same trials, is a test (`TestSearchGoesOnAnywhere` in internal/fit).\n", 100*(most/least-1))
	}
	var said []string
	for _, i := range done {
		if i.Said != "" {
			said = append(said, fmt.Sprintf("- number %d, %s: %s\n", i.Number, i.Kind, strings.TrimSpace(i.Said)))
		}
	}
	if len(said) > 0 {
		fmt.Fprintf(b, "\nWhat tare said where it did not go on by itself:\n\n%s", strings.Join(said, ""))
	}
	b.WriteString("\n")
}

func killText(b *strings.Builder, all []record) {
	done := killsOf(all)
	right, certain, made := 0, 0, 0
	var table strings.Builder
	for _, c := range cells() {
		k, ok := done[c.name]
		if !ok {
			continue
		}
		made++
		if k.Verdict == c.want {
			right++
		}
		if k.Confidence == "certain" {
			certain++
		}
		code := ""
		if k.ExitCode != nil {
			code = fmt.Sprint(*k.ExitCode)
		}
		fmt.Fprintf(&table, "| %s | %s%s | %s | %s |\n", c.name, k.Verdict, wrong(k.Verdict, c.want), k.Confidence, code)
	}
	b.WriteString("## Pods that ended\n\n")
	measured(b, all, func(r record) bool { return r.Kill != nil })
	fmt.Fprintf(b, "%s ends of pods with a JVM, each made once, beside the agent of the chart with its defaults; `tare kube autopsy` was asked %s after the end.\n\n", of(made, len(cells())), settled)
	if made == 0 {
		return
	}
	fmt.Fprintf(b, "- verdicts right, %d of %d: %s\n- of them certain: %d\n\n| made | found | certainty | exit code |\n|---|---|---|---:|\n%s\n", right, made, results.Reached(right == made && made == len(cells())), certain, table.String())
}

func podText(b *strings.Builder, all []record, o options) {
	b.WriteString("## Many pods on one node\n\n")
	measured(b, all, func(r record) bool { return r.Pods != nil })
	i := slices.IndexFunc(all, func(r record) bool { return r.Pods != nil })
	for j, r := range all { // the largest
		if r.Pods != nil && r.Pods.Pods >= all[i].Pods.Pods {
			i = j
		}
	}
	if i < 0 {
		b.WriteString("Not measured yet.\n\n")
		return
	}
	p := all[i].Pods
	const intervals = 20
	in := func(delays []float64) (n int) {
		for _, d := range delays {
			if d <= intervals {
				n++
			}
		}
		return n
	}
	share := 100 * p.AllSeconds / p.LifeSeconds
	// The chart gives 1 %, and a full bucket at the start.
	budget := p.LifeSeconds*0.01 + 0.6
	fmt.Fprintf(b, "%s pods, each a JVM that stands still (Serial, interpreted, `-Xmx16m`), started at once beside the agent of the chart with its defaults (a look each 10 s, 1 %% of a processor, 64 MiB); all ran after %.0f s.\n\n", of(p.Pods, o.pods), p.StartSeconds)
	named := in(p.Delays)
	fmt.Fprintf(b, "- JVMs with the name of their pod within two intervals (%d s) of their start, %d of %d: %s; delays %s s\n", intervals, named, p.Pods, results.Reached(named == p.Pods), results.Spread(p.Delays, "%.1f"))
	fmt.Fprintf(b, "- with that of their container, too, %d; delays %s s\n", in(p.Containers), results.Spread(p.Containers, "%.1f"))
	fmt.Fprintf(b, "- processor of the agent, from before the first pod: %.1f s in %.0f s, %.2f %%, budget %.1f s (1 %% and 0.6 s at the start): %s; each minute when all ran, %%: %s\n", p.AllSeconds, p.LifeSeconds, share, budget, results.Reached(p.AllSeconds <= budget), results.Spread(p.Percents, "%.2f"))
	fmt.Fprintf(b, "- its highest resident memory (VmHWM): %.1f MiB, budget 64: %s\n\n", float64(p.PeakBytes)/(1<<20), results.Reached(p.PeakBytes <= 64<<20))
}
