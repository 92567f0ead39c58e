package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// A whole trial may be made where the agent is: readiness and load then do not cross the
// network, and what interrupts the connection interrupts no trial. The client begins it
// by one call, and asks for its state by others until it is done.

// trialRequest is a trial.Spec as it is sent. Its load is of package load's own generator.
type trialRequest struct {
	Args, Env              []string
	Dir                    string
	Limits                 runner.Limits
	Ready                  string
	ReadyTimeout, Patience time.Duration
	Job                    bool
	Load                   *load.Plan
	Warmup, Duration       time.Duration
	WarmBlocks             int
	Work                   trial.Work
	SLO                    []string
	Baseline               *trial.Measured
	Idle                   time.Duration
	Probe                  bool
	JavaHome               string
	Files                  []string
	StopGrace              time.Duration
	Weigh, NoHugePages     bool
	Squeeze                bool
}

// stateRequest asks for what a client does not know of a trial yet.
type stateRequest struct {
	Trial string
	Stage trial.Stage
	// Log is how many bytes of the log it has.
	Log int64
}

// trialState is how far a trial is.
type trialState struct {
	Stage  trial.Stage
	Log    []byte
	Done   bool
	Result *trial.Result `json:",omitempty"`
	Broken []broken      `json:",omitempty"`
	Error  *failure      `json:",omitempty"`
}

// broken is a trial.Broken; a Miss of nil is infinite.
type broken struct {
	trial.Broken
	Objective string // the Clause
	Miss      *float64
}

const (
	// statePatience is how long the agent waits for something new to tell.
	statePatience = 10 * time.Second
	// maxTrialLog bounds what the agent keeps of a log.
	maxTrialLog = 16 << 20
	// maxLogPart bounds the part of a log in one answer.
	maxLogPart = 1 << 20
)

// checkTrial says why a trial cannot be made by an agent; nil where it can.
func checkTrial(s trial.Spec) error {
	if s.Loader != nil {
		if _, ok := s.Loader.(load.HTTP); !ok {
			return errors.New("beside the application tare puts its own load alone: give --load")
		}
	}
	return nil
}

func requestOf(s trial.Spec) (trialRequest, error) {
	r := trialRequest{Args: s.Args, Env: s.Env, Dir: s.Dir, Limits: s.Limits, Ready: s.Ready.String(), ReadyTimeout: s.ReadyTimeout, Patience: s.Patience, Job: s.Job,
		Warmup: s.Warmup, WarmBlocks: s.WarmBlocks, Duration: s.Duration, Work: s.Work, Baseline: s.Baseline, Idle: s.Idle, Probe: s.Probe, JavaHome: s.JavaHome, Files: s.Files,
		StopGrace: s.StopGrace, Weigh: s.Weigh, NoHugePages: s.NoHugePages, Squeeze: s.Squeeze}
	for _, c := range s.SLO {
		r.SLO = append(r.SLO, c.String())
	}
	if h, ok := s.Loader.(load.HTTP); ok {
		r.Load = &h.Plan
	}
	return r, checkTrial(s)
}

// spec is the trial that a client asks for.
func (r trialRequest) spec() (trial.Spec, error) {
	s := trial.Spec{Args: r.Args, Env: r.Env, Dir: r.Dir, Limits: r.Limits, ReadyTimeout: r.ReadyTimeout, Patience: r.Patience, Job: r.Job,
		Warmup: r.Warmup, WarmBlocks: r.WarmBlocks, Duration: r.Duration, Work: r.Work, Baseline: r.Baseline, Idle: r.Idle, Probe: r.Probe, JavaHome: r.JavaHome, Files: r.Files,
		StopGrace: r.StopGrace, Weigh: r.Weigh, NoHugePages: r.NoHugePages, Squeeze: r.Squeeze}
	if len(r.Args) == 0 {
		return s, errors.New("a trial of no command")
	}
	var err error
	if r.Ready != "" {
		if s.Ready, err = trial.ParseReady(r.Ready); err != nil {
			return s, err
		}
	}
	for _, text := range r.SLO {
		clause, err := trial.ParseSLO(text)
		if err != nil {
			return s, err
		}
		s.SLO = append(s.SLO, clause...)
	}
	if r.Load != nil {
		s.Loader = load.HTTP{Plan: *r.Load}
	}
	return s, nil
}

// underway is a trial at the agent.
type underway struct {
	mu      sync.Mutex
	changed chan struct{} // closed at each change, and replaced
	state   trialState
	log     []byte
}

// change changes what there is to tell.
func (u *underway) change(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
	close(u.changed)
	u.changed = make(chan struct{})
}

// since is what is new to a client.
func (u *underway) since(in stateRequest) (trialState, bool, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.state
	if in.Log >= 0 && in.Log < int64(len(u.log)) {
		rest := u.log[in.Log:]
		s.Log = bytes.Clone(rest[:min(len(rest), maxLogPart)])
		s.Done = s.Done && len(s.Log) == len(rest)
	}
	return s, s.Done || s.Stage != in.Stage || len(s.Log) > 0, u.changed
}

// Write keeps a part of the log.
func (u *underway) Write(p []byte) (int, error) {
	u.change(func() { u.log = append(u.log, p[:min(len(p), maxTrialLog-len(u.log))]...) })
	return len(p), nil
}

func (s *Server) handleTrials() {
	handle(s, "trial", maxCall, func(ctx context.Context, in trialRequest) (string, error) {
		spec, err := in.spec()
		if err != nil {
			return "", err
		}
		return s.beginTrial(context.WithoutCancel(ctx), spec), nil
	})
	handle(s, "trial-state", maxCall, func(ctx context.Context, in stateRequest) (trialState, error) {
		s.mu.Lock()
		u := s.trials[in.Trial]
		s.mu.Unlock()
		if u == nil {
			return trialState{}, fmt.Errorf("trial %.40q of the agent: %w", in.Trial, os.ErrClosed)
		}
		timer := time.NewTimer(statePatience)
		defer timer.Stop()
		for {
			state, news, changed := u.since(in)
			if news {
				return state, nil
			}
			select {
			case <-changed:
			case <-timer.C:
				return state, nil
			case <-ctx.Done():
				return trialState{}, ctx.Err()
			}
		}
	})
}

// beginTrial begins a trial, and ends it when the server ends.
func (s *Server) beginTrial(ctx context.Context, spec trial.Spec) (id string) {
	u := &underway{changed: make(chan struct{})}
	id = rand.Text()
	s.mu.Lock()
	s.trials[id] = u
	s.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(s.life.Err()) })
	spec.Stage = func(stage trial.Stage) { u.change(func() { u.state.Stage = stage }) }
	spec.Log = u
	s.running.Go(func() {
		defer stop()
		defer cancel(nil)
		res, err := trial.Run(ctx, s.runner, spec)
		u.change(func() {
			u.state.Done, u.state.Result, u.state.Error = true, res, failureOf(err)
			if res != nil {
				for _, b := range res.Broken {
					u.state.Broken = append(u.state.Broken, brokenOf(b))
				}
			}
		})
	})
	return id
}

func brokenOf(b trial.Broken) broken {
	out := broken{Broken: b, Objective: b.Clause.String()}
	out.Broken.Miss = 0
	if !math.IsInf(b.Miss, 0) && !math.IsNaN(b.Miss) {
		out.Miss = &b.Miss
	}
	return out
}

func (b broken) broken() trial.Broken {
	out := b.Broken
	if clause, err := trial.ParseSLO(b.Objective); err == nil && len(clause) == 1 {
		out.Clause = clause[0]
	}
	out.Miss = math.Inf(1)
	if b.Miss != nil {
		out.Miss = *b.Miss
	}
	return out
}

// Trial is a trial that an agent makes.
type Trial struct {
	id    string
	stage trial.Stage
	log   int64
}

// Known tells what a client knows of the trial: it changes when there is news.
func (t *Trial) Known() string { return fmt.Sprint(t.stage, t.log) }

// BeginTrial has the agent begin a trial. The error wraps ErrTrial where agents cannot make
// it.
func (c *Client) BeginTrial(ctx context.Context, s trial.Spec) (*Trial, error) {
	in, err := requestOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w%w", ErrTrial, err)
	}
	id, err := call[string](ctx, c, "trial", in)
	return &Trial{id: id}, err
}

// Follow tells of a trial until it is done. The error wraps ErrTrial where it is the
// trial's; after another one, it may be called again, of another client of the same agent.
func (t *Trial) Follow(ctx context.Context, c *Client, stage func(trial.Stage), log io.Writer) (*trial.Result, error) {
	for {
		s, err := call[trialState](ctx, c, "trial-state", stateRequest{Trial: t.id, Stage: t.stage, Log: t.log})
		if err != nil {
			return nil, err
		}
		if s.Stage != t.stage {
			t.stage = s.Stage
			if stage != nil {
				stage(s.Stage)
			}
		}
		t.log += int64(len(s.Log))
		if log != nil {
			_, _ = log.Write(s.Log) // the trial counts all the same
		}
		if !s.Done {
			continue
		}
		if err := s.Error.err(); err != nil {
			return nil, fmt.Errorf("%w%w", ErrTrial, err)
		}
		if s.Result == nil {
			return nil, fmt.Errorf("%wagent: no result", ErrTrial)
		}
		for _, b := range s.Broken {
			s.Result.Broken = append(s.Result.Broken, b.broken())
		}
		return s.Result, nil
	}
}

// ErrTrial says that a trial could not be made.
var ErrTrial error = trialError{}

type trialError struct{}

// Error is empty: what it wraps says all.
func (trialError) Error() string { return "" }
