package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/polltest"
)

// A closed loop of a moment, long enough for some requests.
func shortPlan(targets ...Target) Plan {
	return Plan{Targets: targets, Concurrency: 2, Duration: 30 * time.Millisecond, Timeout: time.Minute}
}

func get(url string) Target { return Target{Method: "GET", URL: url} }

// serve starts a server that is closed at the end of the test.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// serveRaw gives each connection to handle, which closes it by returning.
func serveRaw(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String() + "/"
}

// answerWith answers each request on c with text, at most n times.
func answerWith(c net.Conn, text string, n int) {
	r := bufio.NewReader(c)
	for range n {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// counted is a closed loop that ends after a number of requests, and not of a
// time.
type counted struct {
	total int64
	count atomic.Int64
}

func (s *counted) claim(now time.Time) (int64, time.Time, bool) {
	i := s.count.Add(1) - 1
	return i, now, i < s.total
}

func (s *counted) due(_ time.Time, sent int64) int64 { return sent }

func (s *counted) dropped() []wait { return nil }

// runCount sends n requests, a minute's timeout each.
func runCount(t *testing.T, n int64, concurrency int, base *tls.Config, targets ...Target) Result {
	t.Helper()
	j := job{schedule: &counted{total: n}, tally: newTally(time.Now()), timeout: time.Minute}
	for _, target := range targets {
		r, err := newRequest(target, base)
		if err != nil {
			t.Fatal(err)
		}
		j.requests = append(j.requests, r)
	}
	workers, err := newWorkers(concurrency, false)
	if err != nil {
		t.Fatal(err)
	}
	j.run(t.Context(), workers)
	r := j.tally.finish(n, time.Minute)
	checkSums(t, r)
	if r.Sent != n {
		t.Errorf("%d requests sent, want %d", r.Sent, n)
	}
	return r
}

func mustRun(t *testing.T, p Plan) Result {
	t.Helper()
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	return r
}

func checkSums(t *testing.T, r Result) {
	t.Helper()
	var errs int64
	for _, n := range r.Errors {
		errs += n
	}
	if r.Due != r.Sent+r.Dropped || r.Sent != r.OK+r.Failed || errs != r.Failed || r.Dropped < 0 || r.Late > r.Sent || r.Retried > r.Sent {
		t.Errorf("counts do not add up: %+v", r)
	}
	l := r.Latency
	if !slices.IsSorted([]time.Duration{0, l.P50.d, l.P90.d, l.P99.d, l.P999.d, l.Max.d}) || l.Mean.d > l.Max.d ||
		(r.OK+r.Errors["timeout"]+r.Dropped > 0) != (l.Max.d > 0) {
		t.Errorf("latencies of %d answers out of order: %+v", r.OK, l)
	}
}

func TestClosedLoopCountsEveryRequest(t *testing.T) {
	var served atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		fmt.Fprint(w, strings.Repeat("x", 100_000)) // chunked, longer than the buffer
	})
	r := mustRun(t, shortPlan(get(url)))
	if r.Sent != served.Load() || r.OK != r.Sent {
		t.Errorf("served %d, result %+v", served.Load(), r)
	}
	if v, measured := r.Throughput(); r.Elapsed < 30*time.Millisecond || !measured || (v > 0) != (r.OK > 0) {
		t.Errorf("elapsed %v, throughput %v", r.Elapsed, v)
	}
}

func TestOpenLoopSendsWhatIsDue(t *testing.T) {
	var served atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	p := shortPlan(get(url))
	p.Rate, p.Duration, p.Concurrency = 1000, 50*time.Millisecond, 8
	r := mustRun(t, p)
	if r.Due != 50 || r.Sent != served.Load() {
		t.Errorf("served %d, result %+v", served.Load(), r)
	}
}

// A server that stalls for a while must be seen to have stalled by all the
// requests that were due meanwhile, and not only by those that it held.
func TestOpenLoopShowsStall(t *testing.T) {
	const before, stall = 10, 150 * time.Millisecond
	var served atomic.Int64
	var once sync.Once
	var began, ended time.Time
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		if served.Add(1) <= before {
			return
		}
		once.Do(func() {
			began = time.Now()
			time.AfterFunc(stall, func() {
				ended = time.Now()
				close(release)
			})
		})
		<-release
	})
	p := shortPlan(get(url))
	p.Rate, p.Duration = 1000, time.Second
	r := mustRun(t, p)
	// The requests due in the first half of the stall waited for at least
	// the other half, or were dropped if the stall lasted to the end.
	if held := ended.Sub(began); r.Latency.P99.d < held/2 || r.Latency.Max.d < held {
		t.Errorf("stall of %v, but %+v", held, r)
	}
	if r.Late == 0 {
		t.Errorf("stall made no request late: %+v", r)
	}
}

func TestOpenLoopDropsWhatNoWorkerIsFreeFor(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	p := shortPlan(get(url))
	p.Rate, p.Duration, p.Timeout = 1000, 100*time.Millisecond, 300*time.Millisecond
	r := mustRun(t, p)
	// Two workers send one request each at most, which end after the plan.
	if r.Due != 100 || r.Sent > 2 || r.Errors["timeout"] != r.Sent {
		t.Errorf("%+v", r)
	}
}

func TestErrorKinds(t *testing.T) {
	closed := serveRaw(t, func(c net.Conn) { answerWith(c, "", 1) })
	refused := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}()
	raw := func(answer string) string {
		return serveRaw(t, func(c net.Conn) { answerWith(c, answer, 1) })
	}
	for kind, url := range map[string]string{
		"connection refused": refused,
		"connection closed":  closed,
		"connection reset": serveRaw(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1)) // and leave the rest unread
			_ = c.(*net.TCPConn).SetLinger(0)
		}),
		"HTTP 503":         serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }),
		"HTTP 404":         serve(t, http.NotFound),
		"truncated answer": raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
		"malformed answer": raw("SSH-2.0-OpenSSH_9.2\r\n"),
		"host not found":   "http://does-not-exist.invalid/",
		"not TLS": strings.Replace(serveRaw(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), "http:", "https:", 1),
	} {
		t.Run(kind, func(t *testing.T) {
			if r := runCount(t, 3, 1, nil, get(url)); r.Errors[kind] != 3 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestErrorKindsAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400 + int(n.Load()%200))
		if n.Add(1) == 300 {
			cancel()
		}
	})
	p := shortPlan(get(url))
	p.Duration = time.Minute
	r, err := Run(ctx, p)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkSums(t, r)
	if len(r.Errors) > MaxErrorKinds || r.Errors[otherKind] == 0 {
		t.Errorf("%d kinds: %v", len(r.Errors), r.Errors)
	}
}

func TestRequestArrivesWhole(t *testing.T) {
	type seen struct {
		method, uri, host, agent, body string
		length                         int64
		values                         []string
	}
	var got atomic.Pointer[seen]
	url := serve(t, func(_ http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		got.Store(&seen{q.Method, q.RequestURI, q.Host, q.UserAgent(), string(b), q.ContentLength, q.Header.Values("X-Two")})
	})
	body := strings.Repeat("body\x00\r\n", 50_000) // more than a socket takes at once
	r := runCount(t, 3, 1, nil, Target{
		Method: "POST", URL: url + "/a%20b?q=%2F&r", Body: []byte(body),
		Header: http.Header{"Host": {"example.org"}, "X-Two": {"1", "2"}, "User-Agent": {"me"}},
	})
	if r.Failed > 0 {
		t.Fatalf("%+v", r)
	}
	g := got.Load()
	if g.method != "POST" || g.uri != "/a%20b?q=%2F&r" || g.host != "example.org" || g.agent != "me" ||
		g.body != body || g.length != int64(len(body)) || !slices.Equal(g.values, []string{"1", "2"}) {
		g.body = fmt.Sprint(len(g.body))
		t.Errorf("%+v", g)
	}
}

func TestTargetsInTurn(t *testing.T) {
	var paths []string // one worker, so one request at a time
	h := func(_ http.ResponseWriter, q *http.Request) { paths = append(paths, q.URL.Path) }
	one, two := serve(t, h), serve(t, h)
	r := runCount(t, 10, 1, nil, get(one+"/a"), get(two+"/b"), Target{Method: "HEAD", URL: one + "/c"})
	if r.OK != 10 || len(paths) != 10 {
		t.Fatalf("%d served, %+v", len(paths), r)
	}
	for i, path := range paths {
		if want := []string{"/a", "/b", "/c"}[i%3]; path != want {
			t.Fatalf("request %d is %s, want %s", i, path, want)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/" {
			t.Error("redirect followed")
		}
		http.Redirect(w, q, "/other", http.StatusFound)
	})
	if r := runCount(t, 3, 1, nil, get(url+"/")); r.Failed > 0 {
		t.Errorf("%+v", r)
	}
}

// Servers close idle connections whenever they like. That is no failure.
func TestReconnects(t *testing.T) {
	for name, answer := range map[string]string{
		"announced":   strings.Replace(okAnswer, "\r\n", "\r\nConnection: close\r\n", 1),
		"HTTP/1.0":    strings.Replace(okAnswer, "1.1", "1.0", 1),
		"unannounced": okAnswer,
		"to the end":  "HTTP/1.1 200 OK\r\n\r\neverything",
	} {
		t.Run(name, func(t *testing.T) {
			url := serveRaw(t, func(c net.Conn) { answerWith(c, answer, 1) })
			r := runCount(t, 20, 2, nil, get(url))
			if r.Failed > 0 || (r.Retried > 0) != (name == "unannounced") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A request that must not be sent twice is not sent on a connection that the
// server has closed already.
func TestPostOnClosedConnection(t *testing.T) {
	url := serveRaw(t, func(c net.Conn) { answerWith(c, okAnswer, 1) })
	r, err := newRequest(Target{Method: "POST", URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient()
	defer c.close()
	for range 3 {
		if a := c.send(t.Context(), r, time.Now().Add(time.Minute)); a.err != nil || a.status != 200 || a.retried {
			t.Fatalf("%+v", a)
		}
		polltest.Until(t, "the peer to close", func() bool { return c.conns[r.key()].closedByPeer() })
	}
}

func TestRecoversWithTheService(t *testing.T) {
	var n atomic.Int64
	url := serveRaw(t, func(c net.Conn) {
		if n.Add(1) > 3 {
			answerWith(c, okAnswer, 1_000_000)
		}
	})
	if r := runCount(t, 10, 1, nil, get(url)); r.Failed != 3 || r.Errors["connection closed"]+r.Errors["connection reset"] != 3 {
		t.Errorf("%+v", r)
	}
}

func TestCancelEndsRun(t *testing.T) {
	for _, rate := range []float64{0, 100, 0.01} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			release := make(chan struct{})
			arrived := make(chan struct{}, 100)
			url := serve(t, func(http.ResponseWriter, *http.Request) {
				arrived <- struct{}{}
				<-release
			})
			defer close(release)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			r, err := Run(ctx, Plan{Targets: []Target{get(url)}, Concurrency: 3, Rate: rate, Duration: time.Hour, Timeout: time.Hour})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			checkSums(t, r)
			if r.Sent < 1 || r.Sent > 3 || r.Errors["cancelled"] != r.Sent || r.Elapsed > time.Hour/2 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestRunLeavesNoConnection(t *testing.T) {
	var open atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	mustRun(t, shortPlan(get(s.URL)))
	polltest.Until(t, "all connections to be closed", func() bool { return open.Load() == 0 })
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.ProtoMajor != 1 {
			t.Error(q.Proto)
		}
		fmt.Fprint(w, "secret")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is reported there
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if r := runCount(t, 5, 2, &tls.Config{RootCAs: roots}, get(s.URL)); r.Failed > 0 {
		t.Errorf("%+v", r)
	}
	r := runCount(t, 3, 1, nil, get(s.URL))
	if r.OK > 0 || r.Errors["TLS certificate"] != r.Sent {
		t.Errorf("a stranger's certificate was trusted: %+v", r)
	}
}

// Whatever a server does, the counts add up.
func TestCountsAddUp(t *testing.T) {
	const seed = 1
	answers := []string{
		okAnswer, okAnswer, okAnswer, "", "garbage\r\n", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
		"HTTP/1.1 100 Continue\r\n\r\n" + okAnswer, okAnswer + "more", "HTTP/1.1 302 Found\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	pick := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	url := serveRaw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			answer := answers[pick(len(answers))]
			if _, err := io.WriteString(c, answer); err != nil || answer == "" {
				return
			}
		}
	})
	for i := range 12 {
		p := shortPlan(get(url), Target{Method: "POST", URL: url})
		p.Concurrency = 1 + pick(8)
		p.Timeout = time.Duration(1+pick(40)) * time.Millisecond
		p.Rate = float64(pick(3) * pick(3000))
		r := mustRun(t, p)
		if p.Rate == 0 && r.Dropped+r.Late > 0 {
			t.Errorf("plan %d: closed loop with %+v", i, r)
		}
	}
}

func TestPlanThatCannotRun(t *testing.T) {
	good := shortPlan(get("http://127.0.0.1:1/"))
	for name, change := range map[string]func(*Plan){
		"target": func(p *Plan) { p.Targets = nil },
		"URL":    func(p *Plan) { p.Targets = []Target{get("ftp://x/")} },
		"method": func(p *Plan) { p.Targets = []Target{{Method: "GET /x", URL: "http://x/"}} },
		"name": func(p *Plan) {
			p.Targets = []Target{{Method: "GET", URL: "http://x/", Header: http.Header{"A B": {"c"}}}}
		},
		"control": func(p *Plan) {
			p.Targets = []Target{{Method: "GET", URL: "http://x/", Header: http.Header{"A": {"c\r\nX: y"}}}}
		},
		"Length": func(p *Plan) {
			p.Targets = []Target{{Method: "GET", URL: "http://x/", Header: http.Header{"content-length": {"1"}}}}
		},
		"concurrency": func(p *Plan) { p.Concurrency = 0 },
		"rate":        func(p *Plan) { p.Rate = -1 },
		"duration":    func(p *Plan) { p.Duration = 0 },
		"requests":    func(p *Plan) { p.Requests = -1 },
		"timeout":     func(p *Plan) { p.Timeout = 0 },
	} {
		p := good
		change(&p)
		if r, err := Run(t.Context(), p); err == nil || r.Sent > 0 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestProbe(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/health" {
			http.NotFound(w, q)
		}
	})
	for path, want := range map[string]int{"/health": 200, "/": 404} {
		if status, err := Probe(t.Context(), get(url+path), time.Minute); status != want || err != nil {
			t.Errorf("%s: %d, %v", path, status, err)
		}
	}
	release := make(chan struct{})
	defer close(release)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		url     string
		timeout time.Duration
		want    string
	}{
		{t.Context(), serve(t, func(http.ResponseWriter, *http.Request) { <-release }), 20 * time.Millisecond, "no answer within"},
		{t.Context(), serveRaw(t, func(c net.Conn) { answerWith(c, "hello\r\n", 1) }), time.Minute, "is this an HTTP port?"},
		{t.Context(), serveRaw(t, func(net.Conn) {}), time.Minute, "is the service up"},
		{ended, url, time.Minute, "context canceled"},
	} {
		if status, err := Probe(c.ctx, get(c.url), c.timeout); err == nil || status != 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, %v; want %q", status, err, c.want)
		}
	}
}

func TestProbeNamesBadTargets(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	url := serve(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/slow":
			<-release
		case "/nowhere":
			http.NotFound(w, q)
		}
	})
	for path, want := range map[string]string{"/": "", "/slow": "", "/nowhere": "/nowhere answers 404 Not Found: check the URL"} {
		l := HTTP{Plan: Plan{Targets: []Target{get(url + path)}, Concurrency: 1, Timeout: 20 * time.Millisecond}}
		if path != "/slow" {
			l.Plan.Timeout = time.Minute
		}
		err := l.Probe(t.Context())
		if (err != nil) != (want != "") || err != nil && (!errors.Is(err, ErrTarget) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
