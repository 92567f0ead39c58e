package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare.dev/tare/internal/load"
)

// errDecided is the cause of a context that ended since nothing can change the verdict.
var errDecided = errors.New("memory has decided")

const decidedPoll = 500 * time.Millisecond

// putMeasured puts the measured load. Where an amount of work is to be done, it ends once
// memory has taken so much of the time that the verdict is known whatever comes.
func (t *run) putMeasured(ctx context.Context) (load.Result, error) {
	work := t.spec.Work.Measured
	if work == 0 || t.spec.Baseline == nil || t.spec.SLO.Spare() <= 0 {
		return t.putLoad(ctx, work, t.spec.Duration)
	}
	loading, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer end(nil)
	watch.Go(func() {
		for sleep(loading, decidedPoll) == nil {
			if t.decides(t.sampler.soFar()) {
				end(errDecided)
			}
		}
	})
	l, err := t.putLoad(loading, work, t.spec.Duration)
	if err != nil && errors.Is(context.Cause(loading), errDecided) {
		t.decided, err = true, nil
	}
	return l, err
}

// decides says that waiting for memory, or collections, took so much of the load so far that
// the verdict would be theirs even if the rest of the longest time goes without. Answers that
// are so cheap otherwise that the objective holds do not excuse that.
func (t *run) decides(w window) bool {
	spare, longest := t.spec.SLO.Spare(), t.spec.Duration.Seconds()
	stalled := w.stalled != nil && w.stalled.Seconds() >= max(spare, StalledShare)*longest
	return stalled || w.gcTime != nil && w.gcTime.Seconds() >= max(spare, ThrashingShare)*longest
}

// cutOff is what a load misses that was ended because memory had decided, and yet kept to
// all clauses so far.
func (t *run) cutOff(broken []Broken) []Broken {
	if !t.decided || len(broken) > 0 {
		return nil
	}
	return []Broken{{Text: fmt.Sprintf("ended after %s: memory had taken more than the objective leaves of %s", t.window.length.Round(time.Second), t.spec.Duration), Miss: 1}}
}
