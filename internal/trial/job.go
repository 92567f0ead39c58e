package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultJobSLO is the objective of a job.
const DefaultJobSLO = "time<=1.1x"

// DefaultJobTimeout is how long a job may take where nothing else is said.
const DefaultJobTimeout = time.Hour

// errJobTime is the cause of a context that ended at a job's deadline.
var errJobTime = errors.New("the job did not end in time")

// runJob waits until the job has ended. Its window of judgement is its whole
// life.
func (t *run) runJob(ctx context.Context) error {
	t.stage(Loading)
	ctx, cancel := context.WithTimeoutCause(ctx, t.readyTimeout()-time.Since(t.begin), errJobTime)
	defer cancel()
	<-ctx.Done()
	t.jobTime = time.Since(t.begin)
	return context.Cause(ctx)
}

// judgeJob makes the evidence that of a job: to end in good order is what it is
// asked to do, and to be ready means nothing.
func (t *run) judgeJob(e *Evidence) Measured {
	e.Ready = true
	if e.Ended && (e.Exit.Code != 0 || e.Exit.Signal != 0) {
		return Measured{} // how long it took until then says nothing
	}
	m := Measured{Time: t.jobTime, Cost: workCost(t.window.cpu, 1, e.waited()), Pace: t.window.pace}
	e.Broken = t.spec.SLO.Check(m, t.spec.Baseline)
	if !e.Ended && !breaks(e.Broken, JobTime) {
		e.Broken = append(e.Broken, Broken{Clause: Clause{Metric: JobTime}, Text: fmt.Sprintf("not ended after %s", e.ReadyTimeout), Miss: 1})
	}
	e.Ended = false
	return m
}
