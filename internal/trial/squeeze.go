package trial

import (
	"context"
	"time"

	"tare/internal/load"
	"tare/internal/runner"
)

const (
	// squeezeStep is the share of its limit that an application loses at a
	// time: little, so that the kernel finds the pages that are not used.
	squeezeStep = 0.04
	// squeezeSpeed is the share of its throughput that it must keep.
	squeezeSpeed = 0.85
	// squeezeRequests is how many requests tell whether it does, within
	// leastSlice and mostSlice of time.
	squeezeRequests       = 150
	leastSlice, mostSlice = 700 * time.Millisecond, 3 * time.Second
	maxSqueezeSteps       = 60
)

// squeeze lowers the memory limit of an application under its load step by step,
// until it cannot keep up, and returns the smallest limit with which it could:
// what it needs once it runs, page cache included. It does so after the
// measurement, which it would spoil; 0 is unknown.
func (t *run) squeeze(ctx context.Context, u runner.Usage) int64 {
	if !t.spec.Squeeze || t.load == nil || t.ended || t.load.Throughput() <= 0 {
		return 0
	}
	t.stage(Squeezing)
	held := u.UsageBytes
	if limit := t.spec.Limits.MemoryBytes; limit > 0 {
		held = min(held, limit)
	}
	for range maxSqueezeSteps {
		next := held - int64(squeezeStep*float64(held))
		if next < runner.MinMemoryBytes || t.proc.SetMemoryLimit(next) != nil {
			break // on cgroup v1 nothing more can be reclaimed: EBUSY
		}
		if !t.keepsUp(ctx) {
			break
		}
		held = next
	}
	if ctx.Err() != nil {
		return 0
	}
	return held
}

// keepsUp puts load for a moment, and once more where that was not served as
// before: a moment is short, and chance has a part in it.
func (t *run) keepsUp(ctx context.Context) bool {
	bar := squeezeSpeed * t.load.Throughput()
	slice := time.Duration(squeezeRequests / t.load.Throughput() * float64(time.Second))
	slice = min(max(slice, leastSlice), mostSlice)
	for range 2 {
		l, err := t.loadBriefly(ctx, slice)
		if err != nil || l.Throughput() < bar/2 {
			return false
		}
		if l.Throughput() >= bar && !t.muchWorse(l) {
			return true
		}
	}
	return false
}

// loadBriefly puts load for a moment, and waits no more than another one for the
// answers: requests that were sent may wait for pages for long.
func (t *run) loadBriefly(ctx context.Context, d time.Duration) (load.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*d+leastSlice)
	defer cancel()
	return t.spec.Loader.Load(ctx, d)
}

// muchWorse says that an answer breaks the objective, and not narrowly.
func (t *run) muchWorse(l load.Result) bool {
	for _, b := range t.spec.SLO.Check(Measured{Load: &l, Start: t.ready}, t.spec.Baseline) {
		if b.Clause.Metric == ErrorCount || b.Miss > narrowMiss {
			return true
		}
	}
	return false
}
