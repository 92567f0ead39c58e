package trial

import (
	"math"
	"slices"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/runner"
)

const mb = 1 << 20

// points are those of a load of 8 s, with the rows and live sets at each.
func points(rows map[footprint.Owner][]int64, live ...int64) []trendPoint {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := make([]trendPoint, trendSteps+1)
	for i := range out {
		out[i] = trendPoint{at: start.Add(time.Duration(i) * 2 * time.Second), rss: 60 * mb, rows: map[footprint.Owner]int64{}}
		for o, values := range rows {
			out[i].rows[o] = values[i] * mb
		}
		if i > 0 && len(live) > 0 {
			out[i].live = live[i-1] * mb
		}
	}
	return out
}

// A load that takes longer than expected keeps few points, evenly, and no live set is
// lost; where points are uneven the nearest are picked.
func TestTrendOfALoadOfUnknownLength(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &sampler{trendStep: time.Second}
	for i := range 40 {
		at := start.Add(time.Duration(i) * time.Second)
		if n := len(s.trend); n > 0 && at.Sub(s.trend[n-1].at) < s.trendStep {
			continue
		}
		s.trendLive, s.trendOld = int64(1000-i), true
		s.addTrend(&footprint.Footprint{RSSBytes: int64(i)}, at)
	}
	if len(s.trend) <= trendSteps || len(s.trend) > mostTrend {
		t.Fatalf("%d points", len(s.trend))
	}
	for i, p := range s.trend[1:] {
		if step := p.at.Sub(s.trend[i].at); step != s.trendStep || p.live != 1000-p.rss {
			t.Errorf("%s after the point before, with steps of %s; %d alive at %d", step, s.trendStep, p.live, p.rss)
		}
	}
	s.trendLive = 960 // of a young collection: it says nothing of what lives
	s.addTrend(&footprint.Footprint{RSSBytes: 40}, start.Add(40*time.Second))
	if p := s.trend[len(s.trend)-1]; p.live != 0 {
		t.Errorf("%d alive after young collections alone", p.live)
	}
	got := evenly(s.trend)
	if len(got) != trendSteps+1 || got[0].rss != 0 || got[trendSteps].rss != 40 {
		t.Fatalf("%+v", got)
	}
	for i, p := range got[1:] {
		if step := p.rss - got[i].rss; step < 8 || step > 16 {
			t.Errorf("from %d to %d", got[i].rss, p.rss)
		}
	}
	if got := evenly(append(points(nil)[:2], points(nil)[4])); got != nil {
		t.Errorf("three points: %+v", got)
	}
}

func TestGrowths(t *testing.T) {
	heap := func(o ...int64) map[footprint.Owner][]int64 {
		return map[footprint.Owner][]int64{footprint.JavaHeap: o}
	}
	malloc := func(o ...int64) map[footprint.Owner][]int64 { return map[footprint.Owner][]int64{footprint.Malloc: o} }
	tests := map[string]struct {
		points []trendPoint
		want   []Growth
	}{
		"a leak":                {points(malloc(10, 12, 14, 16, 18)), []Growth{{"malloc", 8 * mb, mb}}},
		"a warm-up that ends":   {points(malloc(10, 16, 20, 21, 22)), nil},
		"up and down":           {points(malloc(10, 14, 13, 18, 20)), nil},
		"little":                {points(map[footprint.Owner][]int64{footprint.Malloc: {0, 0, 0, 1, 1}}), nil},
		"a heap that fills":     {points(heap(10, 20, 30, 40, 50)), nil},
		"a live set that grows": {points(heap(9, 9, 9, 9, 9), 10, 12, 14, 16), []Growth{{LiveSet, 6 * mb, 6 * mb / 8}}},
		"no collections":        {points(heap(9, 9, 9, 9, 9)), nil},
		"too few points":        {points(malloc(10, 12, 14, 16, 18))[:4], nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := growths(evenly(tt.points)); !slices.Equal(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// The quarter of a load in which memory was waited for longest tells how near the limit was.
func TestWorstReclaim(t *testing.T) {
	points := make([]trendPoint, 5)
	stalled := []time.Duration{3, 4, 7, 8, 8}
	for i := range points {
		d := stalled[i] * time.Second
		points[i].read.usage = runner.Usage{Age: time.Duration(i+1) * 10 * time.Second, Stalled: &d}
	}
	if got := worstReclaim(points, 100*mb); got == nil || *got != 0.3 {
		t.Errorf("%v, want 0.3", got)
	}
	for i := range points { // a kernel that does not tell: 3 MiB of 100 are read again in the last ten seconds
		points[i].read.usage.Stalled, points[i].read.usage.RefaultBytes = nil, int64(max(0, 3*(i-3)))*mb
	}
	if got := worstReclaim(points, 100*mb); got == nil || math.Abs(*got-0.003*StalledShare/StalledRefault) > 1e-9 {
		t.Errorf("%v, want that of the pages that were read again", got)
	}
	if got := worstReclaim(nil, 100*mb); got != nil {
		t.Errorf("%v of no points", *got)
	}
}
