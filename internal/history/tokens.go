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
	// Enrol allows to make tokens of the kind Write for machines that have none, and
	// nothing else.
	Enrol Kind = "enrol"
)

// Token is a token that was given out; the token itself is not kept, only its hash.
type Token struct {
	ID int64
	// Name is for people; of a token that writes it is the name of the machine whose
	// rows it writes.
	Name string
	Kind Kind
	Made time.Time
	// Expires is when a token that enrols enrols no more, zero for never; Machines is
	// how many it may have enrolled at once, Enrolled how many it has.
	Expires            time.Time
	Machines, Enrolled int
	// By is the id of the token that a machine was enrolled with, 0 without one.
	By int64
}

// Why a machine is not enrolled; a caller tells them apart with errors.Is.
var (
	ErrNoEnrolment = errors.New("this token enrols no machines: make one with tare serve token add NAME --enrol")
	ErrExpired     = errors.New("the token for enrolling has expired: make another one")
	ErrAllEnrolled = errors.New("the token for enrolling has enrolled as many machines as it may: make another one")
	ErrNameTaken   = errors.New("there is a token of this name already: give this machine another name with --name, or remove the old token if it is the same machine")
	ErrNoName      = errors.New("use letters, digits, dots, hyphens and underscores")
	ErrNoSecret    = errors.New("the machine's token is none that an agent makes")
)

var (
	// tokenName is what a token, and so a machine, can be called.
	tokenName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	// writeSecret is what NewSecret makes for an agent.
	writeSecret = lazy.Regexp(`^tare-write-[A-Z2-7]{26}$`)
)

// maxToken bounds what is hashed.
const maxToken = 128

// NewSecret is a token that nobody has: 130 random bits, so that its plain SHA-256
// tells nothing of it.
func NewSecret(kind Kind) string { return "tare-" + string(kind) + "-" + rand.Text() }

// IsWriteSecret says whether a text has the form of a token of an agent.
func IsWriteSecret(text string) bool { return writeSecret().MatchString(text) }

// AddToken makes a token for reading or writing, which nobody can be told again.
func (d *DB) AddToken(ctx context.Context, name string, kind Kind, now time.Time) (string, error) {
	if kind != Read && kind != Write {
		return "", fmt.Errorf("%q is no kind of token: use %s or %s", kind, Read, Write)
	}
	return d.addToken(ctx, Token{Name: name, Kind: kind, Made: now})
}

// AddEnrolment makes a token that enrols so many machines at most, until a time;
// zero is without an end.
func (d *DB) AddEnrolment(ctx context.Context, name string, machines int, expires, now time.Time) (string, error) {
	if machines < 1 || machines > MaxMachines {
		return "", fmt.Errorf("%d machines cannot be enrolled: give a number from 1 to %d", machines, MaxMachines)
	}
	return d.addToken(ctx, Token{Name: name, Kind: Enrol, Made: now, Expires: expires, Machines: machines})
}

func (d *DB) addToken(ctx context.Context, t Token) (secret string, err error) {
	secret = NewSecret(t.Kind)
	err = d.transact(ctx, func(tx *transaction) error { return tx.insertToken(t, secret) })
	if errors.Is(err, ErrNameTaken) {
		return "", fmt.Errorf("there is a token %s: remove it first, or use another name", t.Name)
	}
	if err != nil {
		return "", err
	}
	return secret, nil
}

// insertToken keeps a token. Errors: ErrNoName, ErrNameTaken.
func (t *transaction) insertToken(token Token, secret string) error {
	if !tokenName().MatchString(token.Name) {
		return fmt.Errorf("%.300q is no name: %w", token.Name, ErrNoName)
	}
	var n int
	if err := t.queryRow("SELECT count(*) FROM tokens WHERE name = ?", token.Name).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return ErrNameTaken
	}
	_, err := t.exec("INSERT INTO tokens (name, kind, hash, made, expires, machines, enrolled) VALUES (?, ?, ?, ?, ?, ?, ?)",
		token.Name, string(token.Kind), hashed(secret), nanos(token.Made), nanos(token.Expires), token.Machines, token.By)
	return err
}

// Enrol takes up a machine by a token that enrols: from now on secret, which the
// machine has made (NewSecret), writes that machine's rows. The same again has no
// effect, so that an agent that was cut off can ask again. Errors: ErrNotFound for a
// token that is none, and those above.
func (d *DB) Enrol(ctx context.Context, enrolment, machine, secret string, now time.Time) error {
	if !IsWriteSecret(secret) {
		return ErrNoSecret
	}
	if len(enrolment) > maxToken {
		return fmt.Errorf("token: %w", ErrNotFound)
	}
	return d.transact(ctx, func(t *transaction) error {
		var by Token
		err := by.scan(t.queryRow(selectToken+"WHERE hash = ?", hashed(enrolment)))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("token: %w", ErrNotFound)
		case err != nil:
			return err
		case by.Kind != Enrol:
			return ErrNoEnrolment
		case !by.Expires.IsZero() && now.After(by.Expires):
			return ErrExpired
		}
		var same int
		if err := t.queryRow("SELECT count(*) FROM tokens WHERE name = ? AND hash = ?", machine, hashed(secret)).Scan(&same); err != nil || same > 0 {
			return err
		}
		if by.Enrolled >= by.Machines {
			return ErrAllEnrolled
		}
		return t.insertToken(Token{Name: machine, Kind: Write, Made: now, By: by.ID}, secret)
	})
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
	return d.token(d.queryRow(ctx, selectToken+"WHERE hash = ?", hashed(secret)))
}

// TokenOf is the token of an id; ErrNotFound when it was removed.
func (d *DB) TokenOf(ctx context.Context, id int64) (Token, error) {
	return d.token(d.queryRow(ctx, selectToken+"WHERE id = ?", id))
}

const selectToken = `SELECT id, name, kind, made, expires, machines, enrolled,
	(SELECT count(*) FROM tokens others WHERE others.enrolled = tokens.id) FROM tokens `

// scan reads a row of selectToken.
func (t *Token) scan(row interface{ Scan(...any) error }) error {
	var made, expires int64
	err := row.Scan(&t.ID, &t.Name, &t.Kind, &made, &expires, &t.Machines, &t.By, &t.Enrolled)
	t.Made, t.Expires = timeOf(made), timeOf(expires)
	return err
}

func (d *DB) token(row *sql.Row) (t Token, err error) {
	if err = t.scan(row); errors.Is(err, sql.ErrNoRows) {
		return t, fmt.Errorf("token: %w", ErrNotFound)
	}
	return t, d.failed(err)
}

// Tokens lists the tokens by name.
func (d *DB) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := d.query(ctx, selectToken+"ORDER BY name")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		var t Token
		if err := t.scan(rows); err != nil {
			return nil, d.failed(err)
		}
		out = append(out, t)
	}
	return out, d.failed(rows.Err())
}

// HasReaders says that there is a token for reading.
func (d *DB) HasReaders(ctx context.Context) (bool, error) {
	var n int
	err := d.queryRow(ctx, "SELECT count(*) FROM (SELECT 1 FROM tokens WHERE kind = ? LIMIT 1) readers", string(Read)).Scan(&n)
	return n > 0, d.failed(err)
}

// RemoveToken takes a token back, from the next request on, and with enrolled those of
// the machines that it enrolled. The error is ErrNotFound where there is none.
func (d *DB) RemoveToken(ctx context.Context, name string, enrolled bool) error {
	return d.transact(ctx, func(t *transaction) error {
		if enrolled {
			if _, err := t.exec("DELETE FROM tokens WHERE enrolled = (SELECT id FROM tokens WHERE name = ? AND kind = ?)", name, string(Enrol)); err != nil {
				return err
			}
		}
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
