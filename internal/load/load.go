// Package load puts a measured load on a service: by its own HTTP generator, or
// by an external one whose output it reads. A Loader is either.
//
// In a closed loop a number of workers each send one request after the other. In
// an open loop requests are due at fixed times, whether earlier ones were answered
// or not, and latency counts from the moment at which a request was due, so that a
// stalled server cannot hide its stall (coordinated omission).
//
// The own generator often shares its processors with the service that it measures,
// so it is lean: each worker is one goroutine with one kept connection per
// host, requests are rendered once, and answers are read to their end and
// thrown away. It speaks HTTP/1.1 (RFC 9112), over TLS for https. Proxy
// settings are ignored, cookies are not kept, and redirects are not followed:
// a 3xx answer is an OK one.
//
// A warm-up is a Run whose Result is thrown away.
package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Target is one request to send.
type Target struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// Plan is a load of the own generator: which requests, how many at a time or per
// second, for how long.
type Plan struct {
	// Targets are sent in turn.
	Targets []Target
	// Concurrency is the number of workers of a closed loop, and the most
	// requests in flight of an open one. At most MaxConcurrency.
	Concurrency int
	// Rate makes the loop open: requests per second that are due, from
	// MinRate to MaxRate. 0 is a closed loop.
	Rate float64
	// Requests ends the load once so many requests were sent and answered, or
	// have failed; 0 is no such end. At most MaxRequests. The load ends sooner
	// where Duration does.
	Requests int64
	// Duration is how long requests are sent at most; answers are awaited beyond it
	// for at most Timeout.
	Duration time.Duration
	// Timeout bounds one request: connecting where that is needed, sending,
	// and reading the whole answer.
	Timeout time.Duration
}

// Result is what was sent and how it was answered. Sent = OK + Failed, and
// Due = Sent + Dropped.
type Result struct {
	// Due counts the requests that the plan asked for; in a closed loop it
	// is the number sent. When Run was stopped early, it counts those due
	// by then.
	Due int64
	// Sent counts the requests that were sent, or that no connection could
	// be made for.
	Sent int64
	// OK counts answers with a status below 400, read to their end.
	OK int64
	// Failed counts requests that got another status, no answer in time,
	// or a broken one.
	Failed int64
	// Dropped counts requests of an open loop that were due and never sent,
	// because all workers were busy until the end.
	Dropped int64
	// Late counts requests of an open loop that were sent more than
	// LateAfter after they were due. They are part of Sent.
	Late int64
	// Retried counts requests that were sent a second time, on a new
	// connection, because the server had closed the kept one without a byte
	// of an answer. Only idempotent requests are sent again (RFC 9112, section
	// 9.3.1). Each counts once in Sent, with the outcome of the second attempt.
	Retried int64
	// Errors counts failures by kind, such as "HTTP 503" or "connection
	// refused". There are at most MaxErrorKinds kinds; the rest is under "other".
	Errors map[string]int64
	// Elapsed is the time from the first request due to the end of the last
	// answer or failure, and at least the plan's Duration unless Run was
	// stopped early or the plan's Requests ended it.
	Elapsed time.Duration
	// Latency is the time from when a request was due to the end of its
	// answer. It is over the OK answers, the requests that timed out and the
	// dropped ones: the user of a request that was never answered waited at
	// least until it was given up, and that is what it counts with. Requests
	// that failed otherwise, mostly sooner than a good answer, are left out.
	Latency Latency
	// Blocks tell how the load of a Plan with Requests went on: when each tenth
	// of these had been answered. Those that it did not get to are left out.
	Blocks []Block `json:",omitempty"`
	// NoLatency says why the latencies of an external generator do not count
	// although it had answers: they leave out requests that timed out.
	NoLatency string `json:",omitempty"`
	// Incomplete says why an external generator told no result; empty where it
	// did.
	Incomplete string `json:",omitempty"`
	// NoRequests says that an external generator did not count its requests:
	// Due, Sent and OK are 0. NoFailures says that it did not count the failed
	// ones: Failed and OK are 0.
	NoRequests bool `json:",omitempty"`
	NoFailures bool `json:",omitempty"`
}

// Block is how far a load was at a time.
type Block struct {
	// Answered counts the requests that were answered or had failed.
	Answered int64
	// At is when, counted from the start of the load.
	At time.Duration
}

// Throughput is the number of good answers per second, and whether it was
// measured.
func (r Result) Throughput() (perSecond float64, measured bool) {
	if r.Elapsed <= 0 || r.NoRequests || r.NoFailures {
		return 0, false
	}
	return float64(r.OK) / r.Elapsed.Seconds(), true
}

// Unanswered counts the requests that failed or were never sent, and says whether
// that was measured.
func (r Result) Unanswered() (n int64, measured bool) {
	return r.Failed + r.Dropped, !r.NoFailures
}

// AnsweredBadly says that requests failed, and not only for the time that answers took.
func (r Result) AnsweredBadly() bool { return r.Failed > r.Errors[timeoutKind] }

// Latency holds quantiles of the time to an answer. Those of Run are within
// 0.1 % and half a microsecond, its Mean and Max are exact.
type Latency struct {
	Mean Time `json:",omitzero"`
	P50  Time `json:",omitzero"`
	P90  Time `json:",omitzero"`
	P99  Time `json:",omitzero"`
	P999 Time `json:",omitzero"`
	Max  Time `json:",omitzero"`
}

// Time is a measured time. The zero Time was not measured: whatever is measured
// takes some time.
type Time struct{ d time.Duration }

// TimeOf is a measured time of d. A d of 0 or less was not measured.
func TimeOf(d time.Duration) Time { return Time{max(d, 0)} }

// Value is the time, and whether it was measured.
func (t Time) Value() (d time.Duration, measured bool) { return t.d, t.d > 0 }

// MarshalJSON writes nanoseconds. A field that is to be absent where it was not
// measured is tagged omitzero.
func (t Time) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(t.d), 10), nil }

// UnmarshalJSON reads nanoseconds. 0 was not measured.
func (t *Time) UnmarshalJSON(text []byte) error {
	var d time.Duration
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("%d ns is no time that was measured", d)
	}
	t.d = d
	return nil
}

const (
	// LateAfter is how long after its due time a request counts as late.
	LateAfter = 10 * time.Millisecond
	// MaxErrorKinds bounds Result.Errors.
	MaxErrorKinds = 32
	// MaxConcurrency, MaxRequests, MinRate and MaxRate bound a Plan.
	MaxConcurrency = 10_000
	MaxRequests    = 1_000_000_000
	MinRate        = 1e-5
	MaxRate        = 1e6
)
