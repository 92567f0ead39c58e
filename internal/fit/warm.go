package fit

import (
	"fmt"
	"slices"

	"tare.dev/tare/internal/trial"
)

// unwarmed says that the application as given had not warmed up when its warm-up ended, or
// is "".
func (f *Found) unwarmed() string {
	for _, t := range f.Trials {
		if !t.Passed || t.Result == nil || len(t.Result.Warming) == 0 { // all others do the work of one that passed
			continue
		}
		if trial.Warm(t.Result.Warming) {
			return ""
		}
		text := fmt.Sprintf("as given it had not warmed up after %d requests", t.Result.WarmupRequests)
		if share := t.Result.Warming[len(t.Result.Warming)-1].Compiling; share != nil {
			text += fmt.Sprintf(" (compilers took %.0f %% of its processor time)", 100**share)
		}
		return text + ": what compilers cost later is not known; a longer --warmup tells"
	}
	return ""
}

// coldWarning says that levers on compilers were kept by trials that measured a warm-up, or
// is "". A warm-up that goes on until the application has warmed up closes them instead; to a job
// what it compiles is part of its work.
func (f *Found) coldWarning() string {
	compiles := func(r LeverResult) bool { return r.Kept && r.Lever.Compiles }
	r := f.Baseline.Result
	if r == nil || r.Load == nil || r.Times == nil || r.Times.Group <= 0 || f.Baseline.Work.Blocks > 0 || len(r.Warming) > 0 || !slices.ContainsFunc(f.Levers, compiles) {
		return ""
	}
	share := r.Times.Compiler.Seconds() / r.Times.Group.Seconds()
	if share <= trial.MuchCompiling {
		return ""
	}
	return fmt.Sprintf("compilers took %.0f %% of the processor time while the baseline was measured: it had not warmed up, and what the levers on compilers cost later is not known. "+
		"A longer --warmup tells; without --warmup it goes on until the application has warmed up", 100*share)
}
