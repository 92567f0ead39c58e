package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/trial"
)

// A replayed search gets each of its trials from a bank: one recorded trial as a whole,
// drawn from those of the same setup at the nearest limits. Where the bank has none, a
// model answers:
//
//   - Setups are of one kind that differ in nothing but sizes (-Xmx, -Xmn, …Size=). A
//     trial with another heap answers for a limit that is as much larger as its heap, and
//     what it needed is moved by that. Up to sizesApart that is no model.
//   - A setup of no recorded kind is answered by the kind that differs in fewest words.
//   - Between limits the nearer is drawn more often, by the straight line. That is no
//     model up to limitsApart, nor where both sides failed, or had room.
//   - Beyond the recorded limits the outermost answer: a model unless those below failed,
//     or those above have a heap of a fixed size.
//   - With a heap of a fixed size, a trial that passed answers for all limits down to its
//     highest usage. That is no model.
//   - A run of ten times the load, and one with half the processors, is answered by one
//     of the load, and not counted: it tells nothing of what these would.
//   - A trial that is to be squeezed has what a squeeze left at the nearest limit at which one
//     was made, worked out anew from its steps (trial.CacheNeeded).
//   - Where all recorded trials needed more than the limit, the kernel kills, or of a heap
//     that follows the limit the nearest answers.
const (
	// sizesApart and leastApart are how far sizes may be apart, as a share and in bytes.
	sizesApart, leastApart = 0.1, 3 * mib
	// limitsApart is how far the two nearest limits may be apart, and sameLimit those
	// of trials that are drawn from alike; shares of the limit.
	limitsApart, sameLimit = 0.08, 0.01
	// mostModelled is the share of a search's trials that may come from the model.
	mostModelled = 0.1
)

// laterOption is an option that a lever has had since banks were recorded: it moves no memory
// (docs/results/allocation-buffers.md), and their trials answer for it, at a higher cost.
const laterOption = "-XX:TLABWasteTargetPercent="

var sizeOption = regexp.MustCompile(`^(-Xm[xns]|-XX:[A-Za-z]+Size=)(\d{1,9})m$`)

// kindOf is what a setup adds but for its sizes, in an order of its own, and those.
func kindOf(s fit.Setup) (words []string, sizes map[string]int64) {
	sizes = map[string]int64{}
	for _, o := range s.Options {
		if strings.HasPrefix(o, laterOption) {
			continue
		}
		if m := sizeOption.FindStringSubmatch(o); m != nil {
			n, _ := strconv.ParseInt(m[2], 10, 64) // nine digits at most
			sizes[m[1]] = n * mib
			o = m[1]
		}
		words = append(words, o)
	}
	words = append(words, s.Env...)
	if s.Jar != "" {
		words = append(words, s.Jar)
	}
	if s.NoHugePages {
		words = append(words, "no huge pages")
	}
	slices.Sort(words)
	return words, sizes
}

func (t training) kind() string {
	words, _ := kindOf(t.Setup)
	return strings.Join(append(words, t.Option), "\n")
}

const heapSize = "-Xmx"

// recorded is a trial of a bank with its sizes.
type recorded struct {
	*made
	sizes map[string]int64
}

// kind is the trials of one kind of setup.
type kind struct {
	words  []string
	trials []recorded
}

// replayed is a bank that is ready to be replayed.
type replayed struct {
	*bank
	slo   trial.SLO
	given jvmopts.Options
	// prefer is what its searches prefer.
	prefer fit.Prefer
	kinds  map[string]*kind
	order  []*kind // as recorded
}

func newReplayed(b *bank) (*replayed, error) {
	r := &replayed{bank: b, prefer: fit.PreferMemory, kinds: map[string]*kind{}}
	var errs [2]error
	r.slo, errs[0] = trial.ParseSLO(trial.DefaultSLO) // as it is now
	r.given, errs[1] = given(b.head.Java, b.head.Command)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("bank of %s: %w", b.head.Cell, err)
	}
	if b.baseline() == nil {
		return nil, fmt.Errorf("bank of %s: it has no baseline that passed", b.head.Cell)
	}
	for _, m := range b.trials {
		if m.Phase == fit.PhaseLong || m.Phase == fit.PhaseHalf {
			continue // they had another load
		}
		words, sizes := kindOf(m.Setup)
		key := strings.Join(words, "\n")
		if r.kinds[key] == nil {
			r.kinds[key] = &kind{words: words}
			r.order = append(r.order, r.kinds[key])
		}
		r.kinds[key].trials = append(r.kinds[key].trials, recorded{m, sizes})
	}
	return r, nil
}

// search is a search of the cell by the trier.
func (r *replayed) search(t fit.Trier) *fit.Search {
	terms := defaultTerms()
	terms.Prefer = r.prefer
	c := fit.Config{CPUs: r.head.Cell.CPUs, Java: fit.Java{Version: r.head.Java}, Given: r.given, Levers: fit.Levers, Terms: terms, SLO: r.slo,
		AmpleBytes: r.head.AmpleBytes, ReadAheadBytes: r.head.ReadAheadBytes}
	s := c.Search(t)
	// These two the config reads from files and the runner of this machine.
	s.Facts.Nested, s.Facts.Inherits = r.head.Nested, true
	return s
}

// candidate is a trial that may answer an attempt: at is the limit that it answers for,
// by how much its heap is moved.
type candidate struct {
	recorded
	at, moved int64
}

// candidates are the trials that may answer for a setup, and whether that is by the model.
func (r *replayed) candidates(s fit.Setup) (all []candidate, modelled bool) {
	words, sizes := kindOf(s)
	k := r.kinds[strings.Join(words, "\n")]
	if k == nil {
		modelled = true
		k = slices.MinFunc(r.order, func(a, b *kind) int { return differing(a.words, words) - differing(b.words, words) })
	}
	nearest := math.Inf(1)
	for _, t := range k.trials {
		nearest = min(nearest, apart(t.sizes, sizes))
	}
	modelled = modelled || nearest > 1
	for _, t := range k.trials {
		if apart(t.sizes, sizes) > max(1, nearest) {
			continue
		}
		c := candidate{recorded: t, at: t.LimitBytes}
		if sizes[heapSize] > 0 && t.sizes[heapSize] > 0 {
			c.moved = sizes[heapSize] - t.sizes[heapSize]
			c.at += c.moved
		}
		all = append(all, c)
	}
	return all, modelled
}

// differing counts the words that are in one of two sorted lists alone.
func differing(a, b []string) int {
	n := 0
	for _, w := range a {
		if !slices.Contains(b, w) {
			n++
		}
	}
	for _, w := range b {
		if !slices.Contains(a, w) {
			n++
		}
	}
	return n
}

// apart is how far sizes are apart: above 1 is too far.
func apart(have, wanted map[string]int64) float64 {
	most := 0.0
	for name, w := range wanted {
		if h, ok := have[name]; ok {
			most = max(most, math.Abs(float64(h-w))/max(leastApart, sizesApart*float64(w)))
		}
	}
	return most
}

// pool is the trials that an attempt is answered from.
type pool struct {
	below, above []candidate
	// share is that of draws from above.
	share    float64
	modelled bool
}

func (p pool) size() int { return len(p.below) + len(p.above) }

// poolOf finds the trials at the limits nearest to one.
func (r *replayed) poolOf(s fit.Setup, limit int64) pool {
	all, modelled := r.candidates(s)
	p := pool{modelled: modelled}
	fixed := slices.ContainsFunc(s.Options, func(o string) bool { return strings.HasPrefix(o, heapSize) })
	for i, c := range all {
		if fixed && c.at > limit && c.enough() && c.Result.PeakBytes+c.moved <= limit {
			all[i].at = limit // it never used more: a larger limit was without effect
		}
	}
	low, high := int64(0), int64(math.MaxInt64)
	for _, c := range all {
		if c.at <= limit {
			low = max(low, c.at)
		}
		if c.at >= limit {
			high = min(high, c.at)
		}
	}
	near := int64(sameLimit * float64(limit))
	for _, c := range all {
		switch {
		case c.enough() && c.Result.NeededBytes+c.moved > limit: // it would have been killed
		case c.at <= limit && c.at >= low-near:
			p.below = append(p.below, c)
		case c.at >= limit && c.at-near <= high:
			p.above = append(p.above, c)
		}
	}
	switch {
	case p.size() == 0: // all of them needed more than the limit
		for _, c := range all {
			if fixed { // a heap that follows the limit may need less
				c = c.killed(limit)
			}
			if c.at == low || c.at == high {
				p.above = append(p.above, c)
			}
		}
		p.share, p.modelled = 1, true
	case len(p.below) == 0:
		p.share = 1
		p.modelled = p.modelled || high > limit+near && !all1(p.above, failed)
	case len(p.above) == 0:
		p.modelled = p.modelled || float64(limit-low) > limitsApart*float64(limit) && !(fixed && all1(p.below, candidate.enough))
	case high > low:
		p.share = float64(limit-low) / float64(high-low)
		alike := all1(p.below, failed) && all1(p.above, failed) || all1(p.below, candidate.roomy) && all1(p.above, candidate.roomy)
		p.modelled = p.modelled || float64(high-low) > limitsApart*float64(limit) && !alike
	default:
		p.share = float64(len(p.above)) / float64(p.size())
	}
	return p
}

func all1(of []candidate, holds func(candidate) bool) bool {
	return !slices.ContainsFunc(of, func(c candidate) bool { return !holds(c) })
}

// enough says that memory did not fail the trial.
func (c candidate) enough() bool { return !failedByMemory(c.Result) }

// roomy says that memory had no part in how a trial went.
func (c candidate) roomy() bool {
	seconds := 1.0
	if c.Result.Load != nil {
		seconds = max(seconds, c.Result.Load.Elapsed.Seconds())
	}
	return c.enough() && float64(c.Result.RefaultBytes) < trial.InnocentRefault*seconds*float64(c.LimitBytes)
}

func failed(c candidate) bool { return failedByMemory(c.Result) }

// killed is the trial as one that the kernel ended at a limit.
func (c candidate) killed(limit int64) candidate {
	m, res := *c.made, *c.Result
	res.Verdict, res.Evidence = trial.OOMKilled, []string{"it needed more than the limit when it was recorded"}
	res.Ended, res.Load, res.NeededBytes, res.PeakBytes = true, nil, limit-c.moved, limit-c.moved
	m.Result, c.made = &res, &m
	return c
}

// failedByMemory says that a trial failed, and was not just slow or answered badly.
func failedByMemory(r *trial.Result) bool {
	switch r.Verdict {
	case trial.Passed, trial.TooSlow, trial.Errors:
		return false
	}
	return true
}

func (p pool) draw(rng *rand.Rand) candidate {
	from := p.below
	if rng.Float64() < p.share {
		from = p.above
	}
	if len(from) == 0 {
		from = slices.Concat(p.below, p.above)
	}
	return from[rng.IntN(len(from))]
}

// replayer is a Trier that draws from a bank.
type replayer struct {
	*replayed
	rng *rand.Rand
	// asked and modelled count trials and training runs.
	asked, modelled int
	pools           []float64 // how many trials each was drawn from
	trained         *training
	training        time.Duration
	// wanted is told what is asked for, and how many trials may answer; nil is nobody.
	wanted func(w want, have int)
}

// want is a trial that is asked for.
type want struct {
	why     string
	phase   fit.Phase
	setup   fit.Setup
	limit   int64
	squeeze bool
	trained *training
}

// Try draws a trial.
func (r *replayer) Try(_ context.Context, a fit.Attempt) (fit.Outcome, error) {
	o, p := r.drawn(a)
	r.answered(a, p)
	return o, nil
}

// drawn is an answer, and what it was drawn from.
func (r *replayer) drawn(a fit.Attempt) (fit.Outcome, pool) {
	p := r.poolOf(a.Setup, a.LimitBytes)
	o := r.judge(p.draw(r.rng), a)
	if a.Squeeze && o.Passed && o.CacheBytes == 0 {
		var told bool
		o, told = r.squeezed(a, o)
		p.modelled = p.modelled || !told
	}
	return o, p
}

// answered counts an answer that the search has got.
func (r *replayer) answered(a fit.Attempt, p pool) {
	if a.Phase != fit.PhaseLong && a.Phase != fit.PhaseHalf {
		r.count(p.modelled)
	}
	r.pools = append(r.pools, float64(p.size()))
	if r.wanted != nil {
		w := want{byWant, a.Phase, a.Setup, a.LimitBytes, a.Squeeze, nil}
		if usesArchive(a.Setup) {
			w.trained = r.trained
		}
		have := p.size()
		if p.modelled {
			have = 0
		}
		r.wanted(w, have)
	}
}

// squeezed is the outcome with what a squeeze left at the nearest limit that one followed
// and that passes as well; told is false where there is none.
func (r *replayer) squeezed(a fit.Attempt, o fit.Outcome) (with fit.Outcome, told bool) {
	all, modelled := r.candidates(a.Setup)
	var nearest []int64
	least := int64(math.MaxInt64)
	for _, c := range all {
		away := max(c.at-a.LimitBytes, a.LimitBytes-c.at)
		if c.Result.CacheBytes == 0 || c.Result.NeededBytes+c.moved > a.LimitBytes || away > least || !r.judge(c, a).Passed {
			continue
		}
		if away < least {
			nearest = nil
		}
		nearest, least = append(nearest, c.Result.CacheBytes), away
	}
	if len(nearest) == 0 {
		return o, false
	}
	o.CacheBytes = nearest[r.rng.IntN(len(nearest))]
	return o, !modelled
}

func (r *replayer) count(modelled bool) {
	r.asked++
	if modelled {
		r.modelled++
	}
}

// Train draws a training run.
func (r *replayer) Train(_ context.Context, a fit.Attempt, option string) (string, error) {
	t := training{a.Setup, option}
	r.trained = &t
	var all, alike []archive
	for _, made := range r.archives {
		if made.Option == option {
			all = append(all, made)
			if made.kind() == t.kind() {
				alike = append(alike, made)
			}
		}
	}
	r.count(len(alike) == 0)
	if len(alike) == 0 {
		alike = all
	}
	if len(alike) == 0 {
		return archiveHere, nil
	}
	drawn := alike[r.rng.IntN(len(alike))]
	r.training += drawn.Took
	if drawn.Failure != "" {
		return "", fmt.Errorf("%w: %s", fit.ErrNoArchive, drawn.Failure)
	}
	return archiveHere, nil
}

// Extract names the extracted jar.
func (r *replayer) Extract(context.Context) (string, error) {
	if !r.head.Nested {
		return "", fit.ErrNotExtracted
	}
	return jarHere, nil
}

// judge is the outcome of a recorded trial for an attempt: the objective is checked
// against the attempt's baseline, and the limit is the attempt's.
func (r *replayed) judge(c candidate, a fit.Attempt) fit.Outcome {
	res := *c.Result
	res.Limits.MemoryBytes = a.LimitBytes
	res.Time = time.Time{} // when it was recorded says nothing of the others of the search
	res.NeededBytes += c.moved
	res.PeakBytes = min(res.PeakBytes+c.moved, a.LimitBytes)
	if !a.Squeeze {
		res.CacheBytes = 0
	}
	if res.Load != nil && res.ReadyAfter > 0 && !res.Ended && res.Verdict != trial.OOMKilled {
		e := evidenceOf(&res)
		slo := r.slo
		if a.ByTime {
			slo = slo.ByTime()
		}
		e.Broken = slo.Check(res.Measured(), a.Baseline)
		res.Broken, res.Narrow = e.Broken, e.NarrowMiss()
		res.Verdict, res.Evidence = trial.Judge(e)
	}
	return fit.OutcomeOf(&res)
}

// evidenceOf is the evidence of a trial that lived to the end of its load.
func evidenceOf(r *trial.Result) trial.Evidence {
	e := trial.Evidence{LimitBytes: r.Limits.MemoryBytes, Exit: r.Exit, Ready: true, ReadyAfter: r.ReadyAfter, Window: r.Load.Elapsed,
		Collections: r.Collections, RefaultBytes: r.RefaultBytes, Others: r.Others, Load: r.Load}
	share := func(s *float64) *time.Duration {
		if s == nil {
			return nil
		}
		d := time.Duration(*s * float64(e.Window))
		return &d
	}
	e.GCTime, e.Stalled = share(r.GCShare), share(r.StallShare)
	for _, text := range r.Evidence {
		if log, ok := strings.CutPrefix(text, "log: "); ok && strings.Contains(log, "java.lang.OutOfMemoryError") {
			e.Log.OutOfMemory = log
		}
	}
	return e
}

// replay is a search that was replayed.
type replay struct {
	seed uint64
	answer
	modelled float64 // share of its trials
	pools    []float64
	// met is how many of the runs that confirm it met the objective, speed and all.
	met int
	// below and failedBelow say that there was a run below the answer, and that memory
	// failed it; pressedBelow that it did so or waited for memory as long as no limit may
	// that a search looks for.
	below, failedBelow, pressedBelow bool
	// need is what its limit is made of; nil where its heap follows the limit.
	need *fit.Need
	// wall is how long it took.
	wall time.Duration
}

// counts says that it was answered from the bank and not from the model.
func (r replay) counts() bool { return r.modelled <= mostModelled }

// run replays one search on one node, the same for the same seed. Observe and wanted may be
// nil.
func (r *replayed) run(seed uint64, observe func(fit.Event), wanted func(want, int)) (replay, error) {
	return r.runOn(1, seed, observe, wanted)
}

// runOn replays one search on some nodes.
func (r *replayed) runOn(nodes int, seed uint64, observe func(fit.Event), wanted func(want, int)) (replay, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.head.Cell.String())) // never fails
	t := &replayer{replayed: r, rng: rand.New(rand.NewPCG(seed, h.Sum64())), wanted: wanted}
	w := &wall{replayer: t, lengths: rand.New(rand.NewPCG(seed, 1))}
	s := r.search(w.on(nodes))
	s.Observe = observe
	found, err := s.Run(context.Background())
	if err != nil && !fit.Ended(err) {
		return replay{}, fmt.Errorf("replay of %s with seed %d: %w", r.head.Cell, seed, err)
	}
	rep := replay{seed: seed, answer: answerOf(found, err), modelled: float64(t.modelled) / float64(max(1, t.asked)), pools: t.pools}
	rep.Took += t.training
	rep.wall = w.now + t.training
	rep.need = found.Need
	for _, run := range found.Confirmations {
		if run.Passed {
			rep.met++
		}
	}
	for _, run := range found.Trials {
		if run.Phase == fit.PhaseBelow {
			rep.below, rep.failedBelow = true, r.lacked(run.Result)
			rep.pressedBelow = rep.failedBelow || run.Pressed
		}
	}
	return rep, nil
}
