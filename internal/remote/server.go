package remote

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

// Server is the agent: it lets who knows the token use a runner.
type Server struct {
	runner runner.Runner
	token  [sha256.Size]byte
	mux    http.ServeMux

	mu        sync.Mutex
	processes map[string]runner.Process
	archives  map[string]runner.Archives
	trials    map[string]*underway

	// open counts requests that are being answered, asked is when the last one was.
	open  int
	asked time.Time

	life    context.Context // until Serve is to end
	end     context.CancelFunc
	running sync.WaitGroup // trials
}

// MinToken is how many bytes a token has at least.
const MinToken = 16

// NewServer returns an agent for a runner. The token is a secret of MinToken
// bytes or more.
func NewServer(r runner.Runner, token string) (*Server, error) {
	if len(token) < MinToken {
		return nil, fmt.Errorf("a token of %d bytes is too short: give one of %d or more", len(token), MinToken)
	}
	s := &Server{runner: r, token: sha256.Sum256([]byte(token)), processes: map[string]runner.Process{}, archives: map[string]runner.Archives{}, trials: map[string]*underway{}, asked: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST /start", s.start)
	handle(s, "name", maxCall, func(context.Context, none) (string, error) { return r.Name(), nil })
	handle(s, "machine", maxCall, func(ctx context.Context, _ none) (runner.Machine, error) { return r.Machine(ctx) })
	handle(s, "available", maxCall, func(ctx context.Context, _ none) (int64, error) { return r.Available(ctx) })
	handle(s, "busy", maxCall, func(ctx context.Context, _ none) (runner.Busy, error) { return r.Busy(ctx) })
	handle(s, "pace", maxCall, func(ctx context.Context, _ none) (time.Duration, error) { return r.Pace(ctx) })
	handle(s, "ports", maxCall, func(ctx context.Context, in portsRequest) ([]int, error) { return r.FreePorts(ctx, in.N) })
	handle(s, "listening", maxCall, func(ctx context.Context, in addrRequest) (string, error) { return r.Listening(ctx, in.Addr) })
	handle(s, "java", maxCall, func(ctx context.Context, in fileRequest) (runner.Java, error) { return r.FindJava(ctx, in.Name) })
	handle(s, "file", maxCall, func(ctx context.Context, in fileRequest) (runner.File, error) { return r.File(ctx, in.Name) })
	handle(s, "class-path", maxCall, func(ctx context.Context, q runner.ClassPathQuery) (runner.ClassPath, error) {
		return r.ClassPath(ctx, q)
	})
	handle(s, "flush", maxCall, func(ctx context.Context, in fileRequest) (none, error) { return none{}, r.Flush(ctx, in.Name) })
	handle(s, "remove", maxCall, func(ctx context.Context, in fileRequest) (none, error) { return none{}, r.Remove(ctx, in.Name) })
	handle(s, "open-training", maxCall, func(ctx context.Context, in fileRequest) (string, error) { return r.OpenTraining(ctx, in.Name) })
	handle(s, "take-trained", maxCall, func(ctx context.Context, in fileRequest) (none, error) { return none{}, r.TakeTrained(ctx, in.Name) })
	handle(s, "extract", maxCall, func(ctx context.Context, in extractRequest) (string, error) { return r.Extract(ctx, in.Jar, in.Folder) })
	handle(s, "sweep", maxCall, func(ctx context.Context, _ none) ([]string, error) { return r.Sweep(ctx) })
	s.handleArchives()
	s.handleFiles()
	s.handleProcesses()
	s.handleTrials()
	return s, nil
}

// handleProcesses serves the methods of runner.Process.
func (s *Server) handleProcesses() {
	handle(s, "usage", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (runner.Usage, error) { return p.Usage(ctx) }))
	handle(s, "times", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (runner.Times, error) { return p.Times(ctx) }))
	handle(s, "footprint", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (*footprint.Footprint, error) { return p.Footprint(ctx) }))
	handle(s, "counters", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (runner.Counters, error) { return p.Counters(ctx) }))
	handle(s, "status", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (linux.Status, error) { return p.Status(ctx) }))
	handle(s, "native-memory", maxCall, ofProcess(s, func(ctx context.Context, p runner.Process) (map[string]int64, error) { return p.NativeMemory(ctx) }))
	handle(s, "limit", maxCall, func(ctx context.Context, in limitRequest) (none, error) {
		p, err := s.process(in.Process)
		if err != nil {
			return none{}, err
		}
		return none{}, p.SetMemoryLimit(ctx, in.Bytes)
	})
	// The client decides how long an application may take to end.
	handle(s, "stop", 0, func(ctx context.Context, in stopRequest) (none, error) {
		p, err := s.process(in.Process)
		if err != nil {
			return none{}, err
		}
		return none{}, p.Stop(ctx, in.Grace)
	})
	handle(s, "close", maxCall, func(_ context.Context, in procRequest) (none, error) {
		p, err := s.process(in.Process)
		if err != nil {
			return none{}, err
		}
		if err := p.Close(); err != nil {
			return none{}, err
		}
		s.forget(in.Process)
		return none{}, nil
	})
}

// Serve serves until ctx ends, and then kills what it started.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Every request has the context that has ended: all handlers return soon,
	// those of processes when they have closed them.
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCall)
	defer cancel()
	s.end()
	err := server.Shutdown(rest)
	s.running.Wait()
	return err
}

// ServeHTTP lets in who has the token and speaks the version.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(versionHeader, Version)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(token))
	switch theirs := r.Header.Get(versionHeader); {
	case subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1:
		http.Error(w, "the token is not the agent's", http.StatusUnauthorized)
	case theirs != Version:
		http.Error(w, fmt.Sprintf("the agent speaks version %s of the protocol, the client version %.20q: use one version of tare on both sides", Version, theirs), http.StatusUpgradeRequired)
	default:
		s.count(1)
		defer s.count(-1)
		s.mux.ServeHTTP(w, r)
	}
}

func (s *Server) count(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.asked = s.open+more, time.Now()
}

// Idle is for how long nobody has asked for anything.
func (s *Server) Idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open > 0 {
		return 0
	}
	return time.Since(s.asked)
}

// ServeWhileAsked is Serve until nobody has asked for anything for so long: the client is
// gone, and nobody else will end this process.
func (s *Server) ServeWhileAsked(ctx context.Context, l net.Listener, idle time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		tick := time.NewTicker(min(idle, statePatience))
		defer tick.Stop()
		for s.Idle() < idle {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return s.Serve(ctx, l)
}

// handle serves a call, for so long; 0 is without an end.
func handle[In, Out any](s *Server, name string, limit time.Duration, f func(context.Context, In) (Out, error)) {
	s.mux.HandleFunc("POST /call/"+name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if !decode(w, r, &in) {
			return
		}
		ctx := r.Context()
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		out, err := f(ctx, in)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer[Out]{Result: out, Error: failureOf(err)}) // who has gone, has no use for it
	})
}

// decode reads the whole request; only then the server sees that a client has
// gone.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("request: %v", err), http.StatusBadRequest)
	}
	return err == nil
}

// ofProcess makes a call of a method of a process.
func ofProcess[Out any](s *Server, f func(context.Context, runner.Process) (Out, error)) func(context.Context, procRequest) (Out, error) {
	return func(ctx context.Context, in procRequest) (Out, error) {
		p, err := s.process(in.Process)
		if err != nil {
			var zero Out
			return zero, err
		}
		return f(ctx, p)
	}
}

func (s *Server) process(id string) (runner.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.processes[id]
	if !ok {
		return nil, fmt.Errorf("process %.40q of the agent: %w", id, os.ErrClosed)
	}
	return p, nil
}

func (s *Server) keep(p runner.Process) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = rand.Text()
	s.processes[id] = p
	return id
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, id)
}

// start starts a process and tells of it until the client has closed it. A
// client that has gone has its process closed here.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var in startRequest
	if !decode(w, r, &in) {
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	to := &stream{control: http.NewResponseController(w), encoder: json.NewEncoder(w)}
	spec := runner.Spec{Args: in.Args, Env: in.Env, Dir: in.Dir, Cold: in.Cold, Limits: in.Limits, NoHugePages: in.NoHugePages}
	if in.Stdout {
		spec.Stdout = &output{to: to, wrap: func(p []byte) event { return event{Out: p} }}
	}
	if in.Stderr {
		spec.Stderr = &output{to: to, wrap: func(p []byte) event { return event{Err: p} }}
	}
	if in.OneOutput {
		spec.Stderr = spec.Stdout
	}
	p, err := s.runner.Start(r.Context(), spec)
	if err != nil {
		to.send(event{Failed: failureOf(err)})
		return
	}
	id := s.keep(p)
	to.send(event{Started: id})
	defer s.forget(id)
	defer p.Close()
	select {
	case <-p.Done():
		end := p.Exit()
		to.send(event{End: &end})
		<-r.Context().Done() // the client hangs up when it has closed the process
	case <-r.Context().Done():
	}
}

// stream sends events, one at a time.
type stream struct {
	mu      sync.Mutex
	control *http.ResponseController
	encoder *json.Encoder
}

func (s *stream) send(e any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.encoder.Encode(e), s.control.Flush())
}

// output sends what a process prints.
type output struct {
	to   *stream
	wrap func(p []byte) event
}

// Write sends p in parts.
func (o *output) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxOutput)
		if err := o.to.send(o.wrap(rest[:n])); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}
