package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/trial"
)

const (
	// defaultConfirmations is how many fresh runs must pass at a limit that
	// was found when the experiment does not say.
	defaultConfirmations = 3
	mostConfirmations    = 100
)

// search looks for what the experiment looks for.
func (t *tester) search(ctx context.Context, s *Search) (*observation, error) {
	if name := s.variable(); name != "" {
		return t.largest(ctx, s, name)
	}
	return t.smallestLimit(ctx, s)
}

// smallestLimit is tare fit's search, with the options as they are.
func (t *tester) smallestLimit(ctx context.Context, wanted *Search) (*observation, error) {
	spec, err := t.run.spec(t.at, 1)
	if err != nil {
		return nil, err
	}
	s := &fit.Search{Trier: limitTrier{t}, AmpleBytes: spec.Limits.MemoryBytes, GuessBytes: t.hints.LimitBytes, CacheBytes: t.hints.CacheBytes, Baselines: 1,
		Tolerance: wanted.Tolerance, Confirmations: cmp.Or(wanted.Confirmations, defaultConfirmations), Facts: fit.Facts{Given: t.given(spec.Env)}}
	found, err := s.Run(ctx)
	var baseline *fit.BaselineError
	var unconfirmed *fit.UnconfirmedError
	switch {
	case errors.As(err, &baseline):
		return &observation{trial: baseline.Trial.Result}, nil
	case errors.As(err, &unconfirmed):
		return &observation{trial: unconfirmed.Last.Result}, nil
	case err != nil:
		return nil, err
	}
	limit := float64(found.LimitBytes)
	median := fit.Median(found.Confirmations).Result
	return &observation{trial: median, end: median.End, found: &limit, limit: &limit}, nil
}

// given are the run's options, as far as they can be read: those of an image's
// own files cannot.
func (t *tester) given(env []string) jvmopts.Options {
	in := jvmopts.Input{Release: jvmopts.ParseRelease(t.at.Java.Version), Args: slices.Concat(t.run.Options, t.run.Command), Env: env, Dir: t.at.Dir}
	if t.at.Image != "" {
		in.ReadFile = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	}
	o, _ := jvmopts.Read(in)
	return o
}

// hints are what earlier searches for a limit tell a new one; 0 is unknown.
type hints struct {
	// LimitBytes is what the last of the same cell found, CacheBytes the page
	// cache that the program could not do without in those of all cells.
	LimitBytes, CacheBytes int64
}

// hints are what the results tell of a cell. They tell of page cache only where the
// experiment measures limit and cgroup-needed.
func (l *Lab) hints(c Cell) hints {
	if l.Experiment.Search == nil {
		return hints{}
	}
	var caches []int64
	for _, other := range l.Experiment.Cells() {
		if other.Run.program() != c.Run.program() {
			continue
		}
		hash := l.Experiment.Hash(other)
		limit, needed := l.Results.last(hash, limitMeasure), l.Results.last(hash, neededMeasure)
		if needed > 0 && limit > needed {
			caches = append(caches, int64(limit-needed))
		}
	}
	h := hints{LimitBytes: int64(l.Results.last(l.Experiment.Hash(c), limitMeasure))}
	if len(caches) > 0 {
		slices.Sort(caches)
		h.CacheBytes = caches[len(caches)/2]
	}
	return h
}

// program tells programs apart, whatever their options: by JDK, image and command.
func (r Run) program() string {
	return fmt.Sprintf("%q", slices.Concat([]string{string(r.JDK), string(r.Image)}, r.Command))
}

// limitTrier tries limits. There is nothing to train.
type limitTrier struct{ *tester }

// Try makes one trial.
func (t limitTrier) Try(ctx context.Context, a fit.Attempt) (fit.Outcome, error) {
	o, err := t.once(ctx, nil, &a)
	if err != nil {
		return fit.Outcome{}, err
	}
	return fit.OutcomeOf(o.trial), nil
}

// Train is not asked for without levers.
func (t limitTrier) Train(context.Context, fit.Attempt, string) (string, error) {
	return "", fit.ErrNoArchive
}

// largest is the run of the largest number that passed, or where none did the first
// that failed.
func (t *tester) largest(ctx context.Context, s *Search, name string) (*observation, error) {
	var best *observation
	err := largestPassing(s.From, s.To, s.Tolerance, func(n int64) (bool, error) {
		o, err := t.once(ctx, map[string]string{name: strconv.FormatInt(n, 10)}, nil)
		if err != nil {
			return false, err
		}
		passed := o.trial.Verdict == trial.Passed
		if passed {
			value := float64(n)
			o.found = &value
		}
		if passed || best == nil {
			best = o
		}
		return passed, nil
	})
	return best, err
}

// largestPassing doubles a number until a try fails, then halves the interval until
// it is within tolerance, a share. At least one number is tried.
func largestPassing(from, to int64, tolerance float64, try func(int64) (bool, error)) error {
	passes, fails := int64(0), int64(-1) // -1: none did
	for n := from; fails < 0; {
		ok, err := try(n)
		switch {
		case err != nil:
			return err
		case !ok:
			fails = n
		case n == to:
			return nil
		default:
			passes = n
			n += min(n, to-n)
		}
	}
	for passes > 0 && float64(fails-passes) > max(1, tolerance*float64(passes)) {
		middle := passes + (fails-passes)/2
		ok, err := try(middle)
		if err != nil {
			return err
		}
		if ok {
			passes = middle
		} else {
			fails = middle
		}
	}
	return nil
}
