package fit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The factors are those of published tables for one-sided tolerance bounds of the
// normal distribution (NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.6.3; Owen
// 1968): the deviation is of the same samples as the mean.
func TestToleranceFactor(t *testing.T) {
	for _, c := range []struct {
		n                         int
		content, confidence, want float64
	}{
		{3, 0.99, 0.95, 10.553},
		{5, 0.99, 0.95, 5.741},
		{10, 0.99, 0.95, 3.981},
		{20, 0.99, 0.95, 3.295},
		{10, 0.90, 0.95, 2.355},
		{43, 0.90, 0.99, 1.8752},
	} {
		if got := toleranceFactor(c.n, float64(c.n-1), c.content, c.confidence); math.Abs(got-c.want) > 2e-3*c.want {
			t.Errorf("%d samples, %g with %g: %.4f, want %.4f", c.n, c.content, c.confidence, got, c.want)
		}
		if got := toleranceContent(c.n, float64(c.n-1), c.want, c.confidence); math.Abs(got-c.content) > 1e-3 {
			t.Errorf("%d samples, %g deviations with %g: %.4f, want %.4f", c.n, c.want, c.confidence, got, c.content)
		}
	}
}

// Of bounds that are made as a fit makes them, from few samples and a pooled deviation,
// as many hold as is claimed.
func TestToleranceBoundHolds(t *testing.T) {
	const runs, n, others = 20000, 3, 18
	rng := rand.New(rand.NewPCG(1, 2))
	k := toleranceFactor(n, n-1+others, 0.99, 0.95)
	const content99 = 2.3263478740408408 // deviations above the mean
	held := 0
	for range runs {
		var values [n]float64
		mean := 0.0
		for i := range values {
			values[i] = rng.NormFloat64()
			mean += values[i] / n
		}
		sum := 0.0
		for _, v := range values {
			sum += (v - mean) * (v - mean)
		}
		for range others {
			v := rng.NormFloat64()
			sum += v * v
		}
		if mean+k*math.Sqrt(sum/(n-1+others)) >= content99 {
			held++
		}
	}
	if share := float64(held) / runs; math.Abs(share-0.95) > 0.01 {
		t.Errorf("%.3f of the bounds hold, want 0.95", share)
	}
}
