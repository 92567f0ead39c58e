package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/testkit/results"
	"tare.dev/tare/internal/trial"
)

// maxSlow is the share of the fresh runs at a limit that may be slow without memory
// having a part in it; where more are, the way itself is too slow.
const maxSlow = 0.25

// measureFresh raises the limit of each way until as many fresh runs pass there as are
// wanted, that of others up to the best of them.
func (m *measurer) measureFresh(ctx context.Context) error {
	if m.fresh == 0 {
		return nil
	}
	slo, err := m.objective(ctx, freshly+beside, 0, m.share)
	if err != nil {
		return err
	}
	best := int64(ampleBytes)
	for _, w := range m.byStart() {
		first := startOf(*m.found(m.cell, w.Name))
		if first >= best {
			break
		}
		choose := func(limit int64) (record, error) { return m.chosen(w, limit) }
		most := best
		if w.Rule != nil {
			most = first
		}
		r, err := m.equal(ctx, w.Name, first, most, slo, choose)
		if err != nil {
			return err
		}
		if r.Answer.found() {
			best = min(best, r.LimitBytes)
		}
	}
	for _, way := range []string{wayTare, wayHand} {
		found := m.found(m.cell, way)
		if found == nil || !found.Answer.found() {
			continue
		}
		if _, err = m.equal(ctx, way, found.LimitBytes, ampleBytes, slo, func(int64) (record, error) { return *found, nil }); err != nil {
			return err
		}
	}
	return nil
}

// byStart are the other ways that can be tried, those of the smallest limits first.
func (m *measurer) byStart() []ways.Way {
	out := slices.DeleteFunc(slices.Clone(m.ways), func(w ways.Way) bool {
		r := m.found(m.cell, w.Name)
		return r == nil || r.Answer.Failure != "" || r.Answer.Over == "refused"
	})
	slices.SortStableFunc(out, func(a, b ways.Way) int {
		return cmp.Compare(startOf(*m.found(m.cell, a.Name)), startOf(*m.found(m.cell, b.Name)))
	})
	return out
}

// startOf is the first limit that is tried: what was found by a few runs, or the next one
// above that at which they failed.
func startOf(found record) int64 {
	if found.Answer.Over != "" {
		return raised(found.LimitBytes)
	}
	return found.LimitBytes
}

// equal raises a way's limit from first until its fresh runs pass, and keeps where they did.
func (m *measurer) equal(ctx context.Context, way string, first, most int64, slo string, choose func(limit int64) (record, error)) (*record, error) {
	if r := m.equalled(m.cell, way); r != nil {
		return r, nil
	}
	a := answer{SLO: slo}
	limit, err := confirmed(first, most, 1, func(limit int64) (bool, error) {
		chosen, err := choose(limit)
		if errors.Is(err, ways.ErrUnfit) {
			a.Over = "refused"
			return false, nil
		}
		if err == nil {
			err = m.remake(ctx, chosen)
		}
		if err != nil {
			return false, err
		}
		a.Over, err = m.allPass(ctx, chosen, limit, &a)
		return a.Over == "", err
	})
	if err != nil {
		return nil, err
	}
	r := m.ended(way, equalling)
	r.LimitBytes, r.Answer = cmp.Or(limit, most), &a
	return &r, m.keep(r)
}

// allPass makes fresh runs until one fails, whose verdict it returns, or as many as wanted
// passed. Those that were slow for another reason than memory say nothing about a limit,
// and are made anew.
func (m *measurer) allPass(ctx context.Context, chosen record, limit int64, a *answer) (failed trial.Verdict, err error) {
	passed, slow := 0, 0
	for passed < m.fresh {
		a.Trials++
		r, err := m.trial(ctx, chosen.attempt(freshly, a.Trials, limit, a.SLO))
		switch {
		case err != nil:
			return "", err
		case r.passed():
			passed++
		case r.Verdict == trial.TooSlow && slow < int(maxSlow*float64(m.fresh)):
			slow++
			a.Slow++
		default:
			return r.Verdict, nil
		}
	}
	return "", nil
}

// freshAt are the fresh runs of a way that passed at its limit of equal robustness.
func (b *bench) freshAt(r record) []record {
	return slices.DeleteFunc(b.of(r.cell, r.Way, freshly), func(t record) bool { return !t.passed() || t.LimitBytes != r.LimitBytes })
}

// equalled is the limit of equal robustness of a way in a cell, nil where there is none.
func (b *bench) equalled(c cell, way string) *record {
	r, ok := b.done[key{c, way, equalling, 0, b.plan}]
	if !ok {
		return nil
	}
	return &r
}

// bestEqual is the best of the others.
func (b *bench) bestEqual(c cell) *record {
	var best *record
	for _, w := range b.ways {
		if r := b.equalled(c, w.Name); r != nil && r.Answer.found() && (best == nil || r.LimitBytes < best.LimitBytes) {
			best = r
		}
	}
	return best
}

// equalText compares the limits at which all fresh runs pass.
func (b *bench) equalText(t *strings.Builder) {
	var lines []string
	var shares, costs []float64
	least := int64(math.MaxInt64)
	for _, c := range b.cells() {
		best, tare := b.bestEqual(c), b.equalled(c, wayTare)
		if best == nil || tare == nil || !tare.Answer.found() {
			continue
		}
		share, cost := ratio(tare.LimitBytes, best.LimitBytes), results.Median(processors(b.freshAt(*tare)))/results.Median(processors(b.freshAt(*best)))
		shares, costs = append(shares, share), append(costs, cost)
		for _, way := range append(ways.Names(b.ways), wayTare) {
			lines = append(lines, b.equalLine(c, way, best))
			if r := b.equalled(c, way); r != nil {
				for _, run := range b.freshAt(*r) {
					least = min(least, run.Requests)
				}
			}
		}
	}
	if len(shares) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## At equal robustness\n\nThe limit of each way, raised by 3 %% until %d fresh runs in a row pass; that of the others from the smallest that a few runs had found, "+
		"and up to the best of them. Each is judged by the objective above, with baselines made right before. A run that is slow without memory having a part in it says nothing about a limit: it is made anew, %.0f %% of the runs at most. "+
		"The fewest requests of a run were %d. Processor time is that of the load over its requests, of the runs that passed at the limit: median (minimum … maximum). Where tare was asked anew, hours lie between its runs and those of the others, and the machine may have slowed: limits compare then, processor times less so.\n\n"+
		"| application | shape | way | limit MiB | of the best other's | fresh runs | slow, made anew | ms of a processor per request |\n|---|---|---|---|---|---:|---:|---|\n%s", b.fresh, 100*maxSlow, least, strings.Join(lines, ""))
	fmt.Fprintf(t, "\nOver %d of %d applications and JDKs that have this to be measured, geometric means:\n\n", len(shares), b.countEqual())
	share, cost := geometric(shares), geometric(costs)
	fmt.Fprintf(t, "- tare's limit of the best other's: %.2f; goal at most %.2f: %s\n", share, goalEqual, reachedOn(share <= goalEqual, len(shares), b.countEqual()))
	fmt.Fprintf(t, "- tare's processor time for a request of that other's: %.2f; goal at most %.2f: %s\n", cost, goalCost, reachedOn(cost <= goalCost, len(shares), b.countEqual()))
}

// countEqual is how many cells the goals of equal robustness are about: JDK 25 and 17 on
// one processor.
func (b *bench) countEqual() int {
	n := 0
	for _, s := range b.shapes {
		if s.cpus == 1 {
			n += b.countOn(s)
		}
	}
	return n
}

// reachedOn is how a goal stands with some of its cells measured.
func reachedOn(ok bool, measured, of int) string {
	if ok && measured < of {
		return "so far"
	}
	return results.Reached(ok)
}

func (b *bench) equalLine(c cell, way string, best *record) string {
	r := b.equalled(c, way)
	switch {
	case r == nil:
		why := "not measured"
		switch found := b.found(c, way); {
		case found == nil:
		case found.Answer.Failure != "":
			why = "none: " + found.Answer.Failure
		case found.Answer.Over == "refused":
			why = fmt.Sprintf("over %d: refused", found.LimitBytes/mib)
		default:
			why = fmt.Sprintf("not tried: %d or more", startOf(*found)/mib)
		}
		return fmt.Sprintf("| %s | %s | %s | %s | | | | |\n", c.App, c.Shape, way, why)
	case !r.Answer.found():
		return fmt.Sprintf("| %s | %s | %s | over %d: %s | | %d | %d | |\n", c.App, c.Shape, way, r.LimitBytes/mib, r.Answer.Over, r.Answer.Trials, r.Answer.Slow)
	}
	var ms []float64
	for _, s := range processors(b.freshAt(*r)) {
		ms = append(ms, 1000*s)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %.2f | %d | %d | %s |\n", c.App, c.Shape, way, r.LimitBytes/mib, ratio(r.LimitBytes, best.LimitBytes), r.Answer.Trials, r.Answer.Slow, results.Spread(ms, "%.2f"))
}

func processors(trials []record) []float64 {
	var out []float64
	for _, r := range trials {
		out = append(out, r.Processor)
	}
	return out
}
