package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

// Client is a runner whose processes run where an agent is. File names, ports
// and limits are those of the agent's machine.
type Client struct {
	http  http.Client
	token string
	name  string
}

var _ runner.Runner = (*Client)(nil)

const dialTimeout = 10 * time.Second

// NewClient asks the agent at an address, unix:PATH or HOST:PORT of the
// loopback, for its name.
func NewClient(ctx context.Context, address, token string) (*Client, error) {
	network, place, err := Address(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	c := &Client{token: token, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, place)
		},
		MaxIdleConns:      16,
		DisableKeepAlives: false, IdleConnTimeout: time.Minute,
	}}}
	name, err := call[string](ctx, c, "name", none{})
	if err != nil {
		return nil, err
	}
	c.name = linux.PrintableName(name)
	return c, nil
}

// Address is the network and the address of an agent: unix:PATH or HOST:PORT,
// where the host is a number of the loopback. The protocol is not encrypted.
func Address(address string) (network, place string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok && path != "" {
		return "unix", path, nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return "", "", fmt.Errorf("address of an agent %.200q: give unix:PATH, or a number of the loopback and a port, such as 127.0.0.1:7070", address)
	}
	return "tcp", address, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// request posts a body and returns the answer of an agent that took it.
func (c *Client) request(ctx context.Context, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.post(ctx, path, bytes.NewReader(text), int64(len(text)))
}

// post posts so many bytes.
func (c *Client) post(ctx context.Context, path string, body io.Reader, size int64) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set(versionHeader, Version)
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	return nil, &remoteError{text: fmt.Sprintf("agent: %s: %s", resp.Status, linux.Printable(strings.TrimSpace(string(why))))}
}

// call makes a call.
func call[T any](ctx context.Context, c *Client, name string, in any) (T, error) {
	var out answer[T]
	ctx, cancel := context.WithTimeout(ctx, patience(in))
	defer cancel()
	resp, err := c.request(ctx, "/call/"+name, in)
	if err != nil {
		return out.Result, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("more than %d MiB", maxAnswer>>20)
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return out.Result, fmt.Errorf("agent: answer to %s: %w", name, err)
	}
	return out.Result, out.Error.err()
}

// patience is how long an answer may take.
func patience(in any) time.Duration {
	if stop, ok := in.(stopRequest); ok {
		return stop.Grace + closeTime
	}
	return maxCall + dialTimeout
}

// err is the error that the agent told, nil for none.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	e := &remoteError{text: linux.Printable(f.Text)}
	for _, name := range f.Kinds {
		if kind, ok := kinds[name]; ok {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}

// Name is that of the agent's runner.
func (c *Client) Name() string { return c.name }

// Machine describes the agent's machine.
func (c *Client) Machine(ctx context.Context) (runner.Machine, error) {
	return call[runner.Machine](ctx, c, "machine", none{})
}

// Available is of the agent's machine.
func (c *Client) Available(ctx context.Context) (int64, error) {
	return call[int64](ctx, c, "available", none{})
}

// Busy is of the agent's machine; Own is what the agent used.
func (c *Client) Busy(ctx context.Context) (runner.Busy, error) {
	return call[runner.Busy](ctx, c, "busy", none{})
}

// Pace is of the agent's machine.
func (c *Client) Pace(ctx context.Context) (time.Duration, error) {
	d, err := call[time.Duration](ctx, c, "pace", none{})
	if err == nil && d <= 0 {
		err = fmt.Errorf("agent: a pace of %v", d)
	}
	return d, err
}

// FreePorts are ports of the agent's loopback.
func (c *Client) FreePorts(ctx context.Context, n int) ([]int, error) {
	ports, err := call[[]int](ctx, c, "ports", portsRequest{n})
	if err == nil && len(ports) != n {
		err = fmt.Errorf("agent: %d ports, want %d", len(ports), n)
	}
	return ports, err
}

// Listening asks the agent to connect.
func (c *Client) Listening(ctx context.Context, addr string) (string, error) {
	who, err := call[string](ctx, c, "listening", addrRequest{addr})
	return linux.Printable(who), err
}

// FindJava finds a launcher where the agent is.
func (c *Client) FindJava(ctx context.Context, launcher string) (runner.Java, error) {
	return call[runner.Java](ctx, c, "java", fileRequest{launcher})
}

// File describes a file where the agent is.
func (c *Client) File(ctx context.Context, name string) (runner.File, error) {
	return call[runner.File](ctx, c, "file", fileRequest{name})
}

// ClassPath looks into the class path where the agent is.
func (c *Client) ClassPath(ctx context.Context, q runner.ClassPathQuery) (runner.ClassPath, error) {
	return call[runner.ClassPath](ctx, c, "class-path", q)
}

// Flush flushes a file where the agent is.
func (c *Client) Flush(ctx context.Context, name string) error {
	_, err := call[none](ctx, c, "flush", fileRequest{name})
	return err
}

// Remove removes a file where the agent is.
func (c *Client) Remove(ctx context.Context, name string) error {
	_, err := call[none](ctx, c, "remove", fileRequest{name})
	return err
}

// OpenTraining readies the place of a file where the agent is.
func (c *Client) OpenTraining(ctx context.Context, file string) (string, error) {
	return call[string](ctx, c, "open-training", fileRequest{file})
}

// TakeTrained takes what a training run wrote where the agent is.
func (c *Client) TakeTrained(ctx context.Context, file string) error {
	_, err := call[none](ctx, c, "take-trained", fileRequest{file})
	return err
}

// Extract takes a jar apart where the agent is.
func (c *Client) Extract(ctx context.Context, jar, dir string) (string, error) {
	return call[string](ctx, c, "extract", extractRequest{jar, dir})
}

// Sweep sweeps where the agent is.
func (c *Client) Sweep(ctx context.Context) ([]string, error) {
	return call[[]string](ctx, c, "sweep", none{})
}

// Start starts a process where the agent is. The process lives until Close, or
// until this process has gone.
func (c *Client) Start(ctx context.Context, spec runner.Spec) (runner.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	long, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp)
	p := &process{client: c, hangUp: hangUp, done: make(chan struct{}), stdout: spec.Stdout, stderr: spec.Stderr}
	err := p.start(long, startRequest{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Cold: spec.Cold, Limits: spec.Limits, NoHugePages: spec.NoHugePages,
		Stdout: spec.Stdout != nil, Stderr: spec.Stderr != nil, OneOutput: runner.SameWriter(spec.Stdout, spec.Stderr)})
	if stop(); ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	return p, nil
}
