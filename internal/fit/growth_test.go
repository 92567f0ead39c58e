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
	if got := growthWarnings(runs); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := growthWarnings(nil); got != nil {
		t.Errorf("%q of no runs", got)
	}
}
