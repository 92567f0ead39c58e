package docker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/linux"
)

// Errors that a caller tells apart with errors.Is.
var (
	ErrNoImage = errors.New("no such image")
	// ErrNameTaken says that a container of the wanted name exists already.
	ErrNameTaken = errors.New("container exists already")
)

const (
	// workTimeout bounds what an engine does with a container; on a busy
	// machine it takes seconds.
	workTimeout = 2 * time.Minute
	// removePoll is how soon a removal that is under way is asked for again.
	removePoll = 50 * time.Millisecond
)

// Spec is a container to be made.
type Spec struct {
	Name, Image string
	// Entrypoint and Cmd are the command in place of the image's, as the engine has it:
	// a nil Entrypoint is the image's, and so is a nil Cmd where there is no Entrypoint.
	Entrypoint, Cmd []string
	Env             []string
	Labels          map[string]string
	Binds           []Bind
	Run             Run
	Service         Service
	// MemoryBytes limits memory, and memory plus swap alike; 0 is no limit.
	MemoryBytes int64
	// QuotaMicros is the processor time in each PeriodMicros; 0 is no quota.
	QuotaMicros, PeriodMicros int64
	// Cpuset is a list of processors, such as "0-1"; empty is no pinning.
	Cpuset string
}

// Service is what a container may have that serves others. Fields are as the engine's
// (ContainerCreate of its API); the zero Service is as the image has it.
type Service struct {
	WorkingDir, Hostname, StopSignal string  `json:",omitempty"`
	Healthcheck                      *Health `json:",omitempty"`
	// KeepLog says that the engine keeps the end of what it prints, for Log.
	KeepLog bool       `json:"-"`
	Host    HostConfig `json:"-"`
}

// HostConfig is the part of a Service that the engine has under this name.
type HostConfig struct {
	CapAdd, CapDrop, ExtraHosts, GroupAdd, SecurityOpt []string          `json:",omitempty"`
	Sysctls                                            map[string]string `json:",omitempty"`
	Ulimits                                            []Ulimit          `json:",omitempty"`
	ShmSize                                            int64             `json:",omitempty"`
	Init                                               *bool             `json:",omitempty"`
}

// Ulimit is a limit of setrlimit(2).
type Ulimit struct {
	Name       string
	Soft, Hard int64
}

// Health is how the engine finds out whether a container is healthy.
type Health struct {
	// Test is {"CMD", ARGUMENT…}, {"CMD-SHELL", COMMAND} or {"NONE"}; empty is the image's.
	Test                           []string      `json:",omitempty"`
	Interval, Timeout, StartPeriod time.Duration `json:",omitempty"`
	Retries                        int           `json:",omitempty"`
}

// Bind is a file or folder of this machine that a container has as well.
type Bind struct {
	Source, Target string
	ReadOnly       bool
}

// createRequest is the body of POST /containers/create.
type createRequest struct {
	Image        string
	Entrypoint   []string
	Cmd          []string
	Env          []string
	Labels       map[string]string
	AttachStdout bool
	AttachStderr bool
	User         string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Service
	HostConfig       hostConfig
	NetworkingConfig *networkingConfig `json:",omitempty"`
}

type networkingConfig struct{ EndpointsConfig map[string]endpoint }

type endpoint struct {
	// Aliases are more names of the container in the network.
	Aliases []string `json:",omitempty"`
}

type hostConfig struct {
	Memory, MemorySwap int64
	CPUQuota           int64  `json:"CpuQuota,omitempty"`
	CPUPeriod          int64  `json:"CpuPeriod,omitempty"`
	CpusetCpus         string `json:",omitempty"`
	NetworkMode        string
	Mounts             []mount
	Binds              []string                 `json:",omitempty"`
	Tmpfs              map[string]string        `json:",omitempty"`
	PortBindings       map[string][]portBinding `json:",omitempty"`
	ReadonlyRootfs     bool                     `json:",omitempty"`
	LogConfig          logConfig
	HostConfig
}

type logConfig struct {
	Type   string
	Config map[string]string `json:",omitempty"`
}

type mount struct {
	Type, Source, Target string
	ReadOnly             bool
}

// request is what the engine is asked for.
func (s Spec) request() createRequest {
	r := createRequest{Image: s.Image, Entrypoint: s.Entrypoint, Cmd: s.Cmd, Env: s.Env, Labels: s.Labels, AttachStdout: true, AttachStderr: true, Service: s.Service}
	if s.Entrypoint != nil && s.Cmd == nil {
		r.Cmd = []string{} // null would be the image's
	}
	h := &r.HostConfig
	h.Memory, h.MemorySwap, h.CPUQuota, h.CPUPeriod, h.CpusetCpus = s.MemoryBytes, s.MemoryBytes, s.QuotaMicros, s.PeriodMicros, s.Cpuset
	h.HostConfig = s.Service.Host
	s.Run.set(&r)
	h.LogConfig.Type = "none"
	if s.Service.KeepLog {
		h.LogConfig = logConfig{"json-file", map[string]string{"max-size": "1m", "max-file": "1"}}
	}
	for _, b := range s.Binds {
		h.Mounts = append(h.Mounts, mount{"bind", b.Source, b.Target, b.ReadOnly})
	}
	return r
}

// Create makes a container and returns its id. Unless the spec says so, the engine
// keeps nothing of what it prints.
func (e *Engine) Create(ctx context.Context, s Spec) (id string, err error) {
	status, text, err := e.work(ctx, http.MethodPost, "/containers/create", url.Values{"name": {s.Name}}, s.request())
	switch {
	case err != nil:
		return "", err
	case status == http.StatusNotFound:
		return "", fmt.Errorf("image %.100q: %w", s.Image, ErrNoImage)
	case status == http.StatusConflict:
		return "", fmt.Errorf("container %.100q: %w", s.Name, ErrNameTaken)
	case status != http.StatusCreated:
		return "", fmt.Errorf("a container of the image %.100q: %w", s.Image, refusal(status, text))
	}
	var made struct{ ID string }
	if err := json.Unmarshal(text, &made); err != nil || len(made.ID) < 12 {
		return "", fmt.Errorf("a container of the image %.100q: the Docker Engine names none", s.Image)
	}
	return made.ID, nil
}

// work is ask for what takes longer.
func (e *Engine) work(ctx context.Context, method, path string, query url.Values, body any) (int, []byte, error) {
	return e.askFor(ctx, workTimeout, method, path, query, body)
}

func containerPath(id, what string) string { return "/containers/" + url.PathEscape(id) + what }

// Start starts a container that was made.
func (e *Engine) Start(ctx context.Context, id string) error {
	status, text, err := e.work(ctx, http.MethodPost, containerPath(id, "/start"), nil, nil)
	if err != nil || status == http.StatusNoContent {
		return err
	}
	return fmt.Errorf("start of container %.12s: %w", id, refusal(status, text))
}

// State is what the engine says of a container, whether it runs or not.
func (e *Engine) State(ctx context.Context, id string) (Container, error) {
	status, text, err := e.ask(ctx, http.MethodGet, containerPath(id, "/json"), nil, nil)
	if err != nil {
		return Container{}, err
	}
	return parseContainer(id, status, text)
}

// Kill sends a signal to a container's first process. That it has ended already
// is no error.
func (e *Engine) Kill(ctx context.Context, id, signal string) error {
	status, text, err := e.work(ctx, http.MethodPost, containerPath(id, "/kill"), url.Values{"signal": {signal}}, nil)
	if err != nil || status == http.StatusNoContent || status == http.StatusConflict || status == http.StatusNotFound {
		return err
	}
	return fmt.Errorf("%s to container %.12s: %w", signal, id, refusal(status, text))
}

// Remove kills what is in a container and removes it with its anonymous
// volumes. That there is none is no error.
func (e *Engine) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	for {
		status, text, err := e.work(ctx, http.MethodDelete, containerPath(id, ""), url.Values{"force": {"1"}, "v": {"1"}}, nil)
		if err != nil || status == http.StatusNoContent || status == http.StatusNotFound {
			return err
		}
		err = fmt.Errorf("removal of container %.12s: %w", id, refusal(status, text))
		if status != http.StatusConflict { // not: a removal is under way
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removePoll):
		}
	}
}

// Ending begins to wait for the end of a container, and returns as soon as the
// engine watches for it. The function that it returns waits, and gives the exit
// code: 128 more than the signal when one ended the container's first process.
func (e *Engine) Ending(ctx context.Context, id string) (wait func() (code int, err error), err error) {
	resp, err := e.send(ctx, http.MethodPost, containerPath(id, "/wait"), url.Values{"condition": {"next-exit"}}, nil, nil)
	if err != nil {
		return nil, err
	}
	return func() (int, error) {
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return 0, fmt.Errorf("waiting for container %.12s: %w", id, err)
		}
		return parseEnding(id, resp.StatusCode, text)
	}, nil
}

// parseEnding reads the answer to POST /containers/ID/wait.
func parseEnding(id string, status int, text []byte) (int, error) {
	if status != http.StatusOK {
		return 0, fmt.Errorf("waiting for container %.12s: %w", id, refusal(status, text))
	}
	var ending struct {
		StatusCode *int
		Error      *struct{ Message string }
	}
	if err := json.Unmarshal(text, &ending); err != nil {
		return 0, fmt.Errorf("waiting for container %.12s: reading the answer of the Docker Engine: %w", id, err)
	}
	if ending.Error != nil && ending.Error.Message != "" {
		return 0, fmt.Errorf("waiting for container %.12s: %s", id, linux.PrintableName(ending.Error.Message))
	}
	if ending.StatusCode == nil || *ending.StatusCode < 0 || *ending.StatusCode > 255 {
		return 0, fmt.Errorf("waiting for container %.12s: the Docker Engine names no exit code", id)
	}
	return *ending.StatusCode, nil
}

// Attach returns what a container prints from now on: frames that Demux reads.
func (e *Engine) Attach(ctx context.Context, id string) (io.ReadCloser, error) {
	resp, err := e.send(ctx, http.MethodPost, containerPath(id, "/attach"), url.Values{"stream": {"1"}, "stdout": {"1"}, "stderr": {"1"}}, nil,
		http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
		return nil, fmt.Errorf("output of container %.12s: %w", id, refusal(resp.StatusCode, text))
	}
	return resp.Body, nil
}

// ErrFrame says that an engine's stream of output is malformed.
var ErrFrame = errors.New("not a frame of a container's output")

// Demux copies the frames of a container's output to its writers. Each frame is a
// header, of which the first byte is 1 for stdout or 2 for stderr and the last four
// are the length, and the text. A writer that fails gets no more; the other goes on.
func Demux(r io.Reader, stdout, stderr io.Writer) error {
	out, errs := &tolerant{w: stdout}, &tolerant{w: stderr}
	for {
		var header [8]byte
		if _, err := io.ReadFull(r, header[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
		to := out
		switch header[0] {
		case 1:
		case 2:
			to = errs
		default:
			return fmt.Errorf("%w: stream %d", ErrFrame, header[0])
		}
		if _, err := io.CopyN(to, r, int64(binary.BigEndian.Uint32(header[4:]))); err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
	}
}

// tolerant is a writer that never fails; nil discards.
type tolerant struct{ w io.Writer }

func (t *tolerant) Write(p []byte) (int, error) {
	if t.w != nil {
		if _, err := t.w.Write(p); err != nil {
			t.w = nil
		}
	}
	return len(p), nil
}

// Labelled lists the containers that have a label, running or not: its value by
// the container's id.
func (e *Engine) Labelled(ctx context.Context, label string) (map[string]string, error) {
	filters, err := json.Marshal(map[string][]string{"label": {label}})
	if err != nil {
		return nil, err
	}
	status, text, err := e.work(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filters)}}, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("list of containers: %w", refusal(status, text))
	}
	var all []struct {
		ID     string
		Labels map[string]string
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("list of containers: reading the answer of the Docker Engine: %w", err)
	}
	found := map[string]string{}
	for _, c := range all {
		if value, ok := c.Labels[label]; ok && len(c.ID) >= 12 {
			found[c.ID] = value
		}
	}
	return found, nil
}

// Image is what an engine says of an image.
type Image struct {
	// ID is the digest of the image's configuration: of all that is in it.
	ID string
	// Architecture is as in GOARCH.
	Architecture string
	// RepoTags are its names, RepoDigests such as shop@sha256:… those by the digest that a
	// registry has it by.
	RepoTags, RepoDigests []string
	Config                struct {
		Env, Entrypoint, Cmd []string
		WorkingDir           string
	}
}

// Is says whether an id is that of the image: ID, or what the status of a container in
// Kubernetes has as imageID, which a runtime may begin with its scheme (docker://).
func (i Image) Is(id string) bool {
	if _, after, ok := strings.Cut(id, "://"); ok {
		id = after
	}
	_, digest, ok := strings.Cut(id, "@")
	if !ok {
		return id == i.ID
	}
	return slices.ContainsFunc(i.RepoDigests, func(has string) bool { return strings.HasSuffix(has, "@"+digest) })
}

// Image asks for an image by name or id.
func (e *Engine) Image(ctx context.Context, name string) (Image, error) {
	status, text, err := e.ask(ctx, http.MethodGet, "/images/"+url.PathEscape(name)+"/json", nil, nil)
	if err != nil {
		return Image{}, err
	}
	return parseImage(name, status, text)
}

func parseImage(name string, status int, text []byte) (Image, error) {
	var i Image
	switch {
	case status == http.StatusNotFound:
		return i, fmt.Errorf("image %.100q: %w", name, ErrNoImage)
	case status != http.StatusOK:
		return i, fmt.Errorf("image %.100q: %w", name, refusal(status, text))
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return Image{}, fmt.Errorf("image %.100q: reading the answer of the Docker Engine: %w", name, err)
	}
	if i.ID == "" {
		return Image{}, fmt.Errorf("image %.100q: the Docker Engine names none", name)
	}
	return i, nil
}
