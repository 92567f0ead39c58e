package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"tare.dev/tare/bench/ways"
)

// wayHand is the way of somebody who tries levers by hand, with much patience.
const wayHand = "by hand"

const (
	// beamWidth is how many sets of levers go on from a round, by each of the measures.
	beamWidth = 2
	// beamGain is by how much a round must lower one of them for another one to come.
	beamGain = 0.005
	// handRoom is the limit that sets are compared with, of the best other's.
	handRoom = 1.5
)

// handLever is what is tried by hand. Of those of one name a set has one.
type handLever struct {
	name         string
	options, env []string
	// archive says that a class archive is trained and used.
	archive bool
	// trained says that an archive holds only with the options that it was trained with.
	trained bool
	// since is the first JDK that has it.
	since int
}

// heapLadder are the heaps that are tried, in MiB.
var heapLadder = []int64{6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200}

// handLevers are the ten that are stated, with a heap that was found to be the smallest of
// the ladder.
func handLevers(heap int) []handLever {
	out := []handLever{
		{name: "serial collector", options: []string{"-XX:+UseSerialGC"}, trained: true},
		{name: "compact headers", options: []string{"-XX:+UseCompactObjectHeaders"}, trained: true, since: 25},
		{name: "C1 alone", options: []string{"-XX:TieredStopAtLevel=1"}},
		{name: "one arena", env: []string{"MALLOC_ARENA_MAX=1"}},
		{name: "small stacks", options: []string{"-Xss512k"}},
		{name: "hot code alone", options: []string{"-XX:CompileThresholdScaling=10"}},
		{name: "class archive", archive: true, since: 13},
		{name: "archive not relocated", options: []string{"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"}, since: 17},
	}
	for _, h := range heapLadder[heap:min(heap+3, len(heapLadder))] {
		out = append(out, handLever{name: "heap", options: []string{fmt.Sprintf("-Xmx%dm", h)}})
	}
	for _, young := range []string{"1m", "3m"} {
		out = append(out, handLever{name: "young generation", options: []string{"-Xmn" + young}})
	}
	return out
}

// hand searches by hand.
type hand struct {
	levers []handLever
	limit  int64 // sets are compared with
	// archive is the option that uses an archive of a name.
	archive func(name string) string
	try     func(limit int64, chosen record) (record, error)
}

// handSet is a set of levers, by their places, and what was needed and resident with it.
type handSet struct {
	levers           []int
	needed, resident int64
}

// measureHand looks for the smallest limit by a beam search over stated levers.
func (m *measurer) measureHand(ctx context.Context) error {
	best := m.whole().best(m.cell)
	if !m.hand || best == nil || m.found(m.cell, wayHand) != nil {
		return nil
	}
	slo, err := m.slo(ctx)
	if err != nil {
		return err
	}
	p := &peer{measurer: m, way: ways.Way{Name: wayHand}, slo: slo}
	h := &hand{limit: wholeMiB(int64(handRoom * float64(best.LimitBytes))), archive: m.archiveOption,
		try: func(limit int64, chosen record) (record, error) { return p.tryChosen(ctx, searching, limit, chosen) }}
	heap, err := h.smallestHeap()
	if err != nil {
		return err
	}
	jdk, err := strconv.Atoi(m.shape.jdk)
	if err != nil {
		return err
	}
	h.levers = slices.DeleteFunc(handLevers(heap), func(l handLever) bool { return jdk < l.since })
	sets, err := h.beam()
	if err != nil {
		return err
	}
	found, err := h.finish(sets)
	if err != nil {
		return err
	}
	r := m.ended(wayHand, answering)
	r.LimitBytes, r.Options, r.Env, r.Answer = found.LimitBytes, found.Options, found.Env, found.Answer
	r.Answer.Trials, r.Answer.SLO = p.number, slo
	return m.keep(r)
}

// smallestHeap is the place of the smallest heap of the ladder that passes with room.
func (h *hand) smallestHeap() (int, error) {
	var failed error
	place := sort.Search(len(heapLadder), func(i int) bool {
		if failed != nil {
			return true
		}
		r, err := h.try(ampleBytes, record{key: key{Way: wayHand}, Options: []string{"-XX:+UseSerialGC", fmt.Sprintf("-Xmx%dm", heapLadder[i])}})
		failed = err
		return r.passed()
	})
	return min(place, len(heapLadder)-1), failed
}

// beam tries what can be added to the best sets, round by round, and returns the best of
// all.
func (h *hand) beam() ([]handSet, error) {
	var all []handSet
	seen := map[string]bool{}
	front := []handSet{{}}
	for {
		round, err := h.round(front, seen)
		if err != nil {
			return nil, err
		}
		before := bestOf(all)
		all = append(all, round...)
		if best := bestOf(all); len(round) == 0 || len(before) > 0 && !gains(before, best) {
			return best, nil
		}
		front = bestOf(round)
	}
}

// round tries each set with each lever more, unless it was seen before, and returns those
// that passed.
func (h *hand) round(front []handSet, seen map[string]bool) ([]handSet, error) {
	var out []handSet
	for _, s := range front {
		for l := range h.levers {
			t, ok := h.with(s, l)
			name := fmt.Sprint(t.levers)
			if !ok || seen[name] {
				continue
			}
			seen[name] = true
			r, err := h.try(h.limit, h.chosenBy(t))
			if err != nil {
				return nil, err
			}
			if t.needed, t.resident = r.NeededBytes, r.resident(); r.passed() {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// measures are the two by which sets are the best: what cannot be dropped, and what is
// resident, with the files that are mapped.
var measures = []func(handSet) int64{
	func(s handSet) int64 { return s.needed },
	func(s handSet) int64 { return s.resident },
}

// bestOf are the best sets by each measure, as many as a beam has.
func bestOf(sets []handSet) []handSet {
	var out []handSet
	for _, m := range measures {
		byMeasure := slices.SortedStableFunc(slices.Values(sets), func(a, b handSet) int { return cmp.Compare(m(a), m(b)) })
		for _, s := range byMeasure[:min(beamWidth, len(sets))] {
			if !slices.ContainsFunc(out, func(o handSet) bool { return slices.Equal(o.levers, s.levers) }) {
				out = append(out, s)
			}
		}
	}
	return out
}

// gains says that the best sets are better than others by one of the measures.
func gains(before, best []handSet) bool {
	return slices.ContainsFunc(measures, func(m func(handSet) int64) bool {
		least := func(sets []handSet) float64 {
			return float64(m(slices.MinFunc(sets, func(a, b handSet) int { return cmp.Compare(m(a), m(b)) })))
		}
		return least(best) < (1-beamGain)*least(before)
	})
}

// with is a set with one lever more; false where it has one of that name.
func (h *hand) with(s handSet, lever int) (handSet, bool) {
	for _, l := range s.levers {
		if h.levers[l].name == h.levers[lever].name {
			return handSet{}, false
		}
	}
	t := handSet{levers: append(slices.Clone(s.levers), lever)}
	slices.Sort(t.levers)
	return t, true
}

// chosenBy are the options of a set: those that an archive was trained with come first.
func (h *hand) chosenBy(s handSet) record {
	r := record{key: key{Way: wayHand}}
	var rest []string
	var archive bool
	name := "hand"
	for _, i := range s.levers {
		l := h.levers[i]
		r.Env = append(r.Env, l.env...)
		archive = archive || l.archive
		if l.trained {
			r.Options, name = append(r.Options, l.options...), fmt.Sprintf("%s-%d", name, i)
		} else {
			rest = append(rest, l.options...)
		}
	}
	if archive {
		r.Options = append(r.Options, h.archive(name))
	}
	r.Options = append(r.Options, rest...)
	return r
}

// finish is the smallest limit of some sets, and its set.
func (h *hand) finish(sets []handSet) (record, error) {
	best := record{key: key{Way: wayHand}, Answer: &answer{Failure: "no set passed"}}
	for _, s := range sets {
		chosen := h.chosenBy(s)
		limit, err := smallest(h.limit, s.needed, func(limit int64) (bool, error) {
			r, err := h.try(limit, chosen)
			return r.passed(), err
		})
		if err != nil {
			return record{}, err
		}
		chosen.LimitBytes, chosen.Answer = limit, &answer{}
		if best.LimitBytes == 0 || limit < best.LimitBytes {
			best = chosen
		}
	}
	return best, nil
}

// handText compares with the limits that were found by hand.
func (b *bench) handText(t *strings.Builder) {
	const goal = 1.05
	var lines []string
	near := true
	for _, c := range b.cells() {
		found, best, tare, other := b.found(c, wayHand), b.equalled(c, wayHand), b.equalled(c, wayTare), b.bestEqual(c)
		if best == nil || tare == nil || other == nil || !best.Answer.found() || !tare.Answer.found() {
			continue
		}
		of := ratio(tare.LimitBytes, best.LimitBytes)
		near = near && of <= goal
		lines = append(lines, fmt.Sprintf("| %s | %s | %d | %d | %.2f | %.2f | %d | `%s` |\n", c.App, c.Shape, tare.LimitBytes/mib, best.LimitBytes/mib, of, ratio(best.LimitBytes, other.LimitBytes), found.Answer.Trials,
			b.withoutCache(strings.Join(slices.Concat(found.Env, found.Options), " "))))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(t, "\n## Against the hand\n\nA beam search over ten levers: the serial collector, compact headers, C1 alone, one malloc arena, stacks of 512 KiB, "+
		"compilation ten times as late, a class archive trained under the load, and not relocated, the heap (the three smallest of a ladder that pass with room), the young generation (1 or 3 MiB). "+
		"Each set is tried once, with %g of the best other's limit. The %d of which least cannot be dropped, and the %d of which least is resident, go on with each lever more, until a round lowers neither by %g %%. "+
		"Of the best of all by each the smallest limit is searched as for the others, and the smallest of them raised until all fresh runs pass, as tare's. "+
		"Its share of the best other's limit tells how far these levers go.\n\n"+
		"| application | shape | tare's limit MiB | by hand | tare's, of that by hand | by hand, of the best other's | trials by hand | what was found by hand |\n|---|---|---|---|---|---|---:|---|\n%s\n- at most %.2f of it in each: %s\n",
		handRoom, beamWidth, beamWidth, 100*beamGain, strings.Join(lines, ""), goal, reachedOn(near, len(lines), 2))
}
