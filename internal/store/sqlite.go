package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/sqldb"
)

//go:embed migrations
var migrations embed.FS

// sqlite is an SQLite database in WAL mode (https://sqlite.org/wal.html) with
// synchronous=FULL: what was stored outlives a kill of the process and of the
// machine. Its files are made for their owner alone, for command lines and
// environments may hold secrets; what is deleted is overwritten.
//
// A fit under way is locked, by its number as the offset of one byte in a file
// beside the database, with an open file description lock (fcntl(2),
// F_OFD_SETLK): the kernel releases it however the process ends. Byte 0 is
// locked while the database is being migrated.
type sqlite struct {
	db    *sql.DB
	file  string
	locks *os.File // nil: the disk is full, and nobody can have made it
}

// openSQLite opens a file. A database that is there can be read although its
// disk is full.
func openSQLite(ctx context.Context, file string) (Store, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	e := &sqlite{file: file}
	s, err := e.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", file, errors.Join(err, e.close()))
	}
	return s, nil
}

func (e *sqlite) open(ctx context.Context) (*database, error) {
	f, err := sqldb.MakePrivate(e.file)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if e.locks, err = sqldb.MakePrivate(e.file + "-locks"); err != nil && !errors.Is(err, unix.ENOSPC) {
		return nil, err
	}
	if e.db, err = sqldb.OpenSQLite(e.file, url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)",
		"foreign_keys(1)", "trusted_schema(0)", "secure_delete(1)"}}); err != nil {
		return nil, err
	}
	if err := e.migrate(ctx); err != nil {
		if !e.diskFull() {
			return nil, errors.Join(err, e.db.Close())
		}
		if err := e.readOnly(ctx, err); err != nil {
			return nil, err
		}
	}
	return newDatabase(e.db, e)
}

// diskFull tells whether the file system of the database has no page left.
func (e *sqlite) diskFull() bool {
	var st unix.Statfs_t
	return unix.Statfs(filepath.Dir(e.file), &st) == nil && int64(st.Bavail)*st.Bsize < int64(os.Getpagesize())*16
}

// readOnly opens the database as it stands in its one file, where a full disk
// has no room for the index of the write-ahead log that each open makes. A log
// that is not empty holds what that file lacks: then the disk must be cleared.
func (e *sqlite) readOnly(ctx context.Context, full error) error {
	full = errors.Join(fmt.Errorf("its disk is full: free some space: %w", full), e.db.Close())
	if st, err := os.Stat(e.file + "-wal"); err == nil && st.Size() > 0 {
		return full
	}
	db, err := sqldb.OpenSQLite(e.file, url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"trusted_schema(0)"}})
	if err != nil {
		return errors.Join(full, err)
	}
	e.db = db
	if _, pending, err := e.pending(ctx); err != nil || pending {
		return errors.Join(full, err, db.Close())
	}
	return nil
}

// pending tells whether the database has not yet this version's form. Each
// migration sets user_version to its own number: versions of tare that did not
// know goose look there. The error is ErrNewer where a later one made it.
func (e *sqlite) pending(ctx context.Context) (*goose.Provider, bool, error) {
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return nil, false, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, e.db, dir)
	if err != nil {
		return nil, false, err
	}
	var version int
	if err := e.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return nil, false, err
	}
	if version > len(p.ListSources()) {
		return nil, false, ErrNewer
	}
	return p, version < len(p.ListSources()), nil
}

// migrate brings the database to this version's form. Others wait from before the first
// connection on: where two give a new database its write-ahead log, one is told at once that it
// is locked, whatever busy_timeout says, for they could wait for each other
// (https://sqlite.org/c3ref/busy_handler.html).
func (e *sqlite) migrate(ctx context.Context) (err error) {
	if e.locks != nil {
		if err := unix.FcntlFlock(e.locks.Fd(), unix.F_OFD_SETLKW, byteOf(0, unix.F_WRLCK)); err != nil {
			return fmt.Errorf("lock for the migration: %w", err)
		}
		defer func() {
			err = errors.Join(err, unix.FcntlFlock(e.locks.Fd(), unix.F_OFD_SETLK, byteOf(0, unix.F_UNLCK)))
		}()
	}
	p, pending, err := e.pending(ctx)
	if err != nil || !pending {
		return err
	}
	if e.locks == nil {
		return unix.ENOSPC
	}
	return sqldb.Migrate(ctx, p)
}

func (e *sqlite) location() string { return e.file }

func (e *sqlite) rebind(query string) string { return query }

// here: a file is of one machine, under whichever name the machine had then.
func (e *sqlite) here(string) bool { return true }

func (e *sqlite) close() error {
	if e.locks == nil {
		return nil
	}
	return e.locks.Close()
}

func (e *sqlite) compact(ctx context.Context) error {
	if _, err := e.db.ExecContext(ctx, "VACUUM"); err != nil {
		return err
	}
	_, err := e.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// fileLock is a held lock of a byte of the file.
type fileLock struct {
	db   *sql.DB
	file *os.File
}

func (e *sqlite) acquire(_ context.Context, id int64) (lock, bool, error) {
	if e.locks == nil {
		return nil, false, fmt.Errorf("lock of fit %d: %w", id, unix.ENOSPC)
	}
	f, err := os.OpenFile(e.locks.Name(), os.O_RDWR, 0)
	if err != nil {
		return nil, false, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, byteOf(id, unix.F_WRLCK))
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("lock of fit %d: %w", id, err), f.Close())
	}
	return fileLock{e.db, f}, true, nil
}

func (e *sqlite) locked(_ context.Context, id int64) (bool, error) {
	if e.locks == nil {
		return false, nil
	}
	l := byteOf(id, unix.F_RDLCK)
	if err := unix.FcntlFlock(e.locks.Fd(), unix.F_OFD_GETLK, l); err != nil {
		return false, fmt.Errorf("lock of fit %d: %w", id, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

func (l fileLock) begin(ctx context.Context) (*sql.Tx, error) { return l.db.BeginTx(ctx, nil) }

func (l fileLock) release() error { return l.file.Close() }

func byteOf(id int64, kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: id, Len: 1}
}
