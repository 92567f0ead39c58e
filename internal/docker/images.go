package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"tare.dev/tare/internal/linux"
)

// Save returns an image as the tar archive of docker save. The caller closes it.
func (e *Engine) Save(ctx context.Context, name string) (io.ReadCloser, error) {
	resp, err := e.send(ctx, http.MethodGet, "/images/"+url.PathEscape(name)+"/get", nil, nil, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("image %.100q: %w", name, ErrNoImage)
	}
	return nil, fmt.Errorf("image %.100q: %w", name, refusal(resp.StatusCode, text))
}

// Load gives the engine images in the form of docker save.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	resp, err := e.sendRaw(ctx, http.MethodPost, "/images/load", url.Values{"quiet": {"1"}}, archive, http.Header{"Content-Type": {"application/x-tar"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
		return fmt.Errorf("loading an image: %w", refusal(resp.StatusCode, text))
	}
	if err := loadingError(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return fmt.Errorf("loading an image: %w", err)
	}
	return nil
}

// loadingError is the error among the messages of a load, each a JSON value: the
// status was sent before it was known.
func loadingError(r io.Reader) error {
	messages := json.NewDecoder(bufio.NewReader(r))
	for {
		var m struct{ Error string }
		err := messages.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the answer of the Docker Engine: %w", err)
		case m.Error != "":
			return errors.New(linux.PrintableName(m.Error))
		}
	}
}

// Tag names an image. repository and tag are the two parts of the name.
func (e *Engine) Tag(ctx context.Context, id, repository, tag string) error {
	status, text, err := e.work(ctx, http.MethodPost, "/images/"+url.PathEscape(id)+"/tag", url.Values{"repo": {repository}, "tag": {tag}}, nil)
	if err != nil || status == http.StatusCreated {
		return err
	}
	return fmt.Errorf("name %.100q of an image: %w", repository+":"+tag, refusal(status, text))
}

// RemoveImage removes an image that nothing uses; that there is none is no error.
func (e *Engine) RemoveImage(ctx context.Context, name string) error {
	status, text, err := e.work(ctx, http.MethodDelete, "/images/"+url.PathEscape(name), nil, nil)
	if err != nil || status == http.StatusOK || status == http.StatusNotFound {
		return err
	}
	return fmt.Errorf("removal of image %.100q: %w", name, refusal(status, text))
}

// CopyFrom returns a file or folder of a container, which need not run, as a tar
// archive. The caller closes it.
func (e *Engine) CopyFrom(ctx context.Context, id, path string) (io.ReadCloser, error) {
	resp, err := e.send(ctx, http.MethodGet, containerPath(id, "/archive"), url.Values{"path": {path}}, nil, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
	return nil, fmt.Errorf("%.200q of container %.12s: %w", path, id, refusal(resp.StatusCode, text))
}
