package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

// closeTime bounds how long an agent may take to end and remove a process that
// is to be closed.
const closeTime = time.Minute

// process is a process where an agent is.
type process struct {
	client         *Client
	id             string
	stdout, stderr io.Writer
	hangUp         context.CancelFunc
	done           chan struct{}
	exit           runner.Exit // when done is closed

	mu     sync.Mutex
	closed bool
}

var _ runner.Process = (*process)(nil)

// start asks the agent and reads the first event.
func (p *process) start(ctx context.Context, in startRequest) error {
	resp, err := p.client.request(ctx, "/start", in)
	if err != nil {
		return err
	}
	events := bufio.NewScanner(resp.Body)
	events.Buffer(nil, maxEvent)
	for p.id == "" {
		e, err := next(events)
		if err == nil {
			err = e.Failed.err()
		}
		if err != nil {
			resp.Body.Close()
			return err
		}
		p.print(e) // a short process may print before its start is told of
		p.id = e.Started
	}
	go p.follow(resp.Body, events)
	return nil
}

func (p *process) print(e event) {
	write(p.stdout, e.Out)
	write(p.stderr, e.Err)
}

func next(events *bufio.Scanner) (event, error) {
	var e event
	if !events.Scan() {
		return e, fmt.Errorf("agent: %w", cmp.Or(events.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(events.Bytes(), &e); err != nil {
		return e, fmt.Errorf("agent: what it tells of a process: %w", err)
	}
	return e, nil
}

// follow hands out the output until the process has ended. An agent that is
// gone has killed the process, or nobody knows: it counts as killed.
func (p *process) follow(body io.Closer, events *bufio.Scanner) {
	for {
		e, err := next(events)
		if err != nil {
			p.exit = runner.Exit{Code: -1}
			body.Close()
			break
		}
		if e.End != nil {
			p.exit = *e.End
			break // the connection stays: it holds the process's group
		}
		p.print(e)
	}
	close(p.done)
}

// write lets a writer that fails stop nothing.
func write(w io.Writer, text []byte) {
	if w != nil && len(text) > 0 {
		_, _ = w.Write(text)
	}
}

// ask makes a call of a process that is not closed.
func ask[T any](ctx context.Context, p *process, name string, in any) (T, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		var zero T
		return zero, fmt.Errorf("%s of a process: its group: %w", name, os.ErrClosed)
	}
	return call[T](ctx, p.client, name, in)
}

// Usage reads the group.
func (p *process) Usage(ctx context.Context) (runner.Usage, error) {
	return ask[runner.Usage](ctx, p, "usage", procRequest{p.id})
}

// Times reads the processor time of the group and of the process's threads.
func (p *process) Times(ctx context.Context) (runner.Times, error) {
	return ask[runner.Times](ctx, p, "times", procRequest{p.id})
}

// Footprint has the process weighed where it runs.
func (p *process) Footprint(ctx context.Context) (*footprint.Footprint, error) {
	text, err := ask[json.RawMessage](ctx, p, "footprint", procRequest{p.id})
	if err != nil {
		return nil, err
	}
	return footprint.Decode(bytes.NewReader(text))
}

// Counters reads the JVM's counters.
func (p *process) Counters(ctx context.Context) (runner.Counters, error) {
	return ask[runner.Counters](ctx, p, "counters", procRequest{p.id})
}

// Status reads the process's status.
func (p *process) Status(ctx context.Context) (linux.Status, error) {
	return ask[linux.Status](ctx, p, "status", procRequest{p.id})
}

// NativeMemory asks the JVM.
func (p *process) NativeMemory(ctx context.Context) (map[string]int64, error) {
	return ask[map[string]int64](ctx, p, "native-memory", procRequest{p.id})
}

// SetMemoryLimit changes the limit of the group.
func (p *process) SetMemoryLimit(ctx context.Context, bytes int64) error {
	_, err := ask[none](ctx, p, "limit", limitRequest{p.id, bytes})
	return err
}

// Done is closed when the agent says that the process has ended, or is gone.
func (p *process) Done() <-chan struct{} { return p.done }

// Exit is how the process ended.
func (p *process) Exit() runner.Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return runner.Exit{}
	}
}

// Stop has the process stopped; when ctx ends meanwhile, killed.
func (p *process) Stop(ctx context.Context, grace time.Duration) error {
	_, err := ask[none](ctx, p, "stop", stopRequest{p.id, grace})
	if err != nil && ctx.Err() != nil {
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_, err = ask[none](rest, p, "stop", stopRequest{p.id, 0})
	}
	if err != nil {
		return err
	}
	<-p.done
	return nil
}

// Close has the process and its group removed, and hangs up.
func (p *process) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, err := ask[none](ctx, p, "close", procRequest{p.id})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if err != nil {
		return err // not closed: a later call may have more luck
	}
	p.closed = true
	<-p.done
	p.hangUp()
	return nil
}
