package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"tare.dev/tare/internal/runner"
)

func (s *Server) handleArchives() {
	s.mux.HandleFunc("POST /archives", s.openArchives)
	handle(s, "keep-archives", maxCall, func(ctx context.Context, in heldRequest) (none, error) {
		s.mu.Lock()
		a, ok := s.archives[in.Archives]
		s.mu.Unlock()
		if !ok {
			return none{}, noArchives(in.Archives)
		}
		return none{}, a.Keep(ctx)
	})
	handle(s, "close-archives", maxCall, func(_ context.Context, in heldRequest) (none, error) {
		return none{}, s.closeArchives(in.Archives)
	})
	handle(s, "remove-made", maxCall, func(ctx context.Context, in fileRequest) ([]string, error) {
		return s.runner.RemoveMade(ctx, in.Name)
	})
}

func noArchives(name string) error {
	return fmt.Errorf("folder for class archives %.40q of the agent: %w", name, os.ErrClosed)
}

// openArchives opens a folder and holds it until the client has closed it. Of a client
// that has gone it is closed here.
func (s *Server) openArchives(w http.ResponseWriter, r *http.Request) {
	var in archivesRequest
	if !decode(w, r, &in) {
		return
	}
	open, name := s.runner.MakeArchives, in.Base
	if in.Dir != "" {
		open, name = s.runner.OpenArchives, in.Dir
	}
	a, err := open(r.Context(), name)
	var held heldArchives
	if err == nil {
		held = heldArchives{rand.Text(), a.Dir(), a.Inside()}
		s.mu.Lock()
		s.archives[held.Name] = a
		s.mu.Unlock()
		defer s.closeArchives(held.Name)
	}
	w.Header().Set("Content-Type", "application/jsonl")
	to := &stream{control: http.NewResponseController(w), encoder: json.NewEncoder(w)}
	if to.send(answer[heldArchives]{Result: held, Error: failureOf(err)}) == nil && err == nil {
		<-r.Context().Done()
	}
}

// closeArchives closes a folder, once.
func (s *Server) closeArchives(name string) error {
	s.mu.Lock()
	a, ok := s.archives[name]
	delete(s.archives, name)
	s.mu.Unlock()
	if !ok {
		return noArchives(name)
	}
	return a.Close()
}

// MakeArchives makes a folder where the agent is, which is this client's until Close, or
// until this process has gone.
func (c *Client) MakeArchives(ctx context.Context, base string) (runner.Archives, error) {
	return c.openArchives(ctx, archivesRequest{Base: base})
}

// OpenArchives takes a folder where the agent is.
func (c *Client) OpenArchives(ctx context.Context, dir string) (runner.Archives, error) {
	return c.openArchives(ctx, archivesRequest{Dir: dir})
}

// RemoveMade removes what was being made where the agent is.
func (c *Client) RemoveMade(ctx context.Context, path string) ([]string, error) {
	return call[[]string](ctx, c, "remove-made", fileRequest{path})
}

func (c *Client) openArchives(ctx context.Context, in archivesRequest) (runner.Archives, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	long, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp)
	held, err := c.hold(long, in)
	if stop(); ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	return &archives{client: c, held: held, hangUp: hangUp}, nil
}

// hold asks for a folder. The connection stays: it holds the folder.
func (c *Client) hold(ctx context.Context, in archivesRequest) (heldArchives, error) {
	var out answer[heldArchives]
	resp, err := c.request(ctx, "/archives", in)
	if err != nil {
		return out.Result, err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxEvent)).Decode(&out); err != nil {
		return out.Result, errors.Join(fmt.Errorf("agent: folder for class archives: %w", err), resp.Body.Close())
	}
	if err := out.Error.err(); err != nil {
		return out.Result, errors.Join(err, resp.Body.Close())
	}
	return out.Result, nil
}

// archives is a folder where an agent is.
type archives struct {
	client *Client
	held   heldArchives
	hangUp context.CancelFunc

	once sync.Once
	err  error // of the first Close
}

// Dir is the folder where the agent is.
func (a *archives) Dir() string { return a.held.Dir }

// Inside is the folder for the processes there.
func (a *archives) Inside() string { return a.held.Inside }

// Keep has the agent keep the folder.
func (a *archives) Keep(ctx context.Context) error {
	_, err := call[none](ctx, a.client, "keep-archives", heldRequest{a.held.Name})
	return err
}

// Close has the agent close the folder, and hangs up.
func (a *archives) Close() error {
	a.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_, a.err = call[none](ctx, a.client, "close-archives", heldRequest{a.held.Name})
		a.hangUp()
	})
	return a.err
}
