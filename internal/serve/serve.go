// Package serve is the hub of a team's agents, or the whole on one machine: an HTTP
// API over a history, metrics, and a dashboard.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/store"
)

// Config is what a server serves, and to whom.
type Config struct {
	History *history.DB
	// Fits opens the history of fits; nil for none.
	Fits func(ctx context.Context) (store.Store, error)
	// Version is told.
	Version string
	// Local says that the server listens on the loopback alone: whoever is on this
	// machine may read, as long as no token for reading was made.
	Local bool
	// Hosts are the names that a server on the loopback may be called beside
	// localhost and addresses.
	Hosts []string
	// TLS says that browsers reach it by https.
	TLS bool
	// MaxJVMs bounds the JVMs that the metrics tell of.
	MaxJVMs int
	// LocalToken is the secret of this machine's own agent, which writes the rows of
	// LocalMachine, for as long as the server runs; "" without one.
	LocalToken, LocalMachine string
	// Say is called with what a user should know.
	Say func(error)
	// Now is the time; the wall clock's when it is nil.
	Now func() time.Time
}

// DefaultMaxJVMs is some 25 series each.
const DefaultMaxJVMs = 2000

// Server answers requests.
type Server struct {
	cfg      Config
	sessions sessions
	handler  http.Handler
	limits   limits
	running  chan struct{} // one for each request under way
	records  atomic.Int64
	refused  atomic.Int64
	stopping atomic.Bool
}

// atOnce is how many requests are answered at once; others wait.
const atOnce = 64

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxJVMs == 0 {
		cfg.MaxJVMs = DefaultMaxJVMs
	}
	s := &Server{cfg: cfg, running: make(chan struct{}, atOnce)}
	s.sessions.now = cfg.Now
	assets, err := newAssets()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /healthz":                     s.healthz,
		"GET /readyz":                      s.readyz,
		"GET /login":                       assets.page("login.html"),
		"POST /login":                      s.login,
		"POST /logout":                     s.logout,
		"GET /assets/{name}":               assets.serve,
		"GET /api/v1/openapi.json":         assets.page("openapi.json"),
		"POST /api/v1/records":             s.writing(s.takeRecords),
		"GET /api/v1/position":             s.writing(s.position),
		"POST /api/v1/enrol":               s.enrol,
		"GET /metrics":                     s.reading(s.metrics()),
		"GET /{$}":                         s.browsing(assets.page("index.html")),
		"GET /fits/{id}":                   s.browsing(s.fitReport),
		"GET /api/v1/machines":             s.api(s.machines),
		"GET /api/v1/jvms":                 s.api(s.jvms),
		"GET /api/v1/jvms/{id}":            s.api(s.jvm),
		"GET /api/v1/kills":                s.api(s.kills),
		"GET /api/v1/findings":             s.api(s.findings),
		"GET /api/v1/fits":                 s.api(s.fits),
		"GET /api/v1/fits/{id}":            s.api(s.fit),
		"GET /api/v1/status":               s.api(s.status),
		"GET /api/v1/jvms/{id}/samples":    s.api(s.samples),
		"GET /api/v1/jvms/{id}/footprints": s.api(s.footprints),
		"GET /api/v1/jvms/{id}/footprint":  s.api(s.footprintAt),
		"GET /api/v1/jvms/{id}/events":     s.api(s.events),
	} {
		mux.HandleFunc(pattern, h)
	}
	// What changes something is refused when another site's page sends it.
	s.handler = s.guard(http.NewCrossOriginProtection().Handler(mux))
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// contentPolicy lets pages use what this server has in files, and nothing else
// (https://www.w3.org/TR/CSP3/).
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard is before every request.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if s.cfg.TLS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if s.cfg.Local && !s.knownHost(r.Host) {
			// A name that leads here without being this machine's is a trick by
			// which other sites read what is on the loopback (DNS rebinding).
			problem(w, http.StatusMisdirectedRequest, fmt.Errorf("this server is not called %.100q: use 127.0.0.1, or name it with --host", r.Host))
			return
		}
		probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		if !probe && !s.limits.allow(clientOf(r), s.cfg.Now()) {
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusTooManyRequests, errors.New("too many requests: come again later"))
			return
		}
		select {
		case s.running <- struct{}{}:
			defer func() { <-s.running }()
		case <-r.Context().Done():
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) knownHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return collect.Loopback(trimBrackets(host)) || slices.Contains(s.cfg.Hosts, host)
}

func trimBrackets(host string) string {
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}

// clientOf is the address that a request comes from.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// limits bound how many requests come from each address.
type limits struct {
	mu      sync.Mutex
	clients map[string]*rate.Limiter
}

const (
	// Of one address: a dashboard makes a request each few seconds, and a thousand
	// agents behind one address share it. One with a wrong token counts as many.
	requestsPerSecond, requestsBurst = 500, 1000
	failureCosts                     = 100
	maxClients                       = 4096
)

func (l *limits) of(address string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[address]
	if c == nil {
		if l.clients == nil || len(l.clients) >= maxClients {
			l.clients = map[string]*rate.Limiter{} // who is limited may try again; memory is bounded
		}
		c = rate.NewLimiter(requestsPerSecond, requestsBurst)
		l.clients[address] = c
	}
	return c
}

func (l *limits) allow(address string, now time.Time) bool { return l.of(address).AllowN(now, 1) }

// failed counts a wrong token, as far as there is something left to count.
func (l *limits) failed(address string, now time.Time) { l.of(address).ReserveN(now, failureCosts) }

// healthz says that the process lives.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintln(w, "ok")
}

// readyz says that requests can be answered: the database is there, and the server
// does not end.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if s.stopping.Load() || s.cfg.History.Ping(ctx) != nil {
		problem(w, http.StatusServiceUnavailable, errors.New("not ready"))
		return
	}
	s.healthz(w, r)
}

// maxConnections bounds what is open at once.
const maxConnections = 4096

// Serve answers on a listener until the context ends, and then lets what is under
// way come to its end. tlsConfig is nil without TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener, tlsConfig *tls.Config) error {
	server := &http.Server{Handler: s, TLSConfig: tlsConfig, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: quiet()}
	ended := make(chan error, 1)
	bounded := &boundedListener{Listener: l, open: make(chan struct{}, maxConnections)}
	go func() {
		if tlsConfig != nil {
			ended <- server.ServeTLS(bounded, "", "")
			return
		}
		ended <- server.Serve(bounded)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(last) // who still reads then is cut off
	_ = server.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// boundedListener keeps further connections waiting in the kernel.
type boundedListener struct {
	net.Listener
	open chan struct{}
}

// Accept waits for room, and for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.open <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &boundedConn{Conn: c, done: sync.OnceFunc(func() { <-l.open })}, nil
}

type boundedConn struct {
	net.Conn
	done func()
}

// Close makes room.
func (c *boundedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// pruneEvery lies between two removals of what is old.
const pruneEvery = 10 * time.Minute

// Keep removes what is old, again and again until the context ends.
func (s *Server) Keep(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if err := s.cfg.History.Prune(ctx, s.cfg.Now()); err != nil && ctx.Err() == nil {
			s.say(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) say(err error) {
	if s.cfg.Say != nil {
		s.cfg.Say(err)
	}
}
