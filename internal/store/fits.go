package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tare.dev/tare/internal/fit"
)

// State is how far a fit is.
type State string

// The states.
const (
	Running    State = "running"
	CutOff     State = "cut off" // it can go on
	Done       State = "done"
	Failed     State = "failed"     // it ended without a recommendation
	Unreadable State = "unreadable" // its row cannot be decoded
)

// Flag is a command-line flag and its values, more than one where it stood
// several times.
type Flag struct {
	Name   string
	Values []string
}

// Invocation is the command line of a fit: the flags that were given, and the
// java command.
type Invocation struct {
	Flags []Flag
	Args  []string
}

// Fit is a stored fit.
type Fit struct {
	ID int64
	// Host is the name of the host that runs it; empty where an earlier version
	// of tare stored it. Here says that its files are this host's.
	Host  string
	Here  bool
	Began time.Time
	State State
	// Problem says why the row cannot be decoded; nil unless the state is
	// Unreadable. Then Plan, Invocation and Ending may be empty.
	Problem    error
	Plan       fit.Plan
	Invocation Invocation
	// Trials is how many trials have ended.
	Trials int
	// Ending is nil until it has ended.
	Ending *fit.Ending
}

// Unanswered says why a fit has no answer; nil when it has one.
func (f Fit) Unanswered() error {
	switch f.State {
	case Done:
		return nil
	case Unreadable:
		return f.Problem
	case Failed:
		return errors.New(f.Ending.Failure)
	case Running:
		return fmt.Errorf("fit %d is running", f.ID)
	}
	return fmt.Errorf("fit %d was cut off after %d trials: go on with tare fit --resume %d", f.ID, f.Trials, f.ID)
}

const selectFits = `SELECT id, host, began, plan, invocation, ending,
	(SELECT count(*) FROM steps WHERE fit = id AND kind = 'trial') FROM fits`

// Fits implements Store.
func (s *database) Fits(ctx context.Context) ([]Fit, error) {
	fits, err := s.fits(ctx)
	return fits, s.failed(err)
}

func (s *database) fits(ctx context.Context) ([]Fit, error) {
	rows, err := s.query(ctx, selectFits+" ORDER BY id DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Fit
	for rows.Next() {
		f, err := s.scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i], err = s.withState(ctx, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Fit implements Store.
func (s *database) Fit(ctx context.Context, id int64) (Fit, error) {
	f, err := s.fit(ctx, id)
	return f, s.failed(err)
}

func (s *database) fit(ctx context.Context, id int64) (Fit, error) {
	f, err := s.scan(s.queryRow(ctx, selectFits+" WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return f, fmt.Errorf("%w: %d", ErrNotFound, id)
	}
	if err != nil {
		return f, err
	}
	return s.withState(ctx, f)
}

// scan reads a row. A row that cannot be decoded is no error: it has a Problem.
func (s *database) scan(row interface{ Scan(...any) error }) (Fit, error) {
	var f Fit
	var began int64
	var plan, invocation, ending []byte
	if err := row.Scan(&f.ID, &f.Host, &began, &plan, &invocation, &ending, &f.Trials); err != nil {
		return f, err
	}
	f.Began, f.Here = time.Unix(0, began), s.engine.here(f.Host)
	err := errors.Join(json.Unmarshal(plan, &f.Plan), json.Unmarshal(invocation, &f.Invocation))
	if ending != nil {
		f.Ending = new(fit.Ending)
		err = errors.Join(err, json.Unmarshal(ending, f.Ending))
	}
	if err != nil {
		f.Problem = fmt.Errorf("fit %d cannot be decoded: %w: remove it with tare fit delete %d", f.ID, err, f.ID)
	}
	return f, nil
}

// withState finds how far a fit is.
func (s *database) withState(ctx context.Context, f Fit) (Fit, error) {
	switch {
	case f.Problem != nil:
		f.State = Unreadable
	case f.Ending != nil && f.Ending.Failure != "":
		f.State = Failed
	case f.Ending != nil:
		f.State = Done
	default:
		held, err := s.engine.locked(ctx, f.ID)
		if err != nil {
			return f, err
		}
		f.State = CutOff
		if held {
			f.State = Running
		}
	}
	return f, nil
}

// Steps implements Store.
func (s *database) Steps(ctx context.Context, id int64) ([]fit.Step, error) {
	steps, err := s.steps(ctx, id)
	return steps, s.failed(err)
}

func (s *database) steps(ctx context.Context, id int64) ([]fit.Step, error) {
	rows, err := s.query(ctx, "SELECT step FROM steps WHERE fit = ? ORDER BY seq", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []fit.Step
	for rows.Next() {
		var text []byte
		var step fit.Step
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &step); err != nil {
			return nil, fmt.Errorf("step %d of fit %d cannot be decoded: %w", len(out)+1, id, err)
		}
		out = append(out, step)
	}
	return out, rows.Err()
}

// Result is a stored fit as it was returned when it ended, or as far as it
// came: then without an answer.
func Result(ctx context.Context, s Store, f Fit) (*fit.Result, error) {
	if f.Problem != nil {
		return nil, f.Problem
	}
	steps, err := s.Steps(ctx, f.ID)
	if err != nil {
		return nil, err
	}
	var trials []fit.Trial
	for _, step := range steps {
		if step.Trial != nil {
			trials = append(trials, *step.Trial)
		}
	}
	ending := f.Ending
	if ending == nil {
		ending = &fit.Ending{}
		for _, t := range trials {
			ending.Took += t.Took
		}
	}
	r, err := ending.Result(f.Plan, f.Began, trials)
	if err != nil {
		return nil, fmt.Errorf("fit %d of store %s: %w", f.ID, s.Location(), err)
	}
	return r, nil
}
