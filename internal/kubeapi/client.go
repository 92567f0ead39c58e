package kubeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Client asks an API server.
type Client struct {
	// Namespace is the one where none is given.
	Namespace string

	http   http.Client
	base   *url.URL
	config *Config
	token  string // of Exec
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

// New makes a client. With Exec it runs the program that gives credentials.
func New(ctx context.Context, c *Config) (*Client, error) {
	base, err := url.Parse(c.Server)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("the cluster's server %.200q is no URL", c.Server)
	}
	k := &Client{Namespace: c.Namespace, base: base, config: c}
	cert, key := c.Cert, c.Key
	if c.Exec != nil {
		cred, err := c.Exec.run(ctx)
		if err != nil {
			return nil, err
		}
		k.token = cred.Token
		if cred.Cert != "" {
			cert, key = []byte(cred.Cert), []byte(cred.Key)
		}
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.Insecure} // as the user's kubeconfig says
	if len(c.CA) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the cluster's certificate authority is no PEM certificate")
		}
	}
	if len(cert) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate for the cluster: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	proxy := http.ProxyFromEnvironment
	if c.ProxyURL != "" {
		u, err := url.Parse(c.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("the cluster's proxy: %w", err)
		}
		proxy = http.ProxyURL(u)
	}
	k.http.Transport = &http.Transport{TLSClientConfig: t, Proxy: proxy, ForceAttemptHTTP2: true, MaxIdleConns: 4,
		TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, IdleConnTimeout: time.Minute}
	return k, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// credential is the status of an ExecCredential.
type credential struct {
	Token string `json:"token"`
	Cert  string `json:"clientCertificateData"`
	Key   string `json:"clientKeyData"`
}

// run asks the program of a kubeconfig, as kubectl does, for credentials.
func (e *Exec) run(ctx context.Context) (*credential, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Command, e.Args...)
	info, err := json.Marshal(map[string]any{"apiVersion": e.APIVersion, "kind": "ExecCredential", "spec": map[string]any{"interactive": false}})
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(info))
	for _, v := range e.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%.100q, which gives credentials for the cluster: %w: %.300q", e.Command, err, strings.TrimSpace(said.String()))
	}
	var answer struct {
		Status credential `json:"status"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.Status == (credential{}) {
		return nil, fmt.Errorf("%.100q gave no credentials for the cluster", e.Command)
	}
	return &answer.Status, nil
}

// StatusError is an answer that is no success.
type StatusError struct {
	Method, Path    string
	Code            int
	Reason, Message string
}

// Error says what was asked, and what the server answered.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %.500s", e.Method, e.Path, e.Code, e.Message)
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

// open sends a request and returns the answer of a success.
func (c *Client) open(ctx context.Context, r Request) (*http.Response, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.Path
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tare")
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	if err := c.authenticate(req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the API server: %w", err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	e := &StatusError{Method: r.Method, Path: r.Path, Code: resp.StatusCode, Message: strings.TrimSpace(string(text))}
	var status struct {
		Kind, Reason, Message string
	}
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message = status.Reason, status.Message
	}
	return nil, e
}

func (c *Client) authenticate(r *http.Request) error {
	token := c.token
	switch {
	case token != "":
	case c.config.TokenFile != "":
		text, err := readBounded(c.config.TokenFile)
		if err != nil {
			return fmt.Errorf("token for the cluster: %w", err)
		}
		token = strings.TrimSpace(string(text))
	case c.config.Token != "":
		token = c.config.Token
	case c.config.Username != "":
		r.SetBasicAuth(c.config.Username, c.config.Password)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// Do makes a call and returns the answer's text.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("%s %s: an answer of more than %d MiB", r.Method, r.Path, maxAnswer>>20)
	}
	return text, err
}

// Get reads an object, or a list of them, into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	text, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
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
	resp, err := c.open(ctx, Request{Method: http.MethodGet, Path: path, Query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
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
		body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]string{"verb": r.Verb, "group": r.Group, "resource": r.Resource,
				"subresource": r.Subresource, "namespace": r.Namespace, "name": r.Name}}})
		if err != nil {
			return nil, err
		}
		text, err := c.Do(ctx, Request{Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ContentType: "application/json", Body: body})
		if err != nil {
			return nil, err
		}
		var review struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		if err := json.Unmarshal(text, &review); err != nil {
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
