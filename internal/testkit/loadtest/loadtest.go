// Package loadtest checks that an implementation of load.Loader does what the
// interface says.
package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/testkit/polltest"
)

const (
	// Connections is how many requests a Loader of the suite has in flight at
	// most.
	Connections = 4
	// Timeout is that of its requests.
	Timeout = time.Second
)

// New makes a Loader of GET requests to a URL, Connections at a time, each with
// Timeout, for the seconds that Load says (a command: $TARE_DURATION).
type New func(t *testing.T, url string) load.Loader

// Run runs the suite.
func Run(t *testing.T, new New) {
	t.Run("describes itself", func(t *testing.T) { describes(t, new) })
	t.Run("counts answers", func(t *testing.T) { answers(t, new) })
	t.Run("counts failures", func(t *testing.T) { failures(t, new) })
	t.Run("tells timeouts", func(t *testing.T) { timeouts(t, new) })
	t.Run("tells that nothing listens", func(t *testing.T) { refused(t, new) })
	t.Run("ends with its context", func(t *testing.T) { cancelled(t, new) })
}

// service serves until the test ends.
func service(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func describes(t *testing.T, new New) {
	const address = "127.0.0.1:1"
	l, again, other := new(t, "http://"+address+"/"), new(t, "http://"+address+"/"), new(t, "http://"+address+"/other")
	d := l.Describe()
	if d.Generator == "" || d.String() == "" || d.String() == (load.Description{}).String() {
		t.Errorf("described as %+v", d)
	}
	if !reflect.DeepEqual(again.Describe(), d) || again.Digest() != l.Digest() {
		t.Errorf("the same load is described as %+v %s, and as %+v %s", d, l.Digest(), again.Describe(), again.Digest())
	}
	if reflect.DeepEqual(other.Describe(), d) && other.Digest() == l.Digest() {
		t.Errorf("another load is described as %+v too", d)
	}
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(l.Digest()) {
		t.Errorf("digest %q", l.Digest())
	}
	text, err := json.Marshal(d)
	var stored load.Description
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil || !reflect.DeepEqual(stored, d) {
		t.Errorf("%+v is stored as %s, and read as %+v, %v", d, text, stored, err)
	}
	if a := l.Addresses(); len(a) > 1 || len(a) == 1 && a[0] != address {
		t.Errorf("addresses %q", a)
	}
	if l.Measures() == 0 || l.Measures()&^load.All != 0 {
		t.Errorf("measures %b", l.Measures())
	}
}

// check finds what no Result may be.
func check(t *testing.T, l load.Loader, r load.Result) {
	t.Helper()
	var errs int64
	for _, n := range r.Errors {
		errs += n
	}
	if r.Due != r.Sent+r.Dropped || !r.NoFailures && !r.NoRequests && r.Sent != r.OK+r.Failed || !r.NoFailures && errs != r.Failed ||
		slices.Min([]int64{r.Due, r.Sent, r.OK, r.Failed, r.Dropped, r.Late}) < 0 || r.Elapsed <= 0 {
		t.Errorf("does not add up: %+v", r)
	}
	told := map[load.Measures]load.Time{load.Mean: r.Latency.Mean, load.P50: r.Latency.P50, load.P90: r.Latency.P90,
		load.P99: r.Latency.P99, load.P999: r.Latency.P999, load.Max: r.Latency.Max}
	var last time.Duration
	for _, m := range slices.Sorted(maps.Keys(told)) {
		d, measured := told[m].Value()
		if measured && l.Measures()&m == 0 {
			t.Errorf("tells %s, which it said it does not", m)
		}
		if measured && m != load.Mean {
			if d < last {
				t.Errorf("%s is %v, and what is before it %v", m, d, last)
			}
			last = d
		}
	}
	if !r.NoRequests && l.Measures()&load.Requests == 0 || !r.NoFailures && l.Measures()&load.Failures == 0 {
		t.Errorf("counts what it said it does not: %+v", r)
	}
}

func run(t *testing.T, l load.Loader, d time.Duration) load.Result {
	t.Helper()
	r, err := l.Load(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	check(t, l, r)
	return r
}

func answers(t *testing.T, new New) {
	var served atomic.Int64
	l := new(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		fmt.Fprint(w, "answer")
	}))
	if err := l.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	served.Store(0)
	r := run(t, l, time.Second)
	if r.Incomplete != "" || r.Failed > 0 {
		t.Fatalf("%+v", r)
	}
	has := func(m load.Measures) bool { return l.Measures()&m == m }
	if has(load.Requests) && (r.NoRequests || r.Sent == 0 || r.Sent > served.Load() || r.Sent < served.Load()-Connections) {
		t.Errorf("%d served: %+v", served.Load(), r)
	}
	if v, measured := r.Throughput(); measured != has(load.Requests|load.Failures) || measured && v <= 0 {
		t.Errorf("%g answers per second, %t: %+v", v, measured, r)
	}
	for m, told := range map[load.Measures]load.Time{load.Mean: r.Latency.Mean, load.P50: r.Latency.P50, load.P90: r.Latency.P90,
		load.P99: r.Latency.P99, load.P999: r.Latency.P999, load.Max: r.Latency.Max} {
		if _, measured := told.Value(); measured != has(m) {
			t.Errorf("%s is told: %t, and it was said: %t", m, measured, has(m))
		}
	}
}

func failures(t *testing.T, new New) {
	l := new(t, service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	r := run(t, l, time.Second)
	if r.OK > 0 || r.Failed == 0 || r.Incomplete != "" || !r.NoRequests && r.Failed != r.Sent {
		t.Errorf("%+v", r)
	}
	if v, measured := r.Throughput(); measured && v > 0 {
		t.Errorf("%g good answers per second", v)
	}
}

// timeouts has every twentieth request be answered too late: then no loader may
// tell a p99 below the timeout.
func timeouts(t *testing.T, new New) {
	var served atomic.Int64
	l := new(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		if served.Add(1)%20 == 0 {
			select {
			case <-time.After(Timeout * 3 / 2):
			case <-r.Context().Done():
			}
		}
	}))
	if l.Measures()&load.Failures == 0 {
		return
	}
	r := run(t, l, 3*time.Second)
	if r.Failed == 0 {
		t.Errorf("no failure: %+v", r)
	}
	if d, measured := r.Latency.P99.Value(); measured && d < Timeout*9/10 {
		t.Errorf("p99 is %v: %+v", d, r)
	}
}

// refused has nobody listen.
func refused(t *testing.T, new New) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := (&url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/"}).String()
	listener.Close()
	l := new(t, address)
	r := run(t, l, time.Second)
	if r.OK > 0 || r.Failed == 0 && r.Incomplete == "" {
		t.Errorf("%+v", r)
	}
	if d, measured := r.Latency.P99.Value(); measured {
		t.Errorf("p99 is %v where nothing answers", d)
	}
}

func cancelled(t *testing.T, new New) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var served, under atomic.Int64
	l := new(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		under.Add(1)
		defer under.Add(-1)
		<-r.Context().Done()
	}))
	ended := calling(func() error {
		_, err := l.Load(ctx, time.Minute)
		return err
	})
	polltest.Until(t, "the first request", func() bool { return served.Load() > 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	polltest.Until(t, "the end of all requests", func() bool { return under.Load() == 0 })
}

// calling calls f in another goroutine.
func calling(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}
