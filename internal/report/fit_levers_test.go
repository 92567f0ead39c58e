package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
)

// A lever of the framework shows what its trial cost, and levers that one reason keeps
// out stand in one line.
func TestFitLeversWithPrice(t *testing.T) {
	lever := func(id string) fit.Lever {
		return fit.Levers[slices.IndexFunc(fit.Levers, func(l fit.Lever) bool { return l.ID == id })]
	}
	r := fitResult(t)
	r.Trials[3].Throughput, r.Trials[4].Throughput = 200, 150
	r.Levers = []fit.LeverResult{
		{Lever: lever("tomcat"), Setup: fit.Setup{Env: []string{"SERVER_TOMCAT_THREADS_MAX=4"}}, Kept: true, SavedBytes: 20 * MiB, Before: 4, Trial: 5, RelativeCost: fit.RelativeCost{CostRatio: 0.98, CostLow: 0.91, CostHigh: 1.05}},
		{Lever: lever("dedup"), Reason: "it does nothing"}, {Lever: lever("stacks"), Reason: "too little"}, {Lever: lever("periodic"), Reason: "it does nothing"},
	}
	r.CostDeviation, r.CostFreedom = 0.052, 7
	var b bytes.Buffer
	if err := document.WriteText(&b, &document.Document{Blocks: fitLevers(r)}, document.Style{}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"SERVER_TOMCAT_THREADS_MAX=4", "options: properties of the application's framework", "beside the one before: throughput × 0.75", "processor time of the same work × 0.98 (0.91 to 1.05)",
		"differed by 5.2 % between trials with the same options (standard deviation, by 7 degrees of freedom)",
		"string deduplication, periodic collections (it does nothing)", "thread stacks of 512 KiB (too little)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	// What was not allowed costs nothing.
	r.Levers[0].Lever = lever("c1")
	if price := priceText(r, r.Levers[0]); price != "" {
		t.Errorf("%q", price)
	}
}
