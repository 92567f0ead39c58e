package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tare.dev/tare/internal/check"
)

// simulated are runs of all versions that hold what they are to hold, and so much noise.
func simulated(noise float64, n int) runsOf {
	r := rand.New(rand.NewPCG(5, 5))
	out := runsOf{}
	for _, v := range versions() {
		for range max(n, v.runs()-changeRuns+n) {
			values := check.Values{"needed": 200 << 20 * (1 + noise*r.NormFloat64())}
			for _, k := range kinds {
				held := 40 << 20 * (1 + noise*r.NormFloat64())
				if k.name == v.kind {
					held *= 1 + v.percent/100
				}
				values[k.measure] = held
			}
			out[v.name()] = append(out[v.name()], check.Run{Values: values})
		}
	}
	return out
}

const fewPairs = 10

// The page finds what is there, and says so of no rule that does not.
func TestText(t *testing.T) {
	page := text(simulated(0.001, changeRuns), runsOf{}, fewPairs)
	for _, want := range []string{
		"| at most 1 false alarm in 50 | 0.0 % | reached | 0.0 % | 0.0 % |",
		"| effects of 5 % found in all | 100.0 % | reached | 0.0 % | 0.0 % |",
		"| effects of 2 % found in 9 of 10 | 100.0 % | reached |",
		"| effects of 10 % found in all | 100.0 % | reached |",
		"| the owner named right in all that were found | 100.0 % | reached |",
		"| malloc+5% | 16 | malloc +5.0",
		"\n## With a neighbour that takes half a processor for half of the time\n\nNot measured.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	noisy := text(runsOf{}, simulated(0.2, changeRuns), fewPairs)
	if !strings.Contains(noisy, "| effects of 2 % found in 9 of 10 | 0.0 % | not reached |") {
		t.Errorf("%s", noisy)
	}
	few := text(simulated(0.001, 8), runsOf{}, fewPairs)
	if !strings.Contains(few, "| effects of 5 % found in all | not measured |") || !strings.Contains(few, "Not measured: heap+5%, ") {
		t.Errorf("%s", few)
	}
}
