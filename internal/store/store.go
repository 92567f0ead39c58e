// Package store keeps the history of fits in a file: every trial the moment it
// ends, so that nothing is lost when tare is killed, and a fit can go on.
//
// The file is an SQLite database in WAL mode (https://sqlite.org/wal.html) with
// synchronous=FULL: what was stored outlives a kill of the process and of the
// machine. It is made for its owner alone, for command lines and environments
// may hold secrets.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store is an open database. Its methods may be called from several goroutines,
// and several processes may have the same file open.
type Store struct {
	db    *sql.DB
	locks *os.File
	file  string
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

// Open opens the database, and makes it and its folder where they are missing.
func Open(ctx context.Context, file string) (*Store, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s, err := open(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", file, err)
	}
	return s, nil
}

func open(ctx context.Context, file string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	// SQLite would make it readable to all.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	pragmas := url.Values{"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "trusted_schema(0)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, file: file}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if s.locks, err = os.OpenFile(file+"-locks", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Close closes the database.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.locks.Close()) }

// File is the database's path.
func (s *Store) File() string { return s.file }

// migrations bring the database from each version to the next; user_version
// counts those that were made. Those that were published are never changed.
var migrations = []string{`
	CREATE TABLE fits (
		id         INTEGER PRIMARY KEY AUTOINCREMENT,
		began      INTEGER NOT NULL,  -- nanoseconds since 1970
		ended      INTEGER,           -- NULL: cut off, or under way
		making     TEXT,              -- a file that is left over when tare is killed
		plan       TEXT NOT NULL,     -- JSON of fit.Plan
		invocation TEXT NOT NULL,     -- JSON of Invocation
		ending     TEXT               -- JSON of fit.Ending
	) STRICT;
	CREATE TABLE steps (
		fit  INTEGER NOT NULL REFERENCES fits (id) ON DELETE CASCADE,
		seq  INTEGER NOT NULL,        -- from 1
		kind TEXT NOT NULL CHECK (kind IN ('trial', 'training')),
		step TEXT NOT NULL,           -- JSON of fit.Step
		PRIMARY KEY (fit, seq)
	) STRICT, WITHOUT ROWID;`,
}

// ErrNewer says that a later version of tare made the database.
var ErrNewer = errors.New("made by a newer version of tare: use that one, or another file with --store FILE")

func (s *Store) migrate(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // harmless after Commit
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(migrations) {
		return ErrNewer
	}
	for _, m := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, m); err != nil {
			return fmt.Errorf("migration: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}
