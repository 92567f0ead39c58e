// Package history keeps what agents saw of JVMs over time, in an SQLite file or a
// PostgreSQL database: what is recent in full, what is older in longer intervals.
package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/pressly/goose/v3"

	"tare.dev/tare/internal/sqldb"
)

//go:embed migrations
var migrations embed.FS

// Tier is one resolution of the history.
type Tier struct {
	// Step is one interval, Keep how long intervals are kept.
	Step, Keep time.Duration
}

// Tiers are all resolutions, the finest first. Every sample goes into each, so that
// each has what happened a moment ago; of an interval the largest values are kept.
var Tiers = []Tier{
	{10 * time.Second, 24 * time.Hour},
	{time.Minute, 7 * 24 * time.Hour},
	{10 * time.Minute, Quarter},
}

// Quarter is how long anything is kept.
const Quarter = 92 * 24 * time.Hour

// Errors that a caller tells apart with errors.Is.
var (
	// ErrNotFound says that there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrNewer says that a later version of tare made the database.
	ErrNewer = errors.New("made by a newer version of tare: use that one, or another database with --history")
)

// DB is a history. Its methods may be called by several goroutines.
type DB struct {
	db       *sql.DB
	name     string
	postgres bool
	// writing is held by who writes: SQLite has one writer at a time.
	writing sync.Mutex
}

// DefaultFile is history.db beside the ledger in a folder for state.
func DefaultFile(ledgerDir string) string {
	return filepath.Join(filepath.Dir(ledgerDir), "history.db")
}

// Open opens the history of a location, and brings it to this version's form: a
// PostgreSQL connection URI, or else the name of an SQLite file, which is made where
// it is missing. Errors: ErrNewer.
func Open(ctx context.Context, location string) (*DB, error) {
	d := &DB{postgres: sqldb.IsPostgres(location)}
	err := d.open(ctx, location)
	if errors.Is(err, sqldb.ErrNewer) {
		err = ErrNewer
	}
	if err != nil {
		if d.db != nil {
			err = errors.Join(err, d.db.Close())
		}
		return nil, fmt.Errorf("history %s: %w", d.name, sqldb.Refused(err))
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, location string) (err error) {
	if d.postgres {
		if d.db, d.name, err = sqldb.OpenPostgres(location); err != nil {
			return err
		}
		d.keepOpen(8)
		dir, err := fs.Sub(migrations, "migrations/postgres")
		if err != nil {
			return err
		}
		return sqldb.MigratePostgres(ctx, d.db, dir, "history_db_version")
	}
	if d.name, err = filepath.Abs(location); err != nil {
		return err
	}
	f, err := sqldb.MakePrivate(d.name)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// What a power loss takes of the last second, agents send again: NORMAL.
	d.db, err = sqldb.OpenSQLite(d.name, url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)",
		"foreign_keys(1)", "trusted_schema(0)", "cache_size(-16000)"}})
	if err != nil {
		return err
	}
	d.keepOpen(6)
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, d.db, dir)
	if err != nil {
		return err
	}
	return sqldb.Migrate(ctx, p)
}

// keepOpen bounds the connections, and keeps all of them open: a new one of SQLite has
// an empty cache, and reads the schema again.
func (d *DB) keepOpen(connections int) {
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
}

// Location is the database's file, or its URL without the password.
func (d *DB) Location() string { return d.name }

// Close closes the database.
func (d *DB) Close() error { return d.db.Close() }

// Ping says whether the database answers.
func (d *DB) Ping(ctx context.Context) error { return d.failed(d.db.PingContext(ctx)) }

// failed says with which database something failed.
func (d *DB) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("history %s: %w", d.name, err)
}

// sql is a query as the database writes it: ? for an argument, and GREATEST, which
// SQLite calls max.
func (d *DB) sql(query string) string {
	if d.postgres {
		return sqldb.Numbered(query)
	}
	return strings.ReplaceAll(query, "greatest(", "max(")
}

func (d *DB) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.db.QueryContext(ctx, d.sql(query), args...)
}

func (d *DB) queryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return d.db.QueryRowContext(ctx, d.sql(query), args...)
}

// transact runs f in a transaction, of which all takes effect or nothing.
func (d *DB) transact(ctx context.Context, f func(tx *transaction) error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return d.failed(err)
	}
	defer tx.Rollback() // harmless after Commit
	if err := f(&transaction{ctx, tx, d}); err != nil {
		return d.failed(err)
	}
	return d.failed(tx.Commit())
}

// transaction is a transaction with its context.
type transaction struct {
	ctx context.Context
	tx  *sql.Tx
	d   *DB
}

func (t *transaction) exec(query string, args ...any) (sql.Result, error) {
	return t.tx.ExecContext(t.ctx, t.d.sql(query), args...)
}

func (t *transaction) queryRow(query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(t.ctx, t.d.sql(query), args...)
}

// rowsAtOnce is how many rows one statement writes.
const rowsAtOnce = 32

// insert writes rows of as many columns, many with one statement. tail follows the
// values.
func (t *transaction) insert(head string, rows [][]any, tail string) error {
	for len(rows) > 0 {
		n := min(len(rows), rowsAtOnce)
		row := "(?" + strings.Repeat(", ?", len(rows[0])-1) + ")"
		var args []any
		for _, r := range rows[:n] {
			args = append(args, r...)
		}
		if _, err := t.exec(head+" VALUES "+row+strings.Repeat(", "+row, n-1)+" "+tail, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeUnixMicro}.EncMode())
	decoding = must(cbor.DecOptions{MaxNestedLevels: 8, MaxArrayElements: 1024, MaxMapPairs: 1024}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constant
	}
	return v
}

// packed is a value as the database keeps it.
func packed(v any) []byte {
	b, err := encoding.Marshal(v)
	if err != nil {
		panic(err) // plain structs can be encoded
	}
	return b
}

// unpack reads what packed wrote; nothing leaves v as it is.
func unpack(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	return decoding.Unmarshal(b, v)
}

// nanos is a time as the database keeps it.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// Backup writes all that is there at this moment to a new SQLite file. A PostgreSQL
// database is backed up by its own means.
func (d *DB) Backup(ctx context.Context, file string) error {
	if d.postgres {
		return d.failed(errors.New("tare backs up SQLite alone: use pg_dump"))
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s is there already: name a new file", file)
	}
	f, err := sqldb.MakePrivate(file)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// VACUUM INTO takes an empty file (https://www.sqlite.org/lang_vacuum.html).
	_, err = d.db.ExecContext(ctx, "VACUUM INTO ?", file)
	return d.failed(err)
}
