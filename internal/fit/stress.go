package fit

import (
	"context"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// What five runs pass may fail on a slower machine, or after an hour. Two runs of the
// proof look there: one of many times the load, and one with half the processors.

// longLoad is how many times the load of the other runs the long one has.
const longLoad = 10

// runLong makes the long run, unless one had enough with the setup at this limit or a
// smaller one. It is returned where it speaks against the limit. One that was said ahead
// may be at a smaller limit; where that was not enough, it is made at this one.
func (s *Search) runLong(ctx context.Context, setup Setup, limit int64) ([]Trial, error) {
	for s.wantsLong(setup, limit) {
		at := s.planned(Attempt{Phase: PhaseLong, Setup: setup, LimitBytes: limit}, floorBytes, limit)
		t, err := s.stressed(ctx, PhaseLong, setup, at.LimitBytes)
		if err != nil || t == nil {
			return nil, err
		}
		if !t.speaksAgainst() {
			s.found.Long = t
		} else if t.LimitBytes == limit {
			return []Trial{*t}, nil
		}
	}
	return nil, nil
}

// wantsLong says that the long run is still to be made for a limit. A job has no load to
// be longer.
func (s *Search) wantsLong(setup Setup, limit int64) bool {
	done := s.found.Long
	return s.Stress && !s.Job && (done == nil || done.LimitBytes > limit || !done.Setup.Same(setup))
}

// runHalf makes the run with half the processors. It is returned where memory lacked
// there; that it is too slow is no matter of the limit.
func (s *Search) runHalf(ctx context.Context, setup Setup, limit int64) ([]Trial, error) {
	if !s.Stress {
		return nil, nil
	}
	t, err := s.stressed(ctx, PhaseHalf, setup, limit)
	if err != nil || t == nil {
		return nil, err
	}
	if t.lacksMemory() {
		return []Trial{*t}, nil
	}
	s.found.Half = t
	return nil, nil
}

// stressed makes a run; nil where the budget is used up.
func (s *Search) stressed(ctx context.Context, phase Phase, setup Setup, limit int64) (*Trial, error) {
	what, times := "the run with half the processors", time.Duration(2)
	if phase == PhaseLong {
		what, times = "the run with ten times the load", longLoad
	}
	if s.Budget > 0 && s.took+times*s.took/time.Duration(len(s.found.Trials)) > s.Budget {
		s.note("the budget of %s is used up: %s is left out", s.Budget, what)
		return nil, nil
	}
	t, err := s.once(ctx, Attempt{Phase: phase, Setup: setup, LimitBytes: limit})
	return &t, err
}

// speaksAgainst says that a run fails a limit: not where it was just too slow, and memory
// is not seen to be the reason.
func (t Trial) speaksAgainst() bool {
	return !t.enough() && (t.Verdict != trial.TooSlow || t.lacksMemory())
}

// stress gives a trial the load and the processors of its phase.
func (a Attempt) stress(spec *trial.Spec, processors float64) {
	switch a.Phase {
	case PhaseLong:
		spec.Work.Measured *= longLoad
		spec.Duration *= longLoad
	case PhaseHalf:
		spec.Limits.CPUs = processors / 2
		spec.Work.Warmup, spec.Work.Measured = spec.Work.Warmup/2, spec.Work.Measured/2
		if l, ok := spec.Loader.(load.PacedLoader); ok {
			spec.Loader = l.AtShare(0.5)
		}
	}
}
