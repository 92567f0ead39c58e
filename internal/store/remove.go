package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Delete implements Store.
func (s *database) Delete(ctx context.Context, ids ...int64) error {
	return s.failed(s.delete(ctx, ids))
}

func (s *database) delete(ctx context.Context, ids []int64) (err error) {
	var statements []statement
	for _, id := range ids {
		l, lockErr := s.acquire(ctx, id)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, l.release()) }()
		var there bool
		if err := s.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM fits WHERE id = ?)", id).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: %d", ErrNotFound, id)
		}
		statements = append(statements, statement{"DELETE FROM fits WHERE id = ?", []any{id}})
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.transact(ctx, tx, statements...); err != nil {
		return err
	}
	return s.engine.compact(ctx)
}

// Prune implements Store.
func (s *database) Prune(ctx context.Context, b Bound) ([]int64, error) {
	deleted, err := s.prune(ctx, b)
	return deleted, s.failed(err)
}

func (s *database) prune(ctx context.Context, b Bound) (deleted []int64, err error) {
	beyond, err := s.beyond(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, id := range beyond {
		l, ok, err := s.engine.acquire(ctx, id)
		if err != nil {
			return deleted, err
		}
		if !ok { // under way
			continue
		}
		tx, err := l.begin(ctx)
		if err == nil {
			err = s.transact(ctx, tx, statement{"DELETE FROM fits WHERE id = ?", []any{id}})
		}
		if err := errors.Join(err, l.release()); err != nil {
			return deleted, err
		}
		deleted = append(deleted, id)
	}
	slices.Sort(deleted)
	return deleted, nil
}

// beyond are the fits of this host that a bound leaves no room for: all that are
// older than the first one that it has no room for.
func (s *database) beyond(ctx context.Context, b Bound) (ids []int64, err error) {
	rows, err := s.query(ctx, "SELECT id, host, bytes FROM fits ORDER BY id DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var count int
	var sum int64
	for rows.Next() {
		var id, bytes int64
		var host string
		if err := rows.Scan(&id, &host, &bytes); err != nil {
			return nil, err
		}
		if !s.engine.here(host) {
			continue
		}
		count, sum = count+1, sum+bytes
		if b.Fits > 0 && count > b.Fits || b.Bytes > 0 && sum > b.Bytes {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}

// Sweep implements Store.
func (s *database) Sweep(ctx context.Context, remove Remover) (removed []string, err error) {
	left, err := s.leftovers(ctx)
	if err != nil {
		return nil, s.failed(err)
	}
	for id, file := range left {
		names, e := s.sweep(ctx, id, file, remove)
		removed, err = append(removed, names...), errors.Join(err, e)
	}
	return removed, s.failed(err)
}

// leftovers are the files of this host that fits were making.
func (s *database) leftovers(ctx context.Context) (map[int64]string, error) {
	rows, err := s.query(ctx, "SELECT id, host, making FROM fits WHERE making IS NOT NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	left := map[int64]string{}
	for rows.Next() {
		var id int64
		var host, file string
		if err := rows.Scan(&id, &host, &file); err != nil {
			return nil, err
		}
		if s.engine.here(host) {
			left[id] = file
		}
	}
	return left, rows.Err()
}

// sweep removes what one fit left, unless it is under way.
func (s *database) sweep(ctx context.Context, id int64, file string, remove Remover) (removed []string, err error) {
	l, ok, err := s.engine.acquire(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	if removed, err = remove(ctx, file); err != nil {
		return removed, err
	}
	tx, err := l.begin(ctx)
	if err != nil {
		return removed, err
	}
	return removed, s.transact(ctx, tx, statement{"UPDATE fits SET making = NULL WHERE id = ?", []any{id}})
}
