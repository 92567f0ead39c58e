package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// ask sends one request and reads the bounded answer.
func (e *Engine) ask(ctx context.Context, method, path string, query url.Values, body any) (status int, text []byte, err error) {
	return e.askFor(ctx, timeout, method, path, query, body)
}

func (e *Engine) askFor(ctx context.Context, most time.Duration, method, path string, query url.Values, body any) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	resp, err := e.send(ctx, method, path, query, body, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the answer of the Docker Engine: %w", err)
	}
	return resp.StatusCode, text, nil
}

// send sends one request and leaves the answer to be read.
func (e *Engine) send(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	if body == nil {
		return e.sendRaw(ctx, method, path, query, nil, header)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	return e.sendRaw(ctx, method, path, query, bytes.NewReader(text), header)
}

// sendRaw sends a request whose body, if any, is content as it is.
func (e *Engine) sendRaw(ctx context.Context, method, path string, query url.Values, content io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path+"?"+query.Encode(), content)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	resp, err := e.client.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w to ask the Docker Engine at %s", process.ErrNoPermission, e.host)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return nil, fmt.Errorf("%w at %s: %w", ErrNoEngine, e.host, err)
}

// refusal is the engine's own message, in one line.
func refusal(status int, text []byte) error {
	var r struct{ Message string }
	_ = json.Unmarshal(text, &r) // without one the status must do
	return fmt.Errorf("the Docker Engine answers %d: %s", status, linux.PrintableName(r.Message))
}
