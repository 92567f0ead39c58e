// Package sqldb opens SQLite files and PostgreSQL databases, and brings them to
// the form that this version of tare knows. What lies in them is its callers'.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"
	gooselock "github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"tare.dev/tare/internal/authorities"
)

// ErrNewer says that a later version of tare made the database.
var ErrNewer = errors.New("made by a newer version of tare")

// ConnectTimeout bounds one connection to PostgreSQL, unless its URL has a
// connect_timeout of its own.
const ConnectTimeout = 10 * time.Second

// IsPostgres says whether a location is a PostgreSQL connection URI, and not the
// name of a file.
func IsPostgres(location string) bool {
	return strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://")
}

// OpenPostgres opens the database of a connection URI
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING).
// What it lacks is taken from the environment (PGPASSWORD, PGSSLROOTCERT, …). name
// is the URI without its secrets, also beside an error. It connects to nothing yet.
func OpenPostgres(uri string) (db *sql.DB, name string, err error) {
	u, err := url.Parse(uri)
	if err != nil {
		// url.Parse would quote the URI, with its password.
		return nil, "", errors.New("the PostgreSQL URL cannot be parsed: write postgres://USER@HOST:PORT/DATABASE, special characters as %XX")
	}
	authorities.Trust()
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		return nil, shown(u), Refused(err) // pgx redacts the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = ConnectTimeout
	}
	return stdlib.OpenDB(*config), shown(u), nil
}

// shown is a URL without its secrets: the password, and the query, which may
// name one too.
func shown(u *url.URL) string {
	c := *u
	c.RawQuery, c.ForceQuery = "", false
	return c.Redacted()
}

// Refused is a failed connection in one line: of the attempts that pgx lists, one
// a line, the last one says why.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return refusedError{err}
}

type refusedError struct{ err error }

func (e refusedError) Error() string {
	lines := strings.Split(strings.TrimSpace(e.err.Error()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (e refusedError) Unwrap() error { return e.err }

// Numbered writes the arguments of a query, each ?, as PostgreSQL does: $1, $2, ….
func Numbered(query string) string {
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

// MigratePostgres brings a database to the form of the migrations in dir; table
// counts them. Of several processes one does. The error is ErrNewer where a later
// version made it.
func MigratePostgres(ctx context.Context, db *sql.DB, dir fs.FS, table string) error {
	one, err := gooselock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goosedb.DialectPostgres, db, dir, goose.WithSessionLocker(one), goose.WithTableName(table))
	if err != nil {
		return err
	}
	return Migrate(ctx, p)
}

// Migrate does what is left of some migrations. It writes nothing where there is
// none.
func Migrate(ctx context.Context, p *goose.Provider) error {
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("its version: %w", err)
	}
	if have > want {
		return ErrNewer
	}
	if have == want {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migration: %w", err)
	}
	return nil
}

// MakePrivate makes a file, and its folder, for its owner alone where it is
// missing: SQLite would make it readable to all. A file that is there is opened
// without writing to the disk.
func MakePrivate(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	}
	return f, err
}

// OpenSQLite opens a file with options of the driver.
func OpenSQLite(file string, options url.Values) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+options.Encode())
}
