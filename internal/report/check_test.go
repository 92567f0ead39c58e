package report

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/document"
)

// A trend tells commits that failed from others, and what measures did from the first to
// the last; a page has a plot of each.
func TestTrend(t *testing.T) {
	var points []check.Point
	for i, v := range []check.Verdict{check.Passed, check.Failed, check.Unknown} {
		at := float64(100+i) * (1 << 20)
		points = append(points, check.Point{Schema: check.TrendSchema, Time: time.Date(2026, 11, 1+i, 0, 0, 0, 0, time.UTC), Commit: strings.Repeat("ab<", 8), Verdict: v,
			Values: map[string]check.Interval{"needed": {Center: at, Low: at - 1<<20, High: at + 1<<20}, "threads": {Center: 20.25 - float64(i), Low: 20, High: 20}}})
	}
	d := Trend(points, "trend.jsonl")
	var text, page strings.Builder
	if err := document.WriteText(&text, d, document.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 commits, 2026-11-01 to 2026-11-03.", "+2.0 MiB", "20.3", "-2"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := document.WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "<svg"); n < 2 || strings.Contains(page.String(), "ab<ab") || !strings.Contains(page.String(), "failed") {
		t.Errorf("%d plots", n)
	}
	if none := Trend(nil, "trend.jsonl"); len(none.Blocks) != 1 {
		t.Errorf("%+v", none)
	}
}
