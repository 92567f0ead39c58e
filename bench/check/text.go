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
	"tare.dev/tare/internal/testkit/results"
)

const minute = time.Minute

const (
	// pairsOfPage is how many pairs of sides are drawn for a figure of the page.
	pairsOfPage = 400
	runs        = budget.DefaultRuns
	// mostSets is how many sets a check makes of each side.
	mostSets = 3
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
		out = append(out, budget.Bound{Measure: m, Growth: true, Floor: m.DefaultFloor()})
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

// join adds the pairs of another tally.
func (t *tally) join(o tally) {
	t.pairs, t.failed, t.unknown, t.right = t.pairs+o.pairs, t.failed+o.failed, t.unknown+o.unknown, t.right+o.right
	t.ratio, t.alert = t.ratio+o.ratio, t.alert+o.alert
}

// share is a count of all as a percentage.
func share(n, of int) string {
	if of == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// text is the page: the runs without a neighbour, and those beside one, by so many pairs of
// sides.
func text(quiet, disturbed runsOf, pairs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A service (bench/check/subject) holds known amounts of heap, classes, threads, direct buffers and malloc; versions of it hold a known\n"+
		"part more of one kind, or spin longer in each request and hold nothing more. JDK 21 with `%s`, one malloc arena, a limit of 512 MiB, %d requests\n"+
		"after %d of warm-up. Versions ran round by round, %d runs at a time. The budget bounds the growth of %s by the default, the larger of 1 %% and 128 KiB.\n"+
		"Runs are drawn anew for each pair of sides, of the runs of each version: sets of %d runs a side, no run twice in a pair.\n",
		strings.Join(steady[:len(steady)-3], " "), version{}.run().Load.Requests, version{}.run().Load.WarmupRequests, lanes, boundNames(), runs)
	setText(&b, "Without a neighbour", quiet, pairs)
	setText(&b, "With a neighbour that takes half a processor for half of the time", disturbed, pairs)
	return b.String()
}

// setText is what the runs of one kind of machine say.
func setText(b *strings.Builder, title string, have runsOf, pairs int) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	all := slices.Concat(slices.Collect(maps.Values(have))...)
	if len(all) == 0 {
		b.WriteString("Not measured.\n")
		return
	}
	slices.SortFunc(all, func(a, b check.Run) int { return a.Time.Compare(b.Time) })
	var others, took []float64
	for _, r := range all {
		others, took = append(others, 100*r.Others), append(took, r.Took.Seconds())
	}
	fmt.Fprintf(b, "%d runs, %s to %s (UTC). A run took %s s, and others, the run beside it among them, used %s %% of the machine's processors meanwhile.\n",
		len(all), all[0].Time.UTC().Format("2006-01-02 15:04"), all[len(all)-1].Time.UTC().Format("2006-01-02 15:04"), results.Spread(took, "%.1f"), results.Spread(others, "%.0f"))
	spreadText(b, have[version{}.name()], pairs)
	alarms := falseAlarms(b, unchanged(have), pairs)
	changesText(b, have, alarms, pairs)
}

// unchanged are the runs of all versions that hold what the unchanged one holds.
func unchanged(have runsOf) []check.Run {
	var out []check.Run
	for _, v := range versions() {
		if v.percent == 0 {
			out = append(out, have[v.name()]...)
		}
	}
	return out
}

func boundNames() string {
	var out []string
	for _, bound := range bounds() {
		out = append(out, bound.Measure.Name)
	}
	return strings.Join(out, ", ")
}

// spreadText says how far the runs of one version are apart.
func spreadText(b *strings.Builder, base []check.Run, pairs int) {
	fmt.Fprintf(b, "\n### One version\n\n%d runs of the unchanged version, in MiB: median (least … most), how far apart these are, and the part of the median that a pair\n"+
		"of %d runs a side can tell apart (the width of the 95 %% interval of a difference, median of %d pairs).\n\n| measure | MiB | apart | interval |\n|---|--:|--:|--:|\n", len(base), runs, pairs)
	if len(base) < 2*runs {
		b.WriteString("| not measured | | | |\n")
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
		fmt.Fprintf(b, "| %s | %s | %.2f %% | %.2f %% |\n", bound.Measure.Name, results.Spread(v, "%.2f"), 100*(slices.Max(v)-slices.Min(v))/results.Median(v), 100*results.Median(widths[bound.Measure.Name]))
	}
}

// falseAlarms judges the unchanged version against itself.
func falseAlarms(b *strings.Builder, base []check.Run, pairs int) (t tally) {
	b.WriteString("\n### False alarms\n\n")
	sets := min(mostSets, len(base)/(2*runs))
	if sets < 2 {
		fmt.Fprintf(b, "Not measured: of the unchanged version there are %d runs, and a pair with fresh runs takes %d.\n", len(base), 4*runs)
		return t
	}
	r := rand.New(rand.NewPCG(2, 2))
	for range pairs {
		both := drawn(r, base, 2*sets*runs)
		t.add(judge(both[:sets*runs], both[sets*runs:]), "")
	}
	fmt.Fprintf(b, "The unchanged version against itself, %d pairs of up to %d sets a side, drawn of %d runs.\n\n"+
		"| rule | false alarms | not known |\n|---|--:|--:|\n| `tare check` | %d, %s | %s |\n| one run a side, 110 %% | %d, %s | |\n| one run a side, 200 %% (the default of github-action-benchmark) | %d, %s | |\n",
		t.pairs, sets, len(base), t.failed, share(t.failed, t.pairs), share(t.unknown, t.pairs), t.ratio, share(t.ratio, t.pairs), t.alert, share(t.alert, t.pairs))
	return t
}

// changesText judges each changed version against the unchanged one, and all by the goals.
func changesText(b *strings.Builder, have runsOf, alarms tally, pairs int) {
	b.WriteString("\n### Changes\n\nEach changed version against the unchanged one: the share of pairs in which a rule says that it grew, and for `tare check` in which\n" +
		"what failed is what was changed. Up to 1 % is allowed. A change of speed alone should fail nowhere.\n\n" +
		"| change | runs | measured change | `tare check` fails | owner right | not known | 110 % | 200 % |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	base := have[version{}.name()]
	var missing []string
	sums := map[string]*tally{}
	for _, v := range versions()[1:] {
		head := have[v.name()]
		sets := min(2, len(head)/runs, len(base)/runs)
		if sets < 2 {
			missing = append(missing, v.name())
			continue
		}
		t := changeTally(v, base, head, sets, pairs)
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", v.name(), len(head), measured(v, base, head), share(t.failed, t.pairs), share(t.right, t.failed), share(t.unknown, t.pairs),
			share(t.ratio, t.pairs), share(t.alert, t.pairs))
		for _, name := range v.goals() {
			if sums[name] == nil {
				sums[name] = &tally{}
			}
			sums[name].join(t)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(b, "\nNot measured: %s.\n", strings.Join(missing, ", "))
	}
	b.WriteString("\n### Goals\n\n| goal | `tare check` | | 110 % | 200 % |\n|---|--:|---|--:|--:|\n")
	atMost := func(n, of int) bool { return n*50 <= of }
	goal(b, "at most 1 false alarm in 50", &alarms, atMost)
	goal(b, "a change of speed alone fails at most 1 time in 50", sums[goalSpeed], atMost)
	goal(b, "effects of 5 % found in all", sums["5"], func(n, of int) bool { return n == of })
	goal(b, "effects of 2 % found in 9 of 10", sums["2"], func(n, of int) bool { return 10*n >= 9*of })
	goal(b, "effects of 10 % found in all", sums["10"], func(n, of int) bool { return n == of })
	if t := sums[goalFound]; t != nil {
		fmt.Fprintf(b, "| the owner named right in all that were found | %s | %s | | |\n", share(t.right, t.failed), results.Reached(t.right == t.failed))
	}
}

// Sums of tallies that the goals are of, besides those of a percentage.
const goalSpeed, goalFound = "speed", "found"

// goals are the sums that a version counts in.
func (v version) goals() []string {
	switch {
	case v.kind == "spin":
		return []string{goalSpeed}
	case v.percent > 1: // less is allowed
		return []string{fmt.Sprintf("%g", v.percent), goalFound}
	}
	return nil
}

// goal says in which share of pairs the rules say that something grew, and whether that of
// tare check is as it should be.
func goal(b *strings.Builder, name string, t *tally, should func(n, of int) bool) {
	if t == nil || t.pairs == 0 {
		fmt.Fprintf(b, "| %s | not measured | | | |\n", name)
		return
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", name, share(t.failed, t.pairs), results.Reached(should(t.failed, t.pairs)), share(t.ratio, t.pairs), share(t.alert, t.pairs))
}

func changeTally(v version, base, head []check.Run, sets, pairs int) tally {
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
