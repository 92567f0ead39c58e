package trial

import (
	"slices"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
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
			if got := growths(tt.points); !slices.Equal(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
