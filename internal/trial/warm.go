package trial

import (
	"context"
	"math"
	"time"

	"tare.dev/tare/internal/load"
)

// An application answers cheaper and cheaper while its code is compiled. What a compiler
// costs, and what one that is limited saves, shows only after that: so the warm-up goes on
// until the application has warmed up, a block of requests at a time.

// WarmBlock is a part of the warm-up.
type WarmBlock struct {
	// Requests were sent in it.
	Requests int64
	// Cost is the processor time of one good answer; 0 is unknown.
	Cost time.Duration
	// Compiling is the share of the processor time that the JVM's compilers used; nil where
	// no threads of a JVM were seen.
	Compiling *float64 `json:",omitempty"`
	// Pace is as in Result.
	Pace time.Duration `json:",omitempty"`
	// Took is how long it took.
	Took time.Duration `json:",omitempty"`
}

const (
	// littleCompiling is the share of its processor time that compilers take at most from
	// an application with nothing left that makes it much faster.
	littleCompiling = 0.05
	// MuchCompiling is the share that they take from one that has not warmed up, whatever
	// its answers cost: that two blocks cost alike is chance then.
	MuchCompiling = 0.15
	// steadyCost is how far the costs of two blocks are apart at most which cost alike.
	steadyCost = 0.05
)

// Warm says that an application has warmed up by the end of the last of some blocks:
// compilers took hardly any of its processor time, or not much and the block cost as much
// as the one before it.
func Warm(blocks []WarmBlock) bool {
	if len(blocks) == 0 {
		return false
	}
	last := blocks[len(blocks)-1]
	if last.Compiling != nil && *last.Compiling <= littleCompiling {
		return true
	}
	if len(blocks) < 2 || last.Compiling != nil && *last.Compiling > MuchCompiling {
		return false
	}
	before := blocks[len(blocks)-2]
	if before.Cost <= 0 || last.Cost <= 0 {
		return false
	}
	ratio := last.Cost.Seconds() / before.Cost.Seconds() / paceRatio(before.Pace, last.Pace)
	return math.Abs(math.Log(ratio)) <= steadyCost
}

// warmUp puts the load of the warm-up: once, as many times as the first baseline, or until the
// application has warmed up.
func (t *run) warmUp(ctx context.Context) error {
	t.stage(Warming)
	begin := time.Now()
	for n := 1; ; n++ {
		t.sampler.begin(ctx)
		l, err := t.putLoad(ctx, t.spec.Work.Warmup, t.spec.Warmup)
		if err == nil && n == 1 {
			err = t.askTargets(ctx, l)
		}
		if err != nil {
			return err
		}
		t.warmup += l.Sent
		if t.spec.WarmBlocks > 1 {
			t.blocks = append(t.blocks, blockOf(l, t.sampler.end(ctx)))
		}
		if l.Incomplete != "" || t.warmedUp(n, time.Since(begin)) {
			return nil
		}
	}
}

// warmedUp says that so many blocks, which took so long, are enough. A load command may take
// longer for one than it is asked to.
func (t *run) warmedUp(blocks int, took time.Duration) bool {
	if w := t.spec.Work; t.spec.WarmBlocks <= 1 {
		return blocks >= w.Blocks || w.Within > 0 && took >= w.Within
	}
	return blocks == t.spec.WarmBlocks || took >= time.Duration(t.spec.WarmBlocks)*t.spec.Warmup || Warm(t.blocks)
}

func blockOf(l load.Result, w window) WarmBlock {
	b := WarmBlock{Requests: l.Sent, Pace: w.pace, Took: w.length}
	if l.OK > 0 {
		b.Cost = w.cpu / time.Duration(l.OK)
	}
	if w.times != nil && w.times.Group > 0 {
		share := w.times.Compiler.Seconds() / w.times.Group.Seconds()
		b.Compiling = &share
	}
	return b
}

// warmTime is how long the blocks of a warm-up took.
func (r *Result) warmTime() time.Duration {
	var sum time.Duration
	for _, b := range r.Warming {
		sum += b.Took
	}
	return sum
}
