package report

import (
	"fmt"
	"math"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

const (
	// hardlyWaits is the share of the time from which on waiting for memory tells that page
	// cache lacks.
	hardlyWaits = 0.005
	// flatSlope is the logarithm of the limit over that of the waiting from which on there is
	// no limit at which page cache begins to lack: half the limit then has no more than 30
	// times the waiting. Of the demo service it is about 0.07: ten times as much is waited at
	// a limit 15 % smaller.
	flatSlope = 0.2
)

// fitCache is what page cache is worth: how long the application waited for memory with
// less and less of it.
func fitCache(r *fit.Result) []document.Block {
	steps := squeezed(r)
	if len(steps) < 2 {
		return nil
	}
	t := document.Table{Columns: document.Columns(">limit", ">page cache", ">waiting for memory")}
	for _, s := range steps {
		t.Row(document.Cells(Limit(s.LimitBytes), Size(s.CacheBytes), fmt.Sprintf("%.1f %%", 100*s.Waited))...)
	}
	return []document.Block{heading("With less page cache"), t}
}

// noKnee tells of an application that lives from page cache, or is "": it waits for memory a
// little more with each bit of page cache that it lacks, so no limit is the right one.
func noKnee(r *fit.Result) string {
	steps := squeezed(r)
	if len(steps) < 2 {
		return ""
	}
	last := steps[len(steps)-1]
	for _, s := range steps {
		if s.Waited < hardlyWaits || s.Waited >= last.Waited {
			continue
		}
		if math.Log(float64(s.LimitBytes)/float64(last.LimitBytes)) < flatSlope*math.Log(last.Waited/s.Waited) {
			return ""
		}
		return fmt.Sprintf("it lives from page cache: with less of it, waiting for memory takes ever more of the time, %.1f %% at %s and %.1f %% at %s. "+
			"The limit leaves it so much that this is at most 5 %%; more memory makes it faster", 100*s.Waited, Limit(s.LimitBytes), 100*last.Waited, Limit(last.LimitBytes))
	}
	return ""
}

// squeezed are the steps of the last squeeze of the recommended options, else of any.
func squeezed(r *fit.Result) []trial.SqueezeStep {
	var steps []trial.SqueezeStep
	same := false
	for _, t := range r.Trials {
		if t.Result == nil || len(t.Result.Squeezed) == 0 {
			continue
		}
		if is := t.Setup.Same(r.Setup); is || !same {
			steps, same = t.Result.Squeezed, is
		}
	}
	return steps
}
