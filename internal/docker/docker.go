// Package docker finds the JVMs of a container by asking a Docker Engine, or
// one that speaks its API such as Podman, which process is the container's
// first, and the kernel, which others share its control group.
//
// It also makes, starts, ends and removes the containers that trials run in.
//
// It speaks some thirty requests of the Docker Engine API
// (https://docs.docker.com/reference/api/engine/) over a unix socket. net/http
// does that; the engine's own client would bring some forty modules along.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// Errors that a caller tells apart with errors.Is.
var (
	ErrNoEngine    = errors.New("no Docker Engine answers")
	ErrNoContainer = errors.New("no such container")
	ErrNotRunning  = errors.New("not running")
	// ErrElsewhere says that the container runs where its processes cannot
	// be seen from here.
	ErrElsewhere = errors.New("runs elsewhere")
)

const (
	defaultHost = "unix:///var/run/docker.sock"
	timeout     = 10 * time.Second
	// maxAnswer bounds the description of a container; they are some 10 KiB.
	maxAnswer = 4 << 20
)

// Engine is a Docker Engine.
type Engine struct {
	host   string
	client *http.Client
}

// NewEngine is the engine at host, a unix:// address; "" is that of the
// environment variable DOCKER_HOST, else the usual one.
func NewEngine(host string) (*Engine, error) {
	if host == "" {
		host = os.Getenv("DOCKER_HOST")
	}
	if host == "" {
		host = defaultHost
	}
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		return nil, fmt.Errorf("the engine at %.100q: %w: only one on this machine (unix://) has processes that can be weighed", host, ErrElsewhere)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Engine{host: host, client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
}

// Container is what the engine says of a container.
type Container struct {
	ID    string
	State struct {
		Status  string // "running", "exited" and others
		Running bool
		Pid     int // of its first process, in the engine's PID namespace
		// OOMKilled says that the kernel killed in it for want of memory; the
		// engine may not have noticed.
		OOMKilled bool
		ExitCode  int
		// Health is nil where the engine does not look after it.
		Health *struct{ Status string } // "starting", "healthy", "unhealthy"
	}
	// Mounts are what it has of the engine's machine, by the paths there and inside.
	Mounts     []struct{ Source, Destination string }
	HostConfig struct{ NetworkMode, PidMode string }
}

// Inspect asks for a container by name or id, or the beginning of one.
func (e *Engine) Inspect(ctx context.Context, name string) (Container, error) {
	c, err := e.State(ctx, name)
	if err != nil {
		return Container{}, err
	}
	return c, c.running(name)
}

// parseContainer reads the engine's answer.
func parseContainer(name string, status int, text []byte) (Container, error) {
	var c Container
	switch {
	case status == http.StatusNotFound:
		return c, fmt.Errorf("container %.100q: %w", name, ErrNoContainer)
	case status != http.StatusOK:
		return c, fmt.Errorf("container %.100q: %w", name, refusal(status, text))
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return Container{}, fmt.Errorf("container %.100q: reading the answer of the Docker Engine: %w", name, err)
	}
	if len(c.ID) < 12 {
		return Container{}, fmt.Errorf("container %.100q: the Docker Engine names no container", name)
	}
	return c, nil
}

// running says why a container has no process.
func (c Container) running(name string) error {
	if !c.State.Running {
		return fmt.Errorf("container %.100q is %w: %s", name, ErrNotRunning, linux.PrintableName(c.State.Status))
	}
	if c.State.Pid <= 0 {
		return fmt.Errorf("container %.100q: the Docker Engine names no process", name)
	}
	return nil
}

// JVMs finds the JVMs of a running container, by process id. The error is
// process.ErrNotJVM when it has none.
func (e *Engine) JVMs(ctx context.Context, proc linux.FS, name string) ([]*process.Target, error) {
	c, err := e.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	groups := linux.NewCgroupFS(proc, "/")
	// The engine may live in another PID namespace, where its ids mean other
	// processes: the group's name tells.
	if mine, err := groups.InGroupNamed(c.State.Pid, c.ID[:12]); err != nil || !mine {
		return nil, fmt.Errorf("container %.100q: %w: its process %d is not one of that container here; run tare where the engine runs (docker run --pid host)", name, ErrElsewhere, c.State.Pid)
	}
	pids, err := groups.Members(c.State.Pid)
	if err != nil {
		return nil, fmt.Errorf("container %.100q: %w", name, err)
	}
	return jvmsAmong(proc, name, pids)
}

func jvmsAmong(proc linux.FS, name string, pids []int) ([]*process.Target, error) {
	var found []*process.Target
	var closed error
	for _, pid := range pids {
		t, err := process.Find(proc, pid)
		if err == nil {
			found = append(found, t)
		} else if errors.Is(err, process.ErrNoPermission) {
			closed = err
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	if closed != nil {
		return nil, fmt.Errorf("container %.100q: %w", name, closed)
	}
	return nil, fmt.Errorf("container %.100q has %d processes, and each is %w", name, len(pids), process.ErrNotJVM)
}
