package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Loader puts load on an application. It is a value that any number of trials
// use, one after the other; only Probe and Load do anything.
type Loader interface {
	// Describe says what the load is, for reports and for a stored plan.
	Describe() Description
	// Digest is a SHA-256 of what Describe does not tell: headers and bodies,
	// the files of a script. Two loaders with the same description and digest
	// put the same load.
	Digest() string
	// Addresses are the addresses (host:port) that the load is sent to; none
	// where the loader does not know them.
	Addresses() []string
	// InMoments says that Load may be called for a second or two at a time, and
	// then takes about as long.
	InMoments() bool
	// Measures are what a Result of this loader can tell. Where nothing is
	// answered it tells less.
	Measures() Measures
	// Probe asks what the load needs once, and names what does not answer well (ErrTarget).
	Probe(ctx context.Context) error
	// Load puts load for about d and says what came back. Failed requests are
	// counted, and no error. An error says that the load itself cannot be put
	// or does not tell what came back (ErrSummary), or that ctx ended.
	Load(ctx context.Context, d time.Duration) (Result, error)
}

// WorkLoader is a Loader that can put an amount of work, not only for a time.
type WorkLoader interface {
	Loader
	// LoadRequests puts a load of that many requests, for at most d, and is
	// otherwise as Load.
	LoadRequests(ctx context.Context, requests int64, d time.Duration) (Result, error)
}

// PacedLoader is a Loader whose load may go by a rate.
type PacedLoader interface {
	Loader
	// AtShare is the same load at a share of its rate; a closed loop stays as it is.
	AtShare(share float64) Loader
}

// ErrTarget says that a load target answers, but not with what it should: the
// load would measure error pages.
var ErrTarget = errors.New("load target does not answer well")

// ErrSummary says that an external generator did not tell what it measured.
var ErrSummary = errors.New("load command tells no result")

// Measures are a set of what a load measures.
type Measures uint16

// The measures. Requests and Failures together make the throughput of good
// answers.
const (
	Requests Measures = 1 << iota
	Failures
	Mean
	P50
	P90
	P99
	P999
	Max

	All = Requests | Failures | Mean | P50 | P90 | P99 | P999 | Max
)

var measureNames = []string{"requests", "failed requests", "mean", "p50", "p90", "p99", "p999", "max"}

// String lists the measures.
func (m Measures) String() string {
	var names []string
	for i, name := range measureNames {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// Description is what a load is, in plain data. The zero Description is no load.
type Description struct {
	// Generator is "http" for the load of this package, else the Format of the
	// external generator's output; empty for no load, and where an earlier
	// version stored the description.
	Generator string `json:",omitempty"`
	// Targets are the requests, as Target.String writes them.
	Targets []string
	// Command is the external generator.
	Command     []string
	Concurrency int
	// Rate is in requests per second, 0 in a closed loop.
	Rate float64
}

// String says what is sent, and how.
func (d Description) String() string {
	switch {
	case len(d.Command) > 0:
		return strings.Join(d.Command, " ")
	case len(d.Targets) == 0:
		return "none"
	case d.Rate > 0:
		return fmt.Sprintf("%s, %g per second, up to %d at a time", strings.Join(d.Targets, ", "), d.Rate, d.Concurrency)
	}
	return fmt.Sprintf("%s, %d at a time", strings.Join(d.Targets, ", "), d.Concurrency)
}

// RequestTimeout is the usual Timeout of a Plan.
const RequestTimeout = 10 * time.Second

// HTTP is the load of this package. Its Plan's Duration and Requests are not used.
type HTTP struct{ Plan Plan }

// Describe tells the requests, and how many at a time or per second.
func (h HTTP) Describe() Description {
	d := Description{Generator: "http", Concurrency: h.Plan.Concurrency, Rate: h.Plan.Rate}
	for _, t := range h.Plan.Targets {
		d.Targets = append(d.Targets, t.String())
	}
	return d
}

// Digest is of all that is sent.
func (h HTTP) Digest() string { return Digest(h.Plan.Targets) }

// Digest is the SHA-256, in hexadecimal digits, of plain data as JSON.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type that JSON cannot hold: an error of the program
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Addresses are those of the targets.
func (h HTTP) Addresses() []string {
	var all []string
	for _, t := range h.Plan.Targets {
		if addr, ok := t.Address(); ok && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// Address is the host and port that a target is sent to.
func (t Target) Address() (addr string, ok bool) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port), port != ""
}

// AtShare is the load at a share of its rate, where it has one.
func (h HTTP) AtShare(share float64) Loader {
	h.Plan.Rate *= share
	return h
}

// InMoments is true.
func (h HTTP) InMoments() bool { return true }

// Measures are all.
func (h HTTP) Measures() Measures { return All }

// Probe sends every target once; an answer from 400 on is ErrTarget, and so is none. One that
// does not come in time is no error: the load tells that.
func (h HTTP) Probe(ctx context.Context) error {
	for _, t := range h.Plan.Targets {
		status, err := Probe(ctx, t, h.Plan.Timeout)
		if isTimeout(err) && ctx.Err() == nil {
			continue
		}
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
func (h HTTP) Load(ctx context.Context, d time.Duration) (Result, error) {
	return h.LoadRequests(ctx, 0, d)
}

// LoadRequests runs the plan until so many requests were answered, for at most d.
func (h HTTP) LoadRequests(ctx context.Context, requests int64, d time.Duration) (Result, error) {
	p := h.Plan
	p.Requests, p.Duration = requests, d
	return Run(ctx, p)
}
