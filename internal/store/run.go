package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"tare.dev/tare/internal/fit"
)

// Run is a fit under way. It is the fit's journal, and nobody else can go on
// with the fit until Close, or the end of the process.
type Run struct {
	store *database
	id    int64
	began time.Time
	lock  lock
	past  []fit.Step
	seq   int
}

// Begin implements Store.
func (s *database) Begin(ctx context.Context, p fit.Plan, i Invocation) (*Run, error) {
	r, err := s.begin(ctx, p, i)
	return r, s.failed(err)
}

func (s *database) begin(ctx context.Context, p fit.Plan, i Invocation) (*Run, error) {
	plan, err1 := json.Marshal(p)
	invocation, err2 := json.Marshal(i)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	// Locked before it can be seen, so that nobody takes it for cut off.
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // harmless after Commit
	r := &Run{store: s, began: time.Unix(0, time.Now().UnixNano())}
	insert := s.engine.rebind("INSERT INTO fits (host, began, plan, invocation, bytes) VALUES (?, ?, ?, ?, ?) RETURNING id")
	if err := tx.QueryRowContext(ctx, insert, s.host, r.began.UnixNano(), string(plan), string(invocation), len(plan)+len(invocation)).Scan(&r.id); err != nil {
		return nil, err
	}
	if r.lock, err = s.acquire(ctx, r.id); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// acquire takes the lock of a fit; the error is a BusyError when somebody else
// has it.
func (s *database) acquire(ctx context.Context, id int64) (lock, error) {
	l, ok, err := s.engine.acquire(ctx, id)
	if err == nil && !ok {
		err = &BusyError{id}
	}
	return l, err
}

// Resume implements Store.
func (s *database) Resume(ctx context.Context, id int64) (*Run, error) {
	r, err := s.resume(ctx, id)
	return r, s.failed(err)
}

func (s *database) resume(ctx context.Context, id int64) (*Run, error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &Run{store: s, id: id, lock: l}
	f, err := s.fit(ctx, id)
	switch {
	case err != nil:
	case f.State == Unreadable:
		err = f.Problem
	case f.Ending != nil:
		err = &EndedError{id}
	default:
		r.began = f.Began
		r.past, err = s.steps(ctx, id)
		r.seq = len(r.past)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// ID is the fit's number.
func (r *Run) ID() int64 { return r.id }

// Began is when the fit began.
func (r *Run) Began() time.Time { return r.began }

// Past returns the steps that were stored before Resume.
func (r *Run) Past() []fit.Step { return r.past }

// Keep stores a step.
func (r *Run) Keep(ctx context.Context, step fit.Step) error {
	kind := "trial"
	if step.Training != nil {
		kind = "training"
	}
	text, err := json.Marshal(step)
	if err != nil {
		return r.store.failed(err)
	}
	// A step that has ended is stored even when the fit is being cancelled.
	err = r.write(context.WithoutCancel(ctx),
		statement{"INSERT INTO steps (fit, seq, kind, step) VALUES (?, ?, ?, ?)", []any{r.id, r.seq + 1, kind, string(text)}},
		statement{"UPDATE fits SET making = NULL, bytes = bytes + ? WHERE id = ?", []any{len(text), r.id}})
	if err == nil {
		r.seq++
	}
	return err
}

// Making stores that a file of this host is about to be made; see Store.Sweep.
func (r *Run) Making(ctx context.Context, file string) error {
	return r.write(ctx, statement{"UPDATE fits SET making = ? WHERE id = ?", []any{file, r.id}})
}

// End stores how the fit ended.
func (r *Run) End(ctx context.Context, e fit.Ending) error {
	text, err := json.Marshal(e)
	if err != nil {
		return r.store.failed(err)
	}
	return r.write(context.WithoutCancel(ctx), statement{"UPDATE fits SET ended = ?, making = NULL, ending = ?, bytes = bytes + ? WHERE id = ?",
		[]any{time.Now().UnixNano(), string(text), len(text), r.id}})
}

func (r *Run) write(ctx context.Context, statements ...statement) error {
	tx, err := r.lock.begin(ctx)
	if err == nil {
		err = r.store.transact(ctx, tx, statements...)
	}
	return r.store.failed(err)
}

// Close lets others go on with the fit.
func (r *Run) Close() error { return r.lock.release() }
