package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// connectPause is how long a worker of a closed loop waits after it could not
// connect: to a service that died it would fail a hundred thousand times a
// second, and take the processor from whatever restarts it.
const connectPause = 10 * time.Millisecond

// Run puts the load of plan on its targets and reports what came back. Failed
// requests are no error, they are counted in the Result. An error says that
// the plan cannot be run, or that ctx ended first; the Result then holds what
// was done until then, with the requests under way counted as "cancelled".
func Run(ctx context.Context, plan Plan) (Result, error) {
	if err := plan.check(); err != nil {
		return Result{}, err
	}
	j := job{requests: make([]*request, len(plan.Targets)), timeout: plan.Timeout}
	for i, t := range plan.Targets {
		r, err := newRequest(t, nil)
		if err != nil {
			return Result{}, err
		}
		j.requests[i] = r
	}
	workers, err := newWorkers(plan.Concurrency, plan.Rate > 0)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	j.tally = newTally(start)
	j.tally.requests = plan.Requests
	j.schedule = plan.schedule(start)
	j.run(ctx, workers)
	j.tally.addDropped(j.schedule.dropped())

	if err := context.Cause(ctx); err != nil {
		now := time.Now()
		return j.tally.finish(j.schedule.due(now, j.tally.result.Sent), now.Sub(start)),
			fmt.Errorf("load stopped before its end: %w", err)
	}
	due := j.schedule.due(start.Add(plan.Duration), j.tally.result.Sent)
	elapsed := j.tally.last.Sub(start)
	if plan.Requests == 0 || j.tally.result.Sent < plan.Requests {
		elapsed = max(elapsed, plan.Duration)
	}
	return j.tally.finish(due, elapsed), nil
}

func (p Plan) schedule(start time.Time) schedule {
	most := int64(math.MaxInt64)
	if p.Requests > 0 {
		most = p.Requests
	}
	if p.Rate > 0 {
		s := newOpenLoop(start, p.Rate, p.Duration)
		s.total = min(s.total, most)
		return s
	}
	return &closedLoop{end: start.Add(p.Duration), total: most}
}

func (p Plan) check() error {
	switch {
	case len(p.Targets) == 0:
		return errors.New("load without a target: name at least one URL")
	case p.Concurrency < 1 || p.Concurrency > MaxConcurrency:
		return fmt.Errorf("load with a concurrency of %d: choose one from 1 to %d", p.Concurrency, MaxConcurrency)
	case math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > MaxRate:
		return fmt.Errorf("load with a rate of %g per second: choose one up to %g, or 0 for a closed loop", p.Rate, float64(MaxRate))
	case p.Rate > 0 && p.Rate < MinRate:
		return fmt.Errorf("load with a rate of %g per second: choose at least %g", p.Rate, MinRate)
	case p.Requests < 0 || p.Requests > MaxRequests:
		return fmt.Errorf("load of %d requests: choose up to %d, or 0 for no such end", p.Requests, MaxRequests)
	case p.Duration <= 0 || p.Duration > 24*time.Hour:
		return fmt.Errorf("load for %v: choose a duration up to a day", p.Duration)
	case p.Timeout <= 0 || p.Timeout > time.Hour:
		return fmt.Errorf("load with a timeout of %v: choose one up to an hour", p.Timeout)
	}
	return nil
}

// job is what the workers of one Run share.
type job struct {
	requests []*request
	schedule schedule
	tally    *tally
	timeout  time.Duration
}

// run lets the workers work until the schedule has nothing left or ctx ends,
// and closes what they have open.
func (j job) run(ctx context.Context, workers []worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			defer w.close()
			defer context.AfterFunc(ctx, w.abort)()
			w.run(ctx, j)
		})
	}
	all.Wait()
}

// worker sends one request after the other. alarm is nil in a closed loop.
type worker struct {
	client *client
	alarm  *alarm
}

func newWorkers(n int, open bool) ([]worker, error) {
	workers := make([]worker, n)
	for i := range workers {
		workers[i].client = newClient()
		if !open {
			continue
		}
		a, err := newAlarm()
		if err != nil {
			for _, w := range workers[:i] {
				w.close()
			}
			return nil, err
		}
		workers[i].alarm = a
	}
	return workers, nil
}

func (w worker) run(ctx context.Context, j job) {
	now := time.Now()
	for {
		index, due, ok := j.schedule.claim(now)
		if !ok {
			return
		}
		if now.Before(due) {
			now = w.wait(ctx, due)
		}
		if ctx.Err() != nil {
			return
		}
		late := now.Sub(due) > LateAfter
		reply := w.client.send(ctx, j.requests[index%int64(len(j.requests))], now.Add(j.timeout))
		now = time.Now()
		if reply.err != nil && ctx.Err() != nil {
			reply.err = context.Canceled // whatever form it came in
		}
		j.tally.add(reply, due, now, late)
		if w.alarm == nil && reply.err != nil && isType[connectError](reply.err) {
			pause(ctx, connectPause)
			now = time.Now()
		}
	}
}

// wait returns the time at which it ended: t or later, or when ctx ended.
func (w worker) wait(ctx context.Context, t time.Time) time.Time {
	if w.alarm.wait(t) != nil { // stopped; or else, wait less exactly
		pause(ctx, time.Until(t))
	}
	return time.Now()
}

// abort makes the worker stop what it does. Its context has ended before.
func (w worker) abort() {
	w.client.abort()
	if w.alarm != nil {
		w.alarm.stop()
	}
}

func (w worker) close() {
	w.client.close()
	if w.alarm != nil {
		w.alarm.close()
	}
}
