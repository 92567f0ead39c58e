// Package load puts a measured load on an HTTP service. In a closed loop a
// number of workers send one request after the other; in an open loop requests
// are due at fixed times, whether earlier ones were answered or not, and
// latency counts from the moment a request was due, so that a stalled server
// cannot hide its stall (coordinated omission).
//
// The generator often shares its processors with the service that it measures,
// so it is lean: each worker is one goroutine with one kept connection per
// host, requests are rendered once, and answers are read to their end and
// thrown away. It speaks HTTP/1.1 (RFC 9112), over TLS for https. Proxy
// settings are ignored, cookies are not kept, and redirects are not followed:
// a 3xx answer is an OK one.
//
// A warm-up is a Run whose Result is thrown away.
package load

import (
	"net/http"
	"time"
)

// Target is one request to send.
type Target struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
}

// Plan is a load: which requests, how many at a time or per second, how long.
type Plan struct {
	// Targets are sent in turn.
	Targets []Target
	// Concurrency is the number of workers of a closed loop, and the most
	// requests in flight of an open one. At most MaxConcurrency.
	Concurrency int
	// Rate makes the loop open: requests per second that are due, from
	// MinRate to MaxRate. 0 is a closed loop.
	Rate float64
	// Duration is how long requests are sent; answers are awaited beyond it
	// for at most Timeout.
	Duration time.Duration
	// Timeout bounds one request, from its sending, with the connecting
	// that it may need.
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
	// for all workers were busy until the end.
	Dropped int64
	// Late counts requests of an open loop that were sent more than
	// LateAfter after they were due. They are part of Sent.
	Late int64
	// Retried counts requests that were sent again, once, on a new
	// connection, because the server had closed the kept one without a byte
	// of an answer. Only idempotent requests are (RFC 9112, section 9.3.1).
	// They count once in Sent; the outcome is that of the second attempt.
	Retried int64
	// Errors counts failures by kind, such as "HTTP 503" or "connection
	// refused". At most MaxErrorKinds kinds, the rest under "other".
	Errors map[string]int64
	// Elapsed is the time from the first request due to the end of the last
	// answer or failure, and at least the plan's Duration unless Run was
	// stopped early.
	Elapsed time.Duration
	// Latency is measured from the time that a request was due to the end
	// of its answer, over the OK answers. What failed or was dropped, a
	// timeout for one, is not in it: read it together with Failed and
	// Dropped.
	Latency Latency
}

// Throughput is the number of good answers per second.
func (r Result) Throughput() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.OK) / r.Elapsed.Seconds()
}

// Latency holds quantiles of the time to an answer, within 0.1 % and half a
// microsecond; Mean and Max are exact. All are 0 where nothing was measured.
type Latency struct {
	Mean, P50, P90, P99, P999, Max time.Duration
}

const (
	// LateAfter is how long after its due time a request counts as late.
	LateAfter = 10 * time.Millisecond
	// MaxErrorKinds bounds Result.Errors.
	MaxErrorKinds = 32
	// MaxConcurrency, MinRate and MaxRate bound a Plan.
	MaxConcurrency = 10_000
	MinRate        = 1e-5
	MaxRate        = 1e6
)
