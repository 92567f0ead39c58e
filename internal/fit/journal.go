package fit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step is a trial or a training run that has ended: one of the two is set.
type Step struct {
	Trial    *Trial
	Training *Training
	// LogFile holds the whole output; empty where it was not kept.
	LogFile string
}

// Training is a training run that has ended.
type Training struct {
	Setup  Setup
	Option string
	// File is the archive that it made and Digest the SHA-256 of its bytes;
	// or Failure says why it made none.
	File, Digest, Failure string
	Took                  time.Duration
}

// Journal keeps the steps of a fit, so that one that was cut off can go on.
type Journal interface {
	// Began is when the fit began, also where it goes on later.
	Began() time.Time
	// Past returns the steps kept before, in their order.
	Past() []Step
	// Keep stores a step. When it returns, the step outlives a kill.
	Keep(ctx context.Context, s Step) error
	// Making says that a file or folder is about to be made, which is left
	// over when no step is kept after it.
	Making(ctx context.Context, file string) error
}

// DivergedError says that a search would not make the trial that a stored one
// made at this place: another version of tare searches otherwise.
type DivergedError struct{ Stored, Now string }

// Error says what differs.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the stored fit went on with %s, and this version of tare with %s: begin anew, without --resume", e.Stored, e.Now)
}

// Recorder is a Trier that first repeats the outcomes of a journal, then has
// another one make trials, and keeps those.
type Recorder struct {
	made   Trier
	config Config
	past   []Step
	// archives are those that past training runs made.
	archives []trained
}

// NewRecorder records what a Trier makes in the config's Journal.
func NewRecorder(made Trier, c Config) *Recorder {
	return &Recorder{made: made, config: c, past: c.Journal.Past()}
}

// Try gives the stored outcome, or makes the trial.
func (r *Recorder) Try(ctx context.Context, a Attempt) (Outcome, error) {
	if len(r.past) > 0 {
		s := r.past[0]
		if s.Trial == nil || !s.Trial.same(a) {
			return Outcome{}, &DivergedError{s.String(), a.String()}
		}
		r.past = r.past[1:]
		return s.Trial.Outcome, nil
	}
	o, err := r.made.Try(ctx, a)
	if err != nil {
		return o, err
	}
	a.Baseline = nil // the search gives it again
	return o, r.config.Journal.Keep(ctx, Step{Trial: &Trial{a, o}, LogFile: r.config.outPath(trialFile(a.Number, ".log"))})
}

// Train gives the stored archive, or makes one. An archive that is gone or
// changed is made again.
func (r *Recorder) Train(ctx context.Context, a Attempt, option string) (string, error) {
	if len(r.past) > 0 {
		t := r.past[0].Training
		if t == nil || t.Option != option || !t.Setup.Same(a.Setup) {
			return "", &DivergedError{r.past[0].String(), "a training run with " + option}
		}
		r.past = r.past[1:]
		if t.Failure != "" {
			return "", fmt.Errorf("%w: %s", ErrNoArchive, t.Failure)
		}
		if sum, err := fileDigest(ctx, r.config.Runner, r.config.outside(t.File)); err == nil && sum == t.Digest {
			r.archives = append(r.archives, trained{r.config.outside(t.File), option})
			return t.File, nil
		}
		return r.made.Train(ctx, a, option)
	}
	if err := r.config.Journal.Making(ctx, r.config.archiveFile(option)); err != nil {
		return "", err
	}
	begin := time.Now()
	file, err := r.made.Train(ctx, a, option)
	t := Training{Setup: a.Setup, Option: option, File: file, Took: time.Since(begin)}
	if errors.Is(err, ErrNoArchive) {
		t.Failure = strings.TrimPrefix(err.Error(), ErrNoArchive.Error()+": ")
	} else if err != nil {
		return "", err
	}
	if file != "" {
		var digestErr error
		if t.Digest, digestErr = fileDigest(ctx, r.config.Runner, r.config.outside(file)); digestErr != nil {
			return "", fmt.Errorf("class archive: %w", digestErr)
		}
	}
	return file, errors.Join(r.config.Journal.Keep(ctx, Step{Training: &t, LogFile: r.config.outPath(trainingLog)}), err)
}

// Nodes are the places of the Trier that makes trials; none where it has one.
func (r *Recorder) Nodes() []string {
	if p, ok := r.made.(Planner); ok {
		return p.Nodes()
	}
	return nil
}

// Ahead plans the trials that are not stored.
func (r *Recorder) Ahead(ctx context.Context, attempts []Attempt) {
	if p, ok := r.made.(Planner); ok && len(r.past) < len(attempts) {
		p.Ahead(ctx, attempts[len(r.past):])
	}
}

// Drop forgets what was planned.
func (r *Recorder) Drop(such func(Attempt) bool) {
	if p, ok := r.made.(Planner); ok {
		p.Drop(such)
	}
}

// Extract is made again whenever it is asked for: the same jar gives the same
// files.
func (r *Recorder) Extract(ctx context.Context) (string, error) {
	if err := r.config.Journal.Making(ctx, r.config.extractedDir()); err != nil {
		return "", err
	}
	return extract(ctx, r.made)
}

// String names the step's trial or training run.
func (s Step) String() string {
	if s.Trial != nil {
		return s.Trial.Attempt.String()
	}
	if s.Training != nil {
		return "a training run with " + s.Training.Option
	}
	return "nothing"
}

// String names the trial by what is tried.
func (a Attempt) String() string {
	return fmt.Sprintf("trial %d (%s %s %q %q) at %d MiB", a.Number, a.Phase, a.Lever, a.Setup.Options, a.Setup.Env, a.LimitBytes/mib)
}

// same tells whether two attempts are of one trial; the baseline, and whether it
// is squeezed, follow from the trials before it.
func (a Attempt) same(o Attempt) bool {
	return a.Number == o.Number && a.Phase == o.Phase && a.Lever == o.Lever && a.LimitBytes == o.LimitBytes && a.Repeat == o.Repeat && a.Setup.Same(o.Setup)
}

// tookOf is how long steps took.
func tookOf(steps []Step) time.Duration {
	var sum time.Duration
	for _, s := range steps {
		if s.Trial != nil {
			sum += s.Trial.Took
		}
		if s.Training != nil {
			sum += s.Training.Took
		}
	}
	return sum
}
