package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// engine is what databases do differently. SQL that all of them understand
// stands once, with ? for its arguments.
type engine interface {
	// location is the database's name, for people.
	location() string
	// rebind writes the arguments of a query in the engine's way.
	rebind(query string) string
	// acquire takes the lock of a fit; ok is false when somebody else has it.
	// The lock ends with the process that holds it.
	acquire(ctx context.Context, id int64) (l lock, ok bool, err error)
	// locked tells whether somebody holds the lock of a fit.
	locked(ctx context.Context, id int64) (bool, error)
	// here tells whether a fit of that host ran where this process runs.
	here(host string) bool
	// compact gives the space of deleted rows back.
	compact(ctx context.Context) error
	close() error
}

// lock is the lock of a fit, held by this process.
type lock interface {
	// begin starts a transaction that only the holder of the lock can commit.
	begin(ctx context.Context) (*sql.Tx, error)
	release() error
}

// database is a Store in an SQL database.
type database struct {
	db     *sql.DB
	engine engine
	host   string // this one
}

func newDatabase(db *sql.DB, e engine) (*database, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this host: %w", err)
	}
	return &database{db: db, engine: e, host: host}, nil
}

// Location implements Store.
func (s *database) Location() string { return s.engine.location() }

// Close implements Store.
func (s *database) Close() error { return errors.Join(s.db.Close(), s.engine.close()) }

// failed says with which database something failed.
func (s *database) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store %s: %w", s.engine.location(), err)
}

func (s *database) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.db.QueryContext(ctx, s.engine.rebind(query), args...)
}

func (s *database) queryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return s.db.QueryRowContext(ctx, s.engine.rebind(query), args...)
}

// transact runs statements in one transaction: all of them take effect, or none.
func (s *database) transact(ctx context.Context, tx *sql.Tx, statements ...statement) error {
	defer tx.Rollback() // harmless after Commit
	for _, st := range statements {
		if _, err := tx.ExecContext(ctx, s.engine.rebind(st.query), st.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

type statement struct {
	query string
	args  []any
}
