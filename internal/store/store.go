// Package store keeps the history of fits in a database: every trial the moment
// it ends, so that nothing is lost when tare is killed, and a fit can go on.
//
// The database is an SQLite file of one machine, or a PostgreSQL database that
// a team shares. Each fit carries the host that runs it.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/sqldb"
)

// Store is a history of fits. Its methods may be called from several
// goroutines, and several processes, on several hosts where the database
// allows it, may have the same history open. Errors name the database.
type Store interface {
	// Location is the database's file, or its URL without the password.
	Location() string
	// Begin stores a new fit of this host, which nobody else can go on with
	// until Run.Close.
	Begin(ctx context.Context, p fit.Plan, i Invocation) (*Run, error)
	// Resume goes on with a fit that was cut off. Errors: ErrNotFound,
	// BusyError, EndedError.
	Resume(ctx context.Context, id int64) (*Run, error)
	// Fits returns all fits, the newest first. One whose row cannot be decoded
	// is among them, with the state Unreadable.
	Fits(ctx context.Context) ([]Fit, error)
	// Fit returns one fit; the error is ErrNotFound where there is none.
	Fit(ctx context.Context, id int64) (Fit, error)
	// Steps returns the steps of a fit in their order.
	Steps(ctx context.Context, id int64) ([]fit.Step, error)
	// Delete removes fits with all their steps, and gives the space back to the
	// file system where the database is a file. It removes all of them or none.
	// Errors: ErrNotFound, BusyError.
	Delete(ctx context.Context, ids ...int64) error
	// Prune removes the oldest fits of this host that are beyond the bound, but
	// none that is under way. It returns their numbers.
	Prune(ctx context.Context, b Bound) ([]int64, error)
	// Sweep has remove, which is as runner.Host.RemoveMade of this host, remove the
	// class archives and extracted jars that killed fits of this host were making, and
	// returns what that returns.
	Sweep(ctx context.Context, remove Remover) (removed []string, err error)
	// Close closes the database. Runs are closed before it.
	Close() error
}

// Remover removes a file or folder that a fit was making, and returns the paths that it
// removed.
type Remover func(ctx context.Context, path string) (removed []string, err error)

// Bound is how much history is kept. What is 0 is not bounded.
type Bound struct {
	// Fits is the most fits.
	Fits int
	// Bytes is the most bytes of plans, trials and endings, as JSON.
	Bytes int64
}

// DefaultBound is some hundred fits: one with 20 trials takes about 2 MiB.
var DefaultBound = Bound{Fits: 1000, Bytes: 512 << 20}

// Errors that a caller tells apart with errors.Is.
var (
	// ErrNotFound says that there is no such fit.
	ErrNotFound = errors.New("no such fit")
	// ErrNewer says that a later version of tare made the database.
	ErrNewer = errors.New("made by a newer version of tare: use that one, or another database with --store")
)

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

// DefaultFile is tare/tare.db in the user's folder for state (XDG Base
// Directory Specification, $XDG_STATE_HOME).
func DefaultFile() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // a relative one is to be ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("folder for the history of fits: %w: give --store FILE", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "tare", "tare.db"), nil
}

// Open opens the database of a location and brings it to this version's form:
// a PostgreSQL connection URI (postgres:// or postgresql://), or else the name
// of an SQLite file, which is made, with its folder, where it is missing.
// Errors: ErrNewer.
func Open(ctx context.Context, location string) (Store, error) {
	if sqldb.IsPostgres(location) {
		return openPostgres(ctx, location)
	}
	return openSQLite(ctx, location)
}
