package main

import (
	"math"
	"testing"

	"tare.dev/tare/internal/jmh"
)

func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		of, n int
		want  float64
	}{{5, 10, 1}, {9, 10, 22.0 / 1024}, {0, 5, 2.0 / 32}, {20, 20, 2 / math.Pow(2, 20)}} {
		if p := signTest(c.of, c.n); math.Abs(p-c.want) > 1e-12 {
			t.Errorf("%d of %d: %g, want %g", c.of, c.n, p, c.want)
		}
	}
}

func TestForksOfRoundsAreMerged(t *testing.T) {
	one := func(score, peak float64) []jmh.Result {
		return []jmh.Result{{Benchmark: "a.B.c", Metrics: map[string]jmh.Metric{
			jmh.Score: {Unit: "ops/s", Forks: [][]float64{{score, score}}}, "peak": {Unit: "MiB", Forks: [][]float64{{1, peak}}, Peak: true}}}}
	}
	all := merge(merge(nil, one(2, 3)), one(4, 5))
	if len(all) != 1 {
		t.Fatalf("%d results", len(all))
	}
	if s, p := forks(all[0], jmh.Score), forks(all[0], "peak"); mean(s) != 3 || mean(p) != 4 {
		t.Errorf("scores %v, peaks %v", s, p)
	}
	if v := variation([]float64{1, 3}); math.Abs(v-math.Sqrt2/2) > 1e-12 {
		t.Errorf("variation %g", v)
	}
}
