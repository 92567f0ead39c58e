package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"tare.dev/tare/internal/sqldb"
)

const (
	// lostTimeout is how long a fit waits for a database that is gone.
	lostTimeout = time.Minute
	lostPoll    = time.Second
)

// postgres is a PostgreSQL database, 12 or later, that several hosts share. Its
// tables lie in the first schema of the search_path.
//
// A fit under way is locked by an advisory lock of a session
// (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS),
// so a pooler between must pool sessions. The server releases the lock when the
// connection ends. All that the fit stores goes over that same connection: who
// has lost the lock cannot store any more.
type postgres struct {
	db   *sql.DB
	host string
	name string
}

// openPostgres opens the database of a connection URI; see sqldb.OpenPostgres.
func openPostgres(ctx context.Context, uri string) (Store, error) {
	db, name, err := sqldb.OpenPostgres(uri)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", name, err)
	}
	e := &postgres{db: db, name: name}
	s, err := e.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", e.name, sqldb.Refused(errors.Join(err, db.Close())))
	}
	return s, nil
}

func (e *postgres) open(ctx context.Context) (*database, error) {
	dir, err := fs.Sub(migrations, "migrations/postgres")
	if err != nil {
		return nil, err
	}
	err = sqldb.MigratePostgres(ctx, e.db, dir, "goose_db_version")
	if errors.Is(err, sqldb.ErrNewer) {
		err = ErrNewer
	}
	if err != nil {
		return nil, err
	}
	s, err := newDatabase(e.db, e)
	if err != nil {
		return nil, err
	}
	e.host = s.host
	return s, nil
}

func (e *postgres) location() string { return e.name }

func (e *postgres) rebind(query string) string { return sqldb.Numbered(query) }

func (e *postgres) here(host string) bool { return host == e.host }

func (e *postgres) compact(context.Context) error { return nil } // autovacuum does

func (e *postgres) close() error { return nil }

// The first key of the advisory lock is the table, so that histories in several
// schemas of one database do not meet; the second is the fit.
const (
	tryLock  = `SELECT pg_try_advisory_lock('fits'::regclass::oid::int, $1::int)`
	unlock   = `SELECT pg_advisory_unlock('fits'::regclass::oid::int, $1::int)`
	isLocked = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid = 'fits'::regclass::oid AND objid = $1::bigint::oid)`
)

// sessionLock is an advisory lock and the session that holds it.
type sessionLock struct {
	engine *postgres
	id     int64
	conn   *sql.Conn
}

func (e *postgres) acquire(ctx context.Context, id int64) (lock, bool, error) {
	conn, err := e.session(ctx, id)
	if conn == nil {
		return nil, false, err
	}
	return &sessionLock{e, id, conn}, true, nil
}

// session is a connection that holds the lock of a fit, nil when another
// session has it.
func (e *postgres) session(ctx context.Context, id int64) (*sql.Conn, error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var ok bool
	if err := conn.QueryRowContext(ctx, tryLock, id).Scan(&ok); err != nil {
		return nil, errors.Join(fmt.Errorf("lock of fit %d: %w", id, err), conn.Close())
	}
	if !ok {
		return nil, conn.Close()
	}
	return conn, nil
}

func (e *postgres) locked(ctx context.Context, id int64) (held bool, err error) {
	err = e.db.QueryRowContext(ctx, isLocked, id).Scan(&held)
	return held, err
}

// begin waits, where the connection was lost, for another one that has the lock.
func (l *sessionLock) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := l.conn.BeginTx(ctx, nil)
	if err == nil {
		return tx, nil
	}
	lost := fmt.Errorf("the connection was lost: %w", err)
	waiting, cancel := context.WithTimeoutCause(ctx, lostTimeout, lost)
	defer cancel()
	_ = l.discard() // it is lost
	for {
		conn, err := l.engine.session(waiting, l.id)
		if conn != nil {
			l.conn = conn
			return conn.BeginTx(ctx, nil)
		}
		select {
		case <-waiting.Done():
			if err == nil { // somebody else has the lock
				err = &BusyError{l.id}
			}
			return nil, errors.Join(lost, err)
		case <-time.After(lostPoll):
		}
	}
}

func (l *sessionLock) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), sqldb.ConnectTimeout)
	defer cancel()
	var held bool
	if err := l.conn.QueryRowContext(ctx, unlock, l.id).Scan(&held); err != nil || !held {
		return l.discard() // the server ends the lock with the connection
	}
	return l.conn.Close()
}

// discard ends the session, and with it the lock: a connection that went back to
// the pool would keep it.
func (l *sessionLock) discard() error {
	err := l.conn.Raw(func(driver any) error {
		ctx, cancel := context.WithTimeout(context.Background(), sqldb.ConnectTimeout)
		defer cancel()
		return driver.(*stdlib.Conn).Conn().Close(ctx)
	})
	if closing := l.conn.Close(); closing != nil && !errors.Is(closing, sql.ErrConnDone) {
		err = errors.Join(err, closing)
	}
	if errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}
