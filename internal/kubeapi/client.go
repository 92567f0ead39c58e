package kubeapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"tare.dev/tare/internal/linux"
)

// Client asks an API server.
type Client struct {
	// Namespace is the one where none is given.
	Namespace string

	config *rest.Config
	http   http.Client
	base   *url.URL
}

const (
	// maxAnswer bounds what is read of one answer.
	maxAnswer = 64 << 20
	// maxEvent bounds one event of a watch: an object has 1.5 MiB at most (etcd's
	// --max-request-bytes), and JSON that is not sent as stored may be longer.
	maxEvent = 8 << 20
	// patience is how long an answer's head may take.
	patience = 30 * time.Second
)

// noRedirect follows no redirect: the credentials would go with it.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// StatusError is an answer that is no success.
type StatusError struct {
	Method, Path    string
	Code            int
	Reason, Message string
}

// Error says what was asked, and what the server answered, in one line.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Code, linux.Printable(strings.Join(strings.Fields(e.Message[:min(len(e.Message), 500)]), " ")))
}

// IsCode says that an error is an answer with this code, such as 404.
func IsCode(err error, code int) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == code
}

// Request is one call.
type Request struct {
	Method, Path string
	Query        url.Values
	ContentType  string // of the body; "" without one
	Body         []byte
	Header       http.Header
}

// errSilent says that an answer's head did not come.
var errSilent = fmt.Errorf("no answer within %s", patience)

// send makes a call, and hands the answer of a success to read.
func (c *Client) send(ctx context.Context, r Request, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	address := strings.TrimSuffix(c.base.String(), "/") + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(r.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	head := time.AfterFunc(patience, func() { cancel(errSilent) })
	resp, err := c.http.Do(req)
	head.Stop()
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		return fmt.Errorf("the API server: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return statusError(r, resp)
	}
	return read(resp.Body)
}

func statusError(r Request, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what does not come is missing in the message
	e := &StatusError{Method: r.Method, Path: r.Path, Code: resp.StatusCode, Message: strings.TrimSpace(string(text))}
	var status struct {
		Kind, Reason, Message string
	}
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message = status.Reason, status.Message
	}
	return e
}

// Do makes a call and returns the answer's text.
func (c *Client) Do(ctx context.Context, r Request) (text []byte, err error) {
	err = c.send(ctx, r, func(body io.Reader) error {
		text, err = io.ReadAll(io.LimitReader(body, maxAnswer+1))
		if err == nil && len(text) > maxAnswer {
			err = fmt.Errorf("%s %s: an answer of more than %d MiB", r.Method, r.Path, maxAnswer>>20)
		}
		return err
	})
	return text, err
}

// Get reads an object, or a list of them, into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, Request{Method: http.MethodGet, Path: path, Query: query}, nil, out)
}

// Create makes an object, and reads what was made of it into out.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, Request{Method: http.MethodPost, Path: path, ContentType: "application/json"}, object, out)
}

// Merge changes an object (JSON Merge Patch, RFC 7396).
func (c *Client) Merge(ctx context.Context, path string, change any) error {
	return c.call(ctx, Request{Method: http.MethodPatch, Path: path, ContentType: "application/merge-patch+json"}, change, nil)
}

// Remove removes an object at once, and all that it owns in the background. One that is
// not there is no error.
func (c *Client) Remove(ctx context.Context, path string) error {
	err := c.call(ctx, Request{Method: http.MethodDelete, Path: path, ContentType: "application/json"},
		map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "gracePeriodSeconds": 0}, nil)
	if IsCode(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// call sends in as JSON and reads the answer into out; either may be nil.
func (c *Client) call(ctx context.Context, r Request, in, out any) (err error) {
	if in != nil {
		if r.Body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	text, err := c.Do(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	return nil
}

// Apply applies an object on the server (server-side apply, Content-Type
// application/apply-patch+yaml, of which JSON is a part) as the field manager. dryRun
// changes nothing, and force takes fields from other managers.
func (c *Client) Apply(ctx context.Context, path, manager string, object any, dryRun, force bool) ([]byte, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	q := url.Values{"fieldManager": {manager}}
	if force {
		q.Set("force", "true")
	}
	if dryRun {
		q.Set("dryRun", "All")
	}
	return c.Do(ctx, Request{Method: http.MethodPatch, Path: path, Query: q, ContentType: "application/apply-patch+yaml", Body: body})
}

// Event is one of a watch.
type Event struct {
	Type   string          `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
	Object json.RawMessage `json:"object"`
}

// Watch calls f with each event until the server ends the watch, which is no error, f
// fails or the context ends.
func (c *Client) Watch(ctx context.Context, path string, query url.Values, f func(Event) error) error {
	q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	for k, v := range query {
		q[k] = v
	}
	return c.send(ctx, Request{Method: http.MethodGet, Path: path, Query: q}, func(body io.Reader) error { return events(path, body, f) })
}

func events(path string, body io.Reader, f func(Event) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if e.Type == "ERROR" {
			var status struct {
				Code            int
				Reason, Message string
			}
			_ = json.Unmarshal(e.Object, &status) // what it does not tell is empty
			return &StatusError{Method: "WATCH", Path: path, Code: status.Code, Reason: status.Reason, Message: status.Message}
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Right is something that one may do.
type Right struct{ Verb, Group, Resource, Subresource, Namespace, Name string }

// String is the right as kubectl auth can-i takes it.
func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	if r.Namespace != "" {
		s += " -n " + r.Namespace
	}
	return s
}

// Missing asks the server which of some rights the caller has not
// (SelfSubjectAccessReview of authorization.k8s.io/v1).
func (c *Client) Missing(ctx context.Context, rights ...Right) ([]Right, error) {
	var missing []Right
	for _, r := range rights {
		var review struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		err := c.Create(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]string{"verb": r.Verb, "group": r.Group, "resource": r.Resource,
				"subresource": r.Subresource, "namespace": r.Namespace, "name": r.Name}}}, &review)
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// Proxied is the path of what a pod serves at a port by HTTPS, through the API server.
func Proxied(namespace, pod string, port int, path string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/https:%s:%d/proxy%s", url.PathEscape(namespace), url.PathEscape(pod), port, path)
}
