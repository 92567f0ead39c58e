package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tare/internal/fit"
)

// State is how far a fit is.
type State string

// The states.
const (
	Running State = "running"
	CutOff  State = "cut off" // it can go on
	Done    State = "done"
	Failed  State = "failed" // it ended without a recommendation
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
	ID         int64
	Began      time.Time
	State      State
	Plan       fit.Plan
	Invocation Invocation
	// Trials is how many trials have ended.
	Trials int
	// Ending is nil until it has ended.
	Ending *fit.Ending
}

// ErrNotFound says that there is no such fit.
var ErrNotFound = errors.New("no such fit")

const selectFits = `SELECT id, began, plan, invocation, ending,
	(SELECT count(*) FROM steps WHERE fit = id AND kind = 'trial') FROM fits`

// Fits returns all fits, the newest first.
func (s *Store) Fits(ctx context.Context) ([]Fit, error) {
	rows, err := s.db.QueryContext(ctx, selectFits+" ORDER BY id DESC")
	if err != nil {
		return nil, s.failed(err)
	}
	defer rows.Close()
	var out []Fit
	for rows.Next() {
		f, err := s.scan(rows)
		if err != nil {
			return nil, s.failed(err)
		}
		out = append(out, f)
	}
	return out, s.failed(rows.Err())
}

// Fit returns one fit; the error is ErrNotFound where there is none.
func (s *Store) Fit(ctx context.Context, id int64) (Fit, error) {
	f, err := s.scan(s.db.QueryRowContext(ctx, selectFits+" WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return f, s.failed(fmt.Errorf("%w: %d", ErrNotFound, id))
	}
	return f, s.failed(err)
}

func (s *Store) scan(row interface{ Scan(...any) error }) (Fit, error) {
	var f Fit
	var began int64
	var plan, invocation []byte
	var ending *[]byte
	if err := row.Scan(&f.ID, &began, &plan, &invocation, &ending, &f.Trials); err != nil {
		return f, err
	}
	f.Began = time.Unix(0, began)
	if err := errors.Join(json.Unmarshal(plan, &f.Plan), json.Unmarshal(invocation, &f.Invocation)); err != nil {
		return f, fmt.Errorf("fit %d: %w", f.ID, err)
	}
	if ending != nil {
		f.Ending = new(fit.Ending)
		if err := json.Unmarshal(*ending, f.Ending); err != nil {
			return f, fmt.Errorf("fit %d: %w", f.ID, err)
		}
		f.State = Done
		if f.Ending.Failure != "" {
			f.State = Failed
		}
		return f, nil
	}
	f.State = CutOff
	held, err := s.locked(f.ID)
	if held {
		f.State = Running
	}
	return f, err
}

// Steps returns the steps of a fit in their order.
func (s *Store) Steps(ctx context.Context, id int64) ([]fit.Step, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT step FROM steps WHERE fit = ? ORDER BY seq", id)
	if err != nil {
		return nil, s.failed(err)
	}
	defer rows.Close()
	var out []fit.Step
	for rows.Next() {
		var text []byte
		var step fit.Step
		if err := rows.Scan(&text); err != nil {
			return nil, s.failed(err)
		}
		if err := json.Unmarshal(text, &step); err != nil {
			return nil, s.failed(fmt.Errorf("step %d of fit %d: %w", len(out)+1, id, err))
		}
		out = append(out, step)
	}
	return out, s.failed(rows.Err())
}

// Result is a stored fit as it was returned when it ended, or as far as it
// came: then without an answer.
func (s *Store) Result(ctx context.Context, f Fit) (*fit.Result, error) {
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
	return r, s.failed(err)
}

// failed says with which file something failed.
func (s *Store) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store %s: %w", s.file, err)
}
