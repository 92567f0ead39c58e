package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"
	gooselock "github.com/pressly/goose/v3/lock"
)

const (
	// connectTimeout bounds one connection, unless the URL has a
	// connect_timeout of its own.
	connectTimeout = 10 * time.Second
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

// openPostgres opens the database of a connection URI
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING).
// What it lacks is taken from the environment (PGPASSWORD, PGSSLROOTCERT, …).
func openPostgres(ctx context.Context, uri string) (Store, error) {
	u, err := url.Parse(uri)
	if err != nil {
		// url.Parse would quote the URI, with its password.
		return nil, errors.New("store: the PostgreSQL URL cannot be parsed: write postgres://USER@HOST:PORT/DATABASE, special characters as %XX")
	}
	e := &postgres{name: shown(u)}
	s, err := e.open(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", e.name, refusedError{err})
	}
	return s, nil
}

// refusedError is a failed connection in one line: of the attempts that pgx
// lists, one a line, the last one says why.
type refusedError struct{ err error }

func (e refusedError) Error() string {
	lines := strings.Split(strings.TrimSpace(e.err.Error()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (e refusedError) Unwrap() error { return e.err }

// shown is a URL without its secrets: the password, and the query, which may
// name one too.
func shown(u *url.URL) string {
	c := *u
	c.RawQuery, c.ForceQuery = "", false
	return c.Redacted()
}

func (e *postgres) open(ctx context.Context, uri string) (*database, error) {
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		return nil, err // pgx redacts the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	e.db = stdlib.OpenDB(*config)
	if err := e.migrate(ctx); err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	s, err := newDatabase(e.db, e)
	if err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	e.host = s.host
	return s, nil
}

func (e *postgres) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations/postgres")
	if err != nil {
		return err
	}
	one, err := gooselock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goosedb.DialectPostgres, e.db, dir, goose.WithSessionLocker(one))
	if err != nil {
		return err
	}
	return migrate(ctx, p)
}

func (e *postgres) location() string { return e.name }

// rebind numbers the arguments: $1, $2, ….
func (e *postgres) rebind(query string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

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
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
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
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
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
