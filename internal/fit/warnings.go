package fit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tare.dev/tare/internal/trial"
)

// warnings collects what the trials could not measure, each once, and what
// stood in the way of measuring well.
func warnings(f *Found) []string {
	var out []string
	seen := make(map[string]bool)
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	disturbed := 0
	var baselines []Trial
	for _, t := range f.Trials {
		if t.Result == nil {
			continue
		}
		for _, w := range t.Result.Warnings {
			add(w)
		}
		if t.disturbed() {
			disturbed++
		}
		if t.Phase == PhaseBaseline {
			baselines = append(baselines, t)
		}
	}
	if slices.ContainsFunc(f.Confirmations, Trial.codeCacheFull) {
		add("the code cache was full, and the JVM stopped to compile for a while: a larger -XX:ReservedCodeCacheSize helps")
	}
	for _, w := range growthWarnings(f.Confirmations, f.Long) {
		add(w)
	}
	for _, w := range []string{f.OtherJVM, f.OwnHeap, f.slowWarning(), f.unwarmed(), f.coldWarning(), f.lightWarning(), f.directWarning(), f.outgrownWarning(), f.cappedWarning()} {
		if w != "" {
			add(w)
		}
	}
	if disturbed > 0 {
		add(fmt.Sprintf("other processes took more than a tenth of the processors in %d of %d trials: rates are less certain", disturbed, len(f.Trials)))
	}
	if sp := spread(baselines); sp > maxSpread {
		add(fmt.Sprintf("the fastest baseline was %.0f %% faster than the slowest", 100*sp))
	}
	return out
}

// lightWork is the processor time of a load below which what it costs is told badly: one
// collection of tens of milliseconds more is several per cent of it.
const lightWork = 2 * time.Second

// lightWarning says that the application had little to do under the load, or is "".
func (f *Found) lightWarning() string {
	r := f.Baseline.Result
	if r == nil || r.Load == nil || r.Times == nil || r.Times.Group <= 0 || r.Times.Group >= lightWork {
		return ""
	}
	return fmt.Sprintf("the measured load took %.1f s of the application's processor time: one collection more is several per cent of that, so what options cost is told badly. "+
		"More load tells it better, or a longer one: --duration, --requests", r.Times.Group.Seconds())
}

// fewRuns is the share of runs below which a limit holds for too few not to say so.
const fewRuns = 0.9

// cappedWarning says that most runs may need more than the limit, which is less than one that passed
// as given; "" is nothing to say.
func (f *Found) cappedWarning() string {
	if f.Need == nil || f.Setup.empty() || f.LimitBytes < f.AsGiven.LimitBytes-mib || f.Need.Content(f.LimitBytes) >= fewRuns {
		return ""
	}
	return fmt.Sprintf("the limit is less than as given, where a run passed at %d MiB; 99 %% of runs with these options need no more than %d MiB: set that where none may be killed",
		f.AsGiven.LimitBytes/mib, wholeMiB(f.Need.BoundBytes)/mib)
}

// outgrownWarning says that what lives grows with the load, where the long run outgrew a heap; "" is
// nothing to say.
func (f *Found) outgrownWarning() string {
	i := slices.IndexFunc(f.Trials, func(t Trial) bool { return t.Phase == PhaseLong && t.lacksHeap() })
	if i < 0 {
		return ""
	}
	heap := "the heap"
	if has := mostHeap(f.Trials[i]); has > 0 {
		heap = fmt.Sprintf("a heap of %d MiB", has/mib)
	}
	return fmt.Sprintf("what lives grows with the load: ten times as much outgrew %s. Where that does not come to an end (sessions, a cache without a bound), "+
		"the application needs more one day, whatever the limit", heap)
}

// growthWarnings tell of what grew steadily in half of the runs or more, but for what came to
// an end in the run of many times the load, where footprints could be taken.
func growthWarnings(runs []Trial, long *Trial) []string {
	seen := map[string][]int64{}
	for _, t := range runs {
		if t.Result == nil {
			continue
		}
		for _, g := range t.Result.Growth {
			seen[g.Of] = append(seen[g.Of], g.PerSecond)
		}
	}
	var out []string
	for _, of := range slices.Sorted(maps.Keys(seen)) {
		if paces := seen[of]; 2*len(paces) >= len(runs) && !endedIn(long, of) {
			slices.Sort(paces)
			out = append(out, fmt.Sprintf("%s grew steadily in %d of %d confirming runs, by %.1f MiB per second: a leak, or a warm-up that had not ended. "+
				"A longer run needs more: try a longer --duration", of, len(paces), len(runs), float64(paces[len(paces)/2])/mib))
		}
	}
	return out
}

// endedIn says that the run of many times the load passed, and that something did not grow
// steadily in it.
func endedIn(long *Trial, of string) bool {
	if long == nil || !long.Passed || long.Result == nil || long.Result.WorstReclaimShare == nil {
		return false
	}
	return !slices.ContainsFunc(long.Result.Growth, func(g trial.Growth) bool { return g.Of == of })
}

const (
	disturbingShare = 0.1
	largeReadAhead  = 1024
)
