package lab

import (
	"math"
	"testing"
)

// The largest number is found within tolerance, whatever the range.
func TestLargestPassing(t *testing.T) {
	for _, c := range []struct{ from, to, passes int64 }{
		{1, 9, 9}, {1, 9, 5}, {1, 9, 1}, {1, 9, 0}, {7, 1000, 650}, {1, math.MaxInt64, math.MaxInt64}, {1, math.MaxInt64, 1 << 40}, {1 << 62, math.MaxInt64, math.MaxInt64 - 5},
	} {
		best, tries := int64(0), 0
		err := largestPassing(c.from, c.to, 0.01, func(n int64) (bool, error) {
			if tries++; n < c.from || n > c.to {
				t.Fatalf("%+v: tries %d", c, n)
			}
			if n <= c.passes {
				best = max(best, n)
			}
			return n <= c.passes, nil
		})
		near := float64(c.passes-best) <= max(1, 0.01*float64(best))
		if err != nil || tries == 0 || tries > 100 || c.passes >= c.from && !near {
			t.Errorf("%+v: %d after %d tries, %v", c, best, tries, err)
		}
	}
}
