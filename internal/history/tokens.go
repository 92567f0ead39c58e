package history

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"tare.dev/tare/internal/lazy"
)

// Kind says what a token allows.
type Kind string

// The kinds.
const (
	// Read allows to read everything.
	Read Kind = "read"
	// Write allows to send the records of one machine, and to read nothing.
	Write Kind = "write"
)

// Token is a token that was given out; the token itself is not kept, only its hash.
type Token struct {
	ID int64
	// Name is for people; of a token that writes it is the name of the machine whose
	// rows it writes.
	Name string
	Kind Kind
	Made time.Time
}

// tokenName is what a token, and so a machine, can be called.
var tokenName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// maxToken bounds what is hashed.
const maxToken = 128

// AddToken makes a token, which nobody can be told again: 130 random bits, so that
// its plain SHA-256 tells nothing of it.
func (d *DB) AddToken(ctx context.Context, name string, kind Kind, now time.Time) (string, error) {
	if !tokenName().MatchString(name) {
		return "", fmt.Errorf("%q is no name: use letters, digits, dots, hyphens and underscores", name)
	}
	if kind != Read && kind != Write {
		return "", fmt.Errorf("%q is no kind of token: use %s or %s", kind, Read, Write)
	}
	secret := "tare-" + string(kind) + "-" + rand.Text()
	err := d.transact(ctx, func(t *transaction) error {
		var n int
		if err := t.queryRow("SELECT count(*) FROM tokens WHERE name = ?", name).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("there is a token %s: remove it first, or use another name", name)
		}
		_, err := t.exec("INSERT INTO tokens (name, kind, hash, made) VALUES (?, ?, ?, ?)", name, string(kind), hashed(secret), nanos(now))
		return err
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

func hashed(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Token is the token of a secret; ErrNotFound when there is none.
func (d *DB) Token(ctx context.Context, secret string) (Token, error) {
	if len(secret) > maxToken {
		return Token{}, fmt.Errorf("token: %w", ErrNotFound)
	}
	// What a comparison's time would tell is of the hash, and of no use.
	return d.token(d.queryRow(ctx, "SELECT id, name, kind, made FROM tokens WHERE hash = ?", hashed(secret)))
}

// TokenOf is the token of an id; ErrNotFound when it was removed.
func (d *DB) TokenOf(ctx context.Context, id int64) (Token, error) {
	return d.token(d.queryRow(ctx, "SELECT id, name, kind, made FROM tokens WHERE id = ?", id))
}

func (d *DB) token(row *sql.Row) (Token, error) {
	var t Token
	var made int64
	err := row.Scan(&t.ID, &t.Name, &t.Kind, &made)
	t.Made = timeOf(made)
	if errors.Is(err, sql.ErrNoRows) {
		return t, fmt.Errorf("token: %w", ErrNotFound)
	}
	return t, d.failed(err)
}

// Tokens lists the tokens by name.
func (d *DB) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := d.query(ctx, "SELECT id, name, kind, made FROM tokens ORDER BY name")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		var t Token
		var made int64
		if err := rows.Scan(&t.ID, &t.Name, &t.Kind, &made); err != nil {
			return nil, d.failed(err)
		}
		t.Made = timeOf(made)
		out = append(out, t)
	}
	return out, d.failed(rows.Err())
}

// RemoveToken takes a token back, from the next request on. The error is ErrNotFound
// where there is none.
func (d *DB) RemoveToken(ctx context.Context, name string) error {
	return d.transact(ctx, func(t *transaction) error {
		res, err := t.exec("DELETE FROM tokens WHERE name = ?", name)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("token %s: %w", name, ErrNotFound), err)
		}
		return nil
	})
}
