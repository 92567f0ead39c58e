package trial

import (
	"context"
	"slices"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

const (
	// squeezeStep is the share of its limit, and squeezePart the share of its
	// page cache, of which an application loses the larger at a time: little,
	// so that the kernel finds the pages that are not used.
	squeezeStep, squeezePart = 0.04, 0.15
	// squeezeRequests is how many requests tell whether it keeps up, within
	// leastSlice and mostSlice of time.
	squeezeRequests       = 150
	leastSlice, mostSlice = 700 * time.Millisecond, 3 * time.Second
	// squeezeTime is how long it may take, in times of the load.
	squeezeTime = 10
)

// SqueezeStep is what was seen of an application at one of the limits by which its page
// cache was taken from it.
type SqueezeStep struct {
	// LimitBytes was its limit, and CacheBytes the page cache that it had there.
	LimitBytes, CacheBytes int64
	// Waited is the share of the time in which some thread waited for memory.
	Waited float64
}

// squeeze lowers the memory limit of an application under its load step by step,
// until it waits for memory, and returns how much page cache it had when it last
// could: it cannot do without. Where nothing is left to take and it still keeps
// up, the load is too light to tell what a start needs: then that is the files
// that it maps. It does so after the measurement, which it would spoil, and where
// no request failed; 0 is unknown, also where it would take too long.
func (t *run) squeeze(ctx context.Context, u runner.Usage) int64 {
	if !t.spec.Squeeze || t.load == nil || !t.spec.Loader.InMoments() || t.ended || answersPerSecond(*t.load) <= 0 || t.failsRequests(*t.load) {
		return 0
	}
	t.stage(Squeezing)
	limit := u.UsageBytes
	if most := t.spec.Limits.MemoryBytes; most > 0 {
		limit = min(limit, most)
	}
	held := reading{usage: u}
	for begin := time.Now(); ; {
		if time.Since(begin) > squeezeTime*t.load.Elapsed {
			return 0
		}
		limit -= int64(max(squeezeStep*float64(limit), squeezePart*float64(held.reclaimable())))
		// Below it would be killed; on cgroup v1 nothing more can be reclaimed: EBUSY.
		if limit < max(runner.MinMemoryBytes, held.need()) || t.proc.SetMemoryLimit(ctx, limit) != nil {
			return max(held.reclaimable(), t.sampler.mappedFiles())
		}
		now, waited, ok := t.keepsUp(ctx, limit)
		if now.usage.UsageBytes > 0 {
			t.squeezed = append(t.squeezed, SqueezeStep{limit, now.reclaimable(), waited})
		}
		if !ok {
			break
		}
		held = now
	}
	if ctx.Err() != nil {
		return 0
	}
	return held.reclaimable()
}

// keepsUp puts load for a moment and says whether it was served without waiting for
// memory, what the group used then, and for what share of the time some thread waited: how
// fast it was served does not matter, for more than memory has a part in that. It tries
// once more where not: a moment is short.
func (t *run) keepsUp(ctx context.Context, limit int64) (now reading, waited float64, keeps bool) {
	slice := time.Duration(squeezeRequests / answersPerSecond(*t.load) * float64(time.Second))
	slice = min(max(slice, leastSlice), mostSlice)
	before, ok := t.read(ctx)
	for tries := 0; ok && tries < 2; tries++ {
		l, served := t.loadBriefly(ctx, slice)
		if now, ok = t.read(ctx); !ok {
			return reading{}, 0, false
		}
		e := Evidence{LimitBytes: limit, Window: l.Elapsed, Stalled: stalledSince(before, now), RefaultBytes: now.usage.RefaultBytes - before.usage.RefaultBytes}
		if waited = e.ReclaimShare(); served && !e.reclaimed() {
			return now, waited, true
		}
		before = now
	}
	return now, waited, false
}

// loadBriefly puts load for a moment, and waits no more than another one for the
// answers: requests that were sent may wait for pages for long. It is false where one
// failed, or none was answered.
func (t *run) loadBriefly(ctx context.Context, d time.Duration) (load.Result, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*d+leastSlice)
	defer cancel()
	l, err := t.spec.Loader.Load(ctx, d)
	return l, err == nil && answersPerSecond(l) > 0 && !t.failsRequests(l)
}

// failsRequests says that requests failed, or that what the objective asks for was not
// measured.
func (t *run) failsRequests(l load.Result) bool {
	broken := t.spec.SLO.Check(Measured{Load: &l, Start: t.ready, Cost: 1}, t.spec.Baseline) // what it cost does not matter
	return slices.ContainsFunc(broken, func(b Broken) bool { return b.Clause.Metric == ErrorCount || b.Unmeasured })
}

// answersPerSecond is 0 where that was not measured.
func answersPerSecond(l load.Result) float64 {
	v, _ := l.Throughput()
	return v
}

func (t *run) read(ctx context.Context) (reading, bool) {
	u, err := t.proc.Usage(ctx)
	return reading{usage: u}, err == nil
}

// stalledSince is nil where the kernel does not tell.
func stalledSince(before, after reading) *time.Duration {
	now := after.usage.Stalled
	if now == nil {
		return nil
	}
	d := *now
	if was := before.usage.Stalled; was != nil {
		d -= *was
	}
	return &d
}
