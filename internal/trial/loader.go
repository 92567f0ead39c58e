package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"tare/internal/load"
)

// RequestTimeout bounds one request; one that takes longer has failed.
const RequestTimeout = 10 * time.Second

// Loader puts load on the application.
type Loader interface {
	// Probe asks once whether what the load needs is there.
	Probe(ctx context.Context) error
	// Load puts load for about d and says what came back. Failed requests
	// are counted, and no error.
	Load(ctx context.Context, d time.Duration) (load.Result, error)
}

// ErrTarget says that a load target answers, but not with what it should: the
// load would measure error pages.
var ErrTarget = errors.New("load target does not answer well")

// HTTPLoad is load by tare itself. Its Plan's Duration is not used.
type HTTPLoad struct{ Plan load.Plan }

// Probe sends every target once; an answer from 400 on is ErrTarget.
func (h HTTPLoad) Probe(ctx context.Context) error {
	for _, t := range h.Plan.Targets {
		status, err := load.Probe(ctx, t, h.Plan.Timeout)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTarget, err)
		}
		if status >= http.StatusBadRequest {
			return fmt.Errorf("%w: %s answers %d %s: check the URL", ErrTarget, t, status, http.StatusText(status))
		}
	}
	return nil
}

// Load runs the plan for d.
func (h HTTPLoad) Load(ctx context.Context, d time.Duration) (load.Result, error) {
	p := h.Plan
	p.Duration = d
	return load.Run(ctx, p)
}

// CommandLoad is load by an external command, which knows itself how long it
// takes.
type CommandLoad struct {
	Args, Env []string
	Output    io.Writer // nil discards
}

// Probe has nothing to ask.
func (c CommandLoad) Probe(context.Context) error { return nil }

// Load runs the command once; d is passed as TARE_DURATION in seconds.
func (c CommandLoad) Load(ctx context.Context, d time.Duration) (load.Result, error) {
	env := append(slices.Clone(c.Env), fmt.Sprintf("TARE_DURATION=%g", d.Seconds()))
	return load.RunCommand(ctx, c.Args, env, c.Output, c.Output)
}

// sortedKinds orders error kinds by count, then by name.
func sortedKinds(m map[string]int64) []string {
	kinds := make([]string, 0, len(m))
	for k := range m {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	return kinds
}
