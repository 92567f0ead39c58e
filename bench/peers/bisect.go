package main

const (
	// tolerance is how near the smallest passing and the largest failing
	// limit are brought together: a share, or minTolerance where that is more.
	tolerance    = 0.02
	minTolerance = 2 * mib
	// floorBytes is a limit that no JVM starts in.
	floorBytes = 16 * mib
	// raise is the step by which a limit that is not confirmed is raised.
	raise = 0.03
)

func wholeMiB(n int64) int64 { return (n + mib - 1) / mib * mib }

// smallest finds the smallest limit that passes, where ample passes: from the
// highest usage with ample memory upwards until one passes, then by halving.
func smallest(ample, usage int64, try func(limit int64) (bool, error)) (int64, error) {
	fails, passes := int64(floorBytes), ample
	for limit := max(wholeMiB(usage), floorBytes+mib); limit < ample; limit = wholeMiB(limit + limit/4) {
		ok, err := try(limit)
		if err != nil {
			return 0, err
		}
		if ok {
			passes = limit
			break
		}
		fails = limit
	}
	for passes-fails > max(minTolerance, int64(tolerance*float64(passes))) {
		middle := (passes + fails) / 2 / mib * mib
		ok, err := try(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			passes = middle
		} else {
			fails = middle
		}
	}
	return passes, nil
}

// confirmed raises a limit until as many fresh runs as wanted pass in a row, 0
// where none does up to enough.
func confirmed(limit, enough int64, want int, try func(limit int64) (bool, error)) (int64, error) {
	for {
		passed := 0
		for passed < want {
			ok, err := try(limit)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			passed++
		}
		if passed == want {
			return limit, nil
		}
		if limit >= enough {
			return 0, nil
		}
		limit = min(raised(limit), enough)
	}
}

// raised is the next limit above one that was not confirmed.
func raised(limit int64) int64 {
	return limit + max(minTolerance, wholeMiB(int64(raise*float64(limit))))
}

// gridLimits are the limits of a grid from high down to low, each 2 % below the
// one before.
func gridLimits(high, low int64) []int64 {
	var out []int64
	for limit := high; limit >= max(low, floorBytes); {
		out = append(out, limit)
		limit = min(int64(float64(limit)*(1-tolerance))/mib*mib, limit-mib)
	}
	return out
}
