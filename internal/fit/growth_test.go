package fit

import (
	"slices"
	"testing"

	"tare.dev/tare/internal/trial"
)

// What grew in half of the confirming runs is warned of, with the median pace.
func TestGrowthWarnings(t *testing.T) {
	grew := func(g ...trial.Growth) Trial { return Trial{Outcome: Outcome{Result: &trial.Result{Growth: g}}} }
	runs := []Trial{grew(trial.Growth{Of: "malloc", PerSecond: 3 * mib}), grew(), {}, // the last without a result
		grew(trial.Growth{Of: "malloc", PerSecond: mib}, trial.Growth{Of: trial.LiveSet, PerSecond: mib})}
	want := []string{"malloc grew steadily in 2 of 4 confirming runs, by 3.0 MiB per second: a leak, or a warm-up that had not ended. " +
		"A longer run needs more: try a longer --duration"}
	if got := growthWarnings(runs, nil); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := grew(trial.Growth{Of: "malloc", PerSecond: mib})
	for _, long.Passed = range []bool{true, false} {
		if got := growthWarnings(runs, &long); len(got) != 1 {
			t.Errorf("in the long run, too, which passed %v: %q", long.Passed, got)
		}
	}
	ended := grew()
	ended.Passed, ended.Result.WorstReclaimShare = true, new(float64)
	if got := growthWarnings(runs, &ended); got != nil {
		t.Errorf("%q of what ended in the long run", got)
	}
	if got := growthWarnings(nil, nil); got != nil {
		t.Errorf("%q of no runs", got)
	}
}
