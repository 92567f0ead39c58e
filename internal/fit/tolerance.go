package fit

import (
	"math"

	"github.com/aclements/go-moremath/stats"
)

// toleranceFactor is how many standard deviations above the mean of n samples the
// upper tolerance bound lies: with the given confidence at least that content of all
// values are below it. The deviation has its own degrees of freedom, for it is pooled
// over more samples than those of the mean. Values are taken to be normal, so the
// factor is a quantile of the noncentral t distribution, divided by √n (Owen, "A
// Survey of Properties and Applications of the Noncentral t-Distribution", 1968).
func toleranceFactor(n int, freedom, content, confidence float64) float64 {
	root := math.Sqrt(float64(n))
	shift := stats.InvCDF(stats.StdNormal)(content) * root
	low, high := 0.0, 200.0
	for high-low > 1e-4 {
		middle := (low + high) / 2
		if noncentralT(middle*root, freedom, shift) < confidence {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// toleranceContent is the inverse: the content that is below so many standard deviations above
// the mean, with the given confidence.
func toleranceContent(n int, freedom, factor, confidence float64) float64 {
	root := math.Sqrt(float64(n))
	low, high := -10.0, 10.0 // quantiles of the standard normal distribution
	for high-low > 1e-4 {
		middle := (low + high) / 2
		if noncentralT(factor*root, freedom, middle*root) < confidence {
			high = middle
		} else {
			low = middle
		}
	}
	return stats.StdNormal.CDF(low)
}

// noncentralT is the distribution function of the noncentral t distribution:
// the normal distribution of t·u − shift, averaged over the ratio u of an estimated
// standard deviation to the true one.
func noncentralT(t, freedom, shift float64) float64 {
	const steps = 200 // even, for Simpson's rule
	wide := 12 / math.Sqrt(2*freedom)
	from, to := math.Max(1e-9, 1-wide), 1+wide
	logGamma, _ := math.Lgamma(freedom / 2)
	scale := math.Ln2 + freedom/2*math.Log(freedom/2) - logGamma
	sum, width := 0.0, (to-from)/steps
	for i := range steps + 1 {
		u := from + float64(i)*width
		weight := 2.0 + 2*float64(i%2)
		if i == 0 || i == steps {
			weight = 1
		}
		density := math.Exp(scale + (freedom-1)*math.Log(u) - freedom*u*u/2)
		sum += weight * density * stats.StdNormal.CDF(t*u-shift)
	}
	return sum * width / 3
}
