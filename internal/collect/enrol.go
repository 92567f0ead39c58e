package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/history"
)

// Enrolling is what an agent asks of a hub that is to take up its machine (JSON).
type Enrolling struct {
	// Machine is the name that it asks for, Token what it has made to write that
	// machine's rows with.
	Machine string `json:"machine"`
	Token   string `json:"token"`
}

// Enrolled is the hub's answer.
type Enrolled struct {
	Machine string `json:"machine"`
}

// Enrolment is how an agent gets a token of its own.
type Enrolment struct {
	// Machine is the name to ask for, Secret reads the token that enrols; it is
	// called only while the machine has no token.
	Machine string
	Secret  func() (string, error)
	// File keeps the token of this machine.
	File string
}

// Enroller is a hub as a sink that takes up this machine first, unless it has.
type Enroller struct {
	*Client
	enrolment Enrolment
	secret    string // that enrols; "" once the machine is enrolled
}

// newSuffix marks the file of a token that the hub may not know yet.
const newSuffix = ".new"

// NewEnroller is a client of the hub at an address, as of NewClient. The machine's
// token is made here, and lies on the disk before the hub hears of it: whenever agent
// or hub is cut off, the agent asks for the same again.
func NewEnroller(address, caFile string, e Enrolment) (*Enroller, error) {
	out := &Enroller{enrolment: e}
	token, err := os.ReadFile(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		if out.secret, err = e.Secret(); err == nil {
			err = checkToken(out.secret, "--enrol")
		}
		if err == nil {
			token, err = pendingToken(e.File + newSuffix)
		}
	}
	if err == nil {
		out.Client, err = NewClient(address, strings.TrimSpace(string(token)), caFile)
	}
	return out, err
}

// pendingToken is the token that a file keeps, or a new one that it keeps now.
func pendingToken(file string) ([]byte, error) {
	if token, err := os.ReadFile(file); err == nil && history.IsWriteSecret(string(token)) {
		return token, nil
	}
	// What a kill or a power loss has left of an earlier one was not sent.
	token := []byte(history.NewSecret(history.Write))
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(token)
	return token, errors.Join(err, f.Sync(), f.Close())
}

// Position implements Sink.
func (e *Enroller) Position(ctx context.Context, ledger string) (uint64, error) {
	if e.secret != "" {
		if err := e.enrol(ctx); err != nil {
			return 0, fmt.Errorf("this machine is not enrolled as %s: %w", e.enrolment.Machine, err)
		}
		e.secret = ""
	}
	return e.Client.Position(ctx, ledger)
}

func (e *Enroller) enrol(ctx context.Context) error {
	body, err := json.Marshal(Enrolling{e.enrolment.Machine, e.token})
	if err != nil {
		return err
	}
	by := *e.Client
	by.token = e.secret
	var got Enrolled
	if err := by.do(ctx, http.MethodPost, "/api/v1/enrol", body, &got); err != nil {
		return err
	}
	return e.keep()
}

// keep gives the file of the token, which the hub knows now, its name.
func (e *Enroller) keep() error {
	if err := os.Rename(e.enrolment.File+newSuffix, e.enrolment.File); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(e.enrolment.File))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
