package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"tare/internal/fit"
)

// Run is a fit under way. It is the fit's journal, and nobody else can go on
// with the fit until Close, or the end of the process.
type Run struct {
	store *Store
	id    int64
	began time.Time
	lock  lock
	past  []fit.Step
	seq   int
}

// Begin stores a new fit.
func (s *Store) Begin(ctx context.Context, p fit.Plan, i Invocation) (*Run, error) {
	plan, err1 := json.Marshal(p)
	invocation, err2 := json.Marshal(i)
	if err := errors.Join(err1, err2); err != nil {
		return nil, s.failed(err)
	}
	// Locked before it can be seen, so that nobody takes it for cut off.
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.failed(err)
	}
	defer tx.Rollback() // harmless after Commit
	began := time.Unix(0, time.Now().UnixNano())
	res, err := tx.ExecContext(ctx, "INSERT INTO fits (began, plan, invocation) VALUES (?, ?, ?)", began.UnixNano(), string(plan), string(invocation))
	if err != nil {
		return nil, s.failed(err)
	}
	id, err := res.LastInsertId()
	if err != nil {
		return nil, s.failed(err)
	}
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	r.began = began
	if err := tx.Commit(); err != nil {
		return nil, s.failed(errors.Join(err, r.Close()))
	}
	return r, nil
}

// BusyError says that another process is at a fit.
type BusyError struct{ ID int64 }

// Error says so.
func (e *BusyError) Error() string { return fmt.Sprintf("fit %d is running in another tare", e.ID) }

// EndedError says that a fit has ended.
type EndedError struct{ ID int64 }

// Error says so, and the next step.
func (e *EndedError) Error() string {
	return fmt.Sprintf("fit %d has ended: see it with tare fit show %d", e.ID, e.ID)
}

// Resume goes on with a fit that was cut off. Errors: ErrNotFound, BusyError,
// EndedError.
func (s *Store) Resume(ctx context.Context, id int64) (*Run, error) {
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	f, err := s.Fit(ctx, id)
	if err == nil && f.Ending != nil {
		err = &EndedError{id}
	}
	if err == nil {
		r.began = f.Began
		r.past, err = s.Steps(ctx, id)
		r.seq = len(r.past)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (s *Store) run(id int64) (*Run, error) {
	l, ok, err := s.acquire(id)
	if err != nil {
		return nil, s.failed(err)
	}
	if !ok {
		return nil, &BusyError{id}
	}
	return &Run{store: s, id: id, lock: l}, nil
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
	ctx = context.WithoutCancel(ctx)
	tx, err := r.store.db.BeginTx(ctx, nil)
	if err != nil {
		return r.store.failed(err)
	}
	defer tx.Rollback() // harmless after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO steps (fit, seq, kind, step) VALUES (?, ?, ?, ?)", r.id, r.seq+1, kind, string(text)); err != nil {
		return r.store.failed(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE fits SET making = NULL WHERE id = ?", r.id); err != nil {
		return r.store.failed(err)
	}
	if err := tx.Commit(); err != nil {
		return r.store.failed(err)
	}
	r.seq++
	return nil
}

// Making stores that a file is about to be made; see Sweep.
func (r *Run) Making(ctx context.Context, file string) error {
	_, err := r.store.db.ExecContext(ctx, "UPDATE fits SET making = ? WHERE id = ?", file, r.id)
	return r.store.failed(err)
}

// End stores how the fit ended.
func (r *Run) End(ctx context.Context, e fit.Ending) error {
	text, err := json.Marshal(e)
	if err != nil {
		return r.store.failed(err)
	}
	_, err = r.store.db.ExecContext(context.WithoutCancel(ctx), "UPDATE fits SET ended = ?, making = NULL, ending = ? WHERE id = ?",
		time.Now().UnixNano(), string(text), r.id)
	return r.store.failed(err)
}

// Close lets others go on with the fit.
func (r *Run) Close() error { return r.lock.release() }

// Sweep removes the class archives and extracted jars that killed fits were
// making, and returns their names.
func (s *Store) Sweep(ctx context.Context) (removed []string, err error) {
	left, err := s.leftovers(ctx)
	if err != nil {
		return nil, s.failed(err)
	}
	for id, file := range left {
		names, e := s.sweep(ctx, id, file)
		removed, err = append(removed, names...), errors.Join(err, e)
	}
	return removed, s.failed(err)
}

func (s *Store) leftovers(ctx context.Context) (map[int64]string, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, making FROM fits WHERE making IS NOT NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	left := map[int64]string{}
	for rows.Next() {
		var id int64
		var file string
		if err := rows.Scan(&id, &file); err != nil {
			return nil, err
		}
		left[id] = file
	}
	return left, rows.Err()
}

// sweep removes what one fit left, unless it is under way.
func (s *Store) sweep(ctx context.Context, id int64, file string) (removed []string, err error) {
	l, ok, err := s.acquire(id)
	if err != nil || !ok {
		return nil, err
	}
	defer l.release()
	if strings.HasSuffix(file, ".jsa") || strings.HasSuffix(file, ".aot") {
		// JEP 514: the AOT configuration is written beside the cache first.
		for _, name := range []string{file, file + ".config"} {
			if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := os.RemoveAll(name); err != nil { // extracted jars are a folder
				return removed, err
			}
			removed = append(removed, name)
		}
	}
	_, err = s.db.ExecContext(ctx, "UPDATE fits SET making = NULL WHERE id = ?", id)
	return removed, err
}
