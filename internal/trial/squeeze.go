package trial

import (
	"context"
	"math"
	"slices"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

const (
	// squeezeStep is the share of its limit, and squeezePart the share of its
	// page cache, of which an application loses the larger at a time: little,
	// so that the kernel finds the pages that are not used. Half of the former is the
	// least that is worth a step.
	squeezeStep, squeezePart = 0.02, 0.15
	// squeezeRequests is how many requests tell whether it keeps up, within
	// leastSlice and mostSlice of time, and mostSlices how often it is asked.
	squeezeRequests       = 150
	leastSlice, mostSlice = 700 * time.Millisecond, 3 * time.Second
	mostSlices            = 5
	// squeezeTime is how long it may take, in times of the load.
	squeezeTime = 10
)

// LeastWait is the share of the time from which on waiting for memory tells how near a limit is:
// it rises about exponentially from there as the limit falls.
const LeastWait = 0.002

// SqueezeStep is what was seen of an application at one of the limits by which its page
// cache was taken from it.
type SqueezeStep struct {
	// LimitBytes was its limit, and CacheBytes the page cache that it had there.
	LimitBytes, CacheBytes int64
	// Waited is the share of the time in which some thread waited for memory.
	Waited float64
	// Failed says that requests failed there, or were not answered.
	Failed bool `json:",omitempty"`
}

func (s SqueezeStep) keptUp() bool { return !s.Failed && s.Waited < innocentStall }

// CacheNeeded is the page cache with which waiting for memory takes innocentStall of the
// time: between the step with the smallest limit at which an application kept up and the
// next one, as the logarithm of the waiting rises. It is 0, which is unknown, where it never
// kept up, or always and without waiting. The steps have their largest limit first.
func CacheNeeded(steps []SqueezeStep) int64 {
	i := slices.IndexFunc(steps, func(s SqueezeStep) bool { return !s.keptUp() })
	if i == 0 || len(steps) == 0 {
		return 0
	}
	if i < 0 {
		if last := steps[len(steps)-1]; last.Waited >= LeastWait {
			return last.CacheBytes
		}
		return 0
	}
	kept, lost := steps[i-1], steps[i]
	if lost.Waited < innocentStall { // its requests failed
		return kept.CacheBytes
	}
	waited := math.Log(max(LeastWait, kept.Waited))
	part := (math.Log(innocentStall) - waited) / (math.Log(lost.Waited) - waited)
	return kept.CacheBytes - int64(part*float64(kept.CacheBytes-lost.CacheBytes))
}

// squeeze lowers the memory limit of an application under its load step by step,
// until it waits for memory, and returns how much page cache it cannot do without. Where
// nothing is left to take and it still does not wait, the load is too light to tell what a
// start needs: then that is the files that it maps. It does so after the measurement, which
// it would spoil, and where no request failed; 0 is unknown, also where it would take too long.
func (t *run) squeeze(ctx context.Context, u runner.Usage) int64 {
	if !t.spec.Squeeze || t.load == nil || !t.spec.Loader.InMoments() || t.ended || answersPerSecond(*t.load) <= 0 || t.failsRequests(*t.load) {
		return 0
	}
	t.stage(Squeezing)
	limit := u.UsageBytes
	if most := t.spec.Limits.MemoryBytes; most > 0 {
		limit = min(limit, most)
	}
	held, keeps := reading{usage: u}, true
	for begin := time.Now(); keeps; {
		if time.Since(begin) > squeezeTime*t.load.Elapsed {
			return 0
		}
		next, worth := squeezeNext(limit, held)
		if !worth || t.proc.SetMemoryLimit(ctx, next) != nil { // on cgroup v1 nothing more can be reclaimed: EBUSY
			break
		}
		now, step := t.keepsUp(ctx, next)
		if now.usage.UsageBytes > 0 {
			t.squeezed = append(t.squeezed, step)
		}
		if keeps = step.keptUp(); keeps {
			limit, held = next, now
		}
	}
	if ctx.Err() != nil {
		return 0
	}
	if n := CacheNeeded(t.squeezed); n > 0 {
		return n
	}
	if !keeps {
		return held.reclaimable()
	}
	return max(held.reclaimable(), t.sampler.mappedFiles())
}

// squeezeNext is the limit after one with which an application kept up, by what it held
// there, and whether that is worth a step. It is not below half way to what cannot be
// dropped: it would be killed.
func squeezeNext(limit int64, held reading) (next int64, worth bool) {
	least := squeezeStep * float64(limit)
	step := int64(max(least, squeezePart*float64(held.reclaimable())))
	next = max(limit-step, (limit+held.need())/2, runner.MinMemoryBytes)
	return next, limit-next >= int64(least/2)
}

// keepsUp puts load for a moment and says whether it was served without waiting for
// memory, and what the group used then: how fast it was served does not matter, for more
// than memory has a part in that. It tries once more where not, for a moment is short, and
// again for as long as the waiting halves: the kernel then still learns which pages are used.
func (t *run) keepsUp(ctx context.Context, limit int64) (now reading, step SqueezeStep) {
	slice := time.Duration(squeezeRequests / answersPerSecond(*t.load) * float64(time.Second))
	slice = min(max(slice, leastSlice), mostSlice)
	step.LimitBytes = limit
	before, ok := t.read(ctx)
	for tries := 1; ok && tries <= mostSlices; tries++ {
		l, served := t.loadBriefly(ctx, slice)
		if now, ok = t.read(ctx); !ok {
			break
		}
		e := Evidence{LimitBytes: limit, Window: l.Elapsed, Stalled: stalledSince(before, now), RefaultBytes: now.usage.RefaultBytes - before.usage.RefaultBytes}
		was := step.Waited
		step.CacheBytes, step.Waited, step.Failed = now.reclaimable(), e.ReclaimShare(), !served
		if step.keptUp() || tries > 1 && step.Waited > was/2 {
			return now, step
		}
		before = now
	}
	step.Failed = step.Failed || !ok
	return now, step
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
