package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/testkit/results"
)

const minute = time.Minute

const (
	// pairs is how many pairs of sides are drawn for a figure.
	pairs = 400
	runs  = budget.DefaultRuns
	// ratio is a rule of a fixed ratio; alert is the default alert-threshold of
	// github-action-benchmark, with which a value is compared with the one before.
	ratio, alert = 1.1, 2.0
)

// bounds are the budget of all versions: growth by the default floor.
func bounds() []budget.Bound {
	var out []budget.Bound
	for _, name := range []string{"needed", "heap-live", "metaspace", "thread-stacks", "direct", "malloc"} {
		m, ok := budget.MeasureNamed(name)
		if !ok {
			panic(name)
		}
		out = append(out, budget.Bound{Measure: m, Growth: true, Floor: budget.DefaultFloor(lab.Bytes)})
	}
	return out
}

// outcome is what three rules say of one pair of sides.
type outcome struct {
	findings     []check.Finding
	ratio, alert bool
}

// judge judges a head by the rules, by runs in the order that they are given in: sets of
// eight for tare check, the first of each side for the others.
func judge(base, head []check.Run) outcome {
	var o outcome
	n := 0
	o.findings, _ = check.Judge(bounds(), nil, min(len(base), len(head))/runs, func() (check.Set, error) {
		s := check.Set{Base: values(base[n : n+runs]), Head: values(head[n : n+runs])}
		n += runs
		return s, nil
	})
	for _, b := range bounds() {
		is, was := head[0].Values[b.Measure.Name], base[0].Values[b.Measure.Name]
		o.ratio = o.ratio || is > ratio*was
		o.alert = o.alert || is > alert*was
	}
	return o
}

func values(runs []check.Run) []check.Values {
	out := make([]check.Values, len(runs))
	for i, r := range runs {
		out[i] = r.Values
	}
	return out
}

// drawn are so many different runs of a version, in an order by chance.
func drawn(r *rand.Rand, all []check.Run, n int) []check.Run {
	out := make([]check.Run, n)
	for i, j := range r.Perm(len(all))[:n] {
		out[i] = all[j]
	}
	return out
}

// tally counts what became of pairs.
type tally struct{ pairs, failed, unknown, right, ratio, alert int }

func (t *tally) add(o outcome, kind string) {
	t.pairs++
	switch check.Worst(o.findings) {
	case check.Failed:
		t.failed++
		if rightly(o.findings, kind) {
			t.right++
		}
	case check.Unknown:
		t.unknown++
	}
	if o.ratio {
		t.ratio++
	}
	if o.alert {
		t.alert++
	}
}

// rightly says that what failed is what was changed: one of its measures did, and none but
// those and needed, which is of all.
func rightly(findings []check.Finding, changed string) bool {
	found := false
	for _, f := range findings {
		if f.Verdict != check.Failed || f.Measure == "needed" {
			continue
		}
		own := slices.ContainsFunc(kinds, func(k kind) bool {
			return k.name == changed && (k.measure == f.Measure || slices.Contains(k.also, f.Measure))
		})
		if !own {
			return false
		}
		found = true
	}
	return found
}

// share is a count of all as a percentage.
func share(n, of int) string {
	if of == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// text is the page.
func text(have map[string][]check.Run) string {
	var b strings.Builder
	base := have[version{}.name()]
	fmt.Fprintf(&b, "A service (bench/check/subject) holds known amounts of heap, classes, threads, direct buffers and malloc; versions of it hold a known\n"+
		"part more of one kind, or spin longer in each request and hold nothing more. JDK 21, Serial, `-Xmx128m`, `MALLOC_ARENA_MAX=2`, a limit of 512 MiB, %d requests\n"+
		"after %d of warm-up. Versions ran round by round. The budget bounds the growth of %s by the default, the larger of 1 %% and 128 KiB.\n"+
		"Runs are drawn anew for each pair of sides, of the runs of each version: sets of %d runs a side, no run twice in a pair.\n\n",
		version{}.run().Load.Requests, version{}.run().Load.WarmupRequests, boundNames(), runs)
	spreadText(&b, base)
	falseAlarms(&b, base)
	addedText(&b, base)
	changesText(&b, have)
	return b.String()
}

func boundNames() string {
	var out []string
	for _, bound := range bounds() {
		out = append(out, bound.Measure.Name)
	}
	return strings.Join(out, ", ")
}

// spreadText says how far the runs of one version are apart.
func spreadText(b *strings.Builder, base []check.Run) {
	fmt.Fprintf(b, "## One version\n\n%d runs of the unchanged version, in MiB: median (least … most), and the part of the median that a pair of %d runs a side\n"+
		"can tell apart (the width of the 95 %% interval of a difference, median of %d pairs).\n\n| measure | MiB | interval |\n|---|--:|--:|\n", len(base), runs, pairs)
	if len(base) < 2*runs {
		b.WriteString("| not measured | | |\n")
		return
	}
	r := rand.New(rand.NewPCG(1, 1))
	widths := map[string][]float64{}
	for range pairs {
		both := drawn(r, base, 2*runs)
		for _, f := range judge(both[:runs], both[runs:]).findings {
			widths[f.Measure] = append(widths[f.Measure], f.Value.Width()/f.Base)
		}
	}
	for _, bound := range bounds() {
		var v []float64
		for _, run := range base {
			v = append(v, run.Values[bound.Measure.Name]/(1<<20))
		}
		fmt.Fprintf(b, "| %s | %s | %.2f %% |\n", bound.Measure.Name, results.Spread(v, "%.2f"), 100*results.Median(widths[bound.Measure.Name]))
	}
}

// falseAlarms judges the unchanged version against itself.
func falseAlarms(b *strings.Builder, base []check.Run) {
	b.WriteString("\n## False alarms\n\n")
	sets := len(base) / (2 * runs)
	if sets < 2 {
		fmt.Fprintf(b, "Not measured: of the unchanged version there are %d runs, and a pair with fresh runs takes %d.\n", len(base), 4*runs)
		return
	}
	var t tally
	r := rand.New(rand.NewPCG(2, 2))
	for range pairs {
		both := drawn(r, base, 2*sets*runs)
		t.add(judge(both[:sets*runs], both[sets*runs:]), "")
	}
	fmt.Fprintf(b, "The unchanged version against itself, %d pairs of up to %d sets a side. Goal: at most 1 in 50: %s.\n\n"+
		"| rule | false alarms | not known |\n|---|--:|--:|\n| `tare check` | %d of %d, %s | %s |\n| one run a side, 110 %% | %d of %d, %s | |\n| one run a side, 200 %% (the default of github-action-benchmark) | %d of %d, %s | |\n",
		t.pairs, sets, results.Reached(t.failed*50 <= t.pairs), t.failed, t.pairs, share(t.failed, t.pairs), share(t.unknown, t.pairs), t.ratio, t.pairs, share(t.ratio, t.pairs), t.alert, t.pairs, share(t.alert, t.pairs))
}

// addedText judges the unchanged version against itself with a part added by arithmetic: what
// the noise of these runs lets be seen, and no change of a program.
func addedText(b *strings.Builder, base []check.Run) {
	sets := min(2, len(base)/(2*runs))
	if sets < 2 {
		return
	}
	b.WriteString("\n## What this noise lets be seen\n\nThe unchanged version against itself, with a part added to one measure of the head's runs by arithmetic: the share of pairs in which that\n" +
		"bound fails, and in brackets in which it passes; in the rest it is not known. No program was changed for it.\n\n| measure |")
	for _, p := range percentsInOrder() {
		fmt.Fprintf(b, " %g %% |", p)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(percents)) + "\n")
	for _, bound := range bounds() {
		fmt.Fprintf(b, "| %s |", bound.Measure.Name)
		for _, p := range percentsInOrder() {
			failed, passed := seen(base, bound.Measure.Name, p, sets)
			fmt.Fprintf(b, " %s (%s) |", share(failed, pairs), share(passed, pairs))
		}
		b.WriteString("\n")
	}
}

func percentsInOrder() []float64 { return slices.Sorted(slices.Values(percents)) }

// seen counts pairs in which growth of a measure by so many per cent fails, and passes.
func seen(base []check.Run, measure string, percent float64, sets int) (failed, passed int) {
	r := rand.New(rand.NewPCG(4, 4))
	for range pairs {
		both := drawn(r, base, 2*sets*runs)
		head := both[sets*runs:]
		for i := range head {
			head[i].Values = maps.Clone(head[i].Values)
			head[i].Values[measure] *= 1 + percent/100
		}
		for _, f := range judge(both[:sets*runs], head).findings {
			switch {
			case f.Measure != measure:
			case f.Verdict == check.Failed:
				failed++
			case f.Verdict == check.Passed:
				passed++
			}
		}
	}
	return failed, passed
}

// changesText judges each changed version against the unchanged one.
func changesText(b *strings.Builder, have map[string][]check.Run) {
	b.WriteString("\n## Changes\n\nEach changed version against the unchanged one: the share of pairs in which a rule says that it grew, and for `tare check` in which\n" +
		"what failed is what was changed. A change of speed alone should fail nowhere.\n\n" +
		"| change | runs | measured change | `tare check` fails | owner right | not known | 110 % | 200 % |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	base := have[version{}.name()]
	var missing []string
	found, right := map[float64]int{}, 0
	judged, all := map[float64]int{}, 0
	for _, group := range order() {
		for _, v := range group {
			if v.kind == "" {
				continue
			}
			sets := min(len(have[v.name()]), len(base)) / runs
			if sets < 2 {
				missing = append(missing, v.name())
				continue
			}
			t := changeTally(v, base, have[v.name()], min(sets, 2))
			fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", v.name(), len(have[v.name()]), measured(v, base, have[v.name()]), share(t.failed, t.pairs), share(t.right, t.failed), share(t.unknown, t.pairs),
				share(t.ratio, t.pairs), share(t.alert, t.pairs))
			if v.kind != "spin" {
				found[v.percent] += t.failed
				judged[v.percent] += t.pairs
				right, all = right+t.right, all+t.failed
			}
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(b, "\nNot measured: %s.\n", strings.Join(missing, ", "))
	}
	fmt.Fprintf(b, "\n## Goals\n\n| goal | measured | |\n|---|--:|---|\n")
	goal(b, "effects of 5 % found in all", found[5], judged[5], 1)
	goal(b, "effects of 2 % found in 9 of 10", found[2], judged[2], 0.9)
	goal(b, "the owner named right in all that were found", right, all, 1)
	b.WriteString("| with a neighbour that takes half a core for half of the time | not measured | |\n")
}

func goal(b *strings.Builder, name string, n, of int, least float64) {
	reached := ""
	if of > 0 {
		reached = results.Reached(float64(n) >= least*float64(of))
	}
	fmt.Fprintf(b, "| %s | %s | %s |\n", name, share(n, of), reached)
}

func changeTally(v version, base, head []check.Run, sets int) tally {
	var t tally
	r := rand.New(rand.NewPCG(3, 3))
	for range pairs {
		t.add(judge(drawn(r, base, sets*runs), drawn(r, head, sets*runs)), v.kind)
	}
	return t
}

// measured is how much more the changed version has of what was changed, by the means.
func measured(v version, base, head []check.Run) string {
	for _, k := range kinds {
		if k.name == v.kind {
			mean := func(all []check.Run) (sum float64) {
				for _, r := range all {
					sum += r.Values[k.measure] / float64(len(all))
				}
				return sum
			}
			return fmt.Sprintf("%s %+.2f %%", k.measure, 100*(mean(head)/mean(base)-1))
		}
	}
	return "none"
}
