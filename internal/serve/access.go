package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/history"
)

const (
	// sessionFor is how long a login lasts.
	sessionFor  = 12 * time.Hour
	maxSessions = 1000
)

// sessions are the logins of browsers. They are kept in memory: who is logged in
// when the server ends logs in again.
type sessions struct {
	now func() time.Time
	mu  sync.Mutex
	all map[[sha256.Size]byte]session
}

type session struct {
	token   int64 // a session ends with the token that it was begun with
	expires time.Time
}

// begin begins a session, and returns its secret.
func (s *sessions) begin(token int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, old := range s.all {
		if now.After(old.expires) {
			delete(s.all, id)
		}
	}
	if s.all == nil || len(s.all) >= maxSessions {
		s.all = map[[sha256.Size]byte]session{}
	}
	secret := rand.Text()
	s.all[sha256.Sum256([]byte(secret))] = session{token, now.Add(sessionFor)}
	return secret
}

// of is the token of a session; false without one.
func (s *sessions) of(secret string) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.all[sha256.Sum256([]byte(secret))]
	return got.token, ok && !s.now().After(got.expires)
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(secret)))
}

// cookieName is the name of the cookie: with TLS one that only this host by https
// can set (RFC 6265bis, __Host-).
func (s *Server) cookieName() string {
	if s.cfg.TLS {
		return "__Host-tare"
	}
	return "tare"
}

func (s *Server) cookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: s.cookieName(), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.cfg.TLS, SameSite: http.SameSiteStrictMode}
}

// login begins a session for a token that may read.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	token, err := s.cfg.History.Token(r.Context(), strings.TrimSpace(r.PostFormValue("token")))
	if errors.Is(err, history.ErrNotFound) || err == nil && token.Kind != history.Read {
		s.limits.failed(clientOf(r), s.cfg.Now())
		http.Redirect(w, r, "/login#failed", http.StatusSeeOther)
		return
	}
	if err != nil {
		s.broken(w, err)
		return
	}
	http.SetCookie(w, s.cookie(s.sessions.begin(token.ID), int(sessionFor/time.Second)))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(s.cookieName()); err == nil {
		s.sessions.end(c.Value)
	}
	http.SetCookie(w, s.cookie("", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

var errNoAccess = errors.New("no access")

// bearer is the token of an Authorization header, "" without one.
func bearer(r *http.Request) string {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return secret
}

// mayRead says whether a request may read: by a token, by a session, or for being
// on this machine while no token for reading was made. The error is errNoAccess.
func (s *Server) mayRead(r *http.Request) error {
	ctx := r.Context()
	if secret := bearer(r); secret != "" {
		token, err := s.cfg.History.Token(ctx, secret)
		if errors.Is(err, history.ErrNotFound) {
			s.limits.failed(clientOf(r), s.cfg.Now())
			return errNoAccess
		}
		if err == nil && token.Kind != history.Read {
			return errNoAccess
		}
		return err
	}
	if c, err := r.Cookie(s.cookieName()); err == nil {
		if id, ok := s.sessions.of(c.Value); ok {
			if _, err := s.cfg.History.TokenOf(ctx, id); !errors.Is(err, history.ErrNotFound) {
				return err
			}
		}
	}
	if s.cfg.Local && !proxied(r) && len(s.cfg.Hosts) == 0 {
		closed, err := s.cfg.History.HasReaders(ctx)
		if err != nil || !closed {
			return err
		}
	}
	return errNoAccess
}

// proxied says that a request came through a proxy: then it need not be of this
// machine.
func proxied(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// reading lets through who may read.
func (s *Server) reading(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.mayRead(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, errNoAccess):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tare"`)
			problem(w, http.StatusUnauthorized, errors.New("log in, or give a token for reading: make one with tare serve token add NAME"))
		default:
			s.broken(w, err)
		}
	}
}

// browsing lets through who may read, and leads others to the login.
func (s *Server) browsing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.mayRead(r)
		switch {
		case err == nil:
			next(w, r)
		case errors.Is(err, errNoAccess):
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		default:
			s.broken(w, err)
		}
	}
}

// writing lets through who may write, and hands on the name of the machine whose
// rows those are.
func (s *Server) writing(next func(w http.ResponseWriter, r *http.Request, machine string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secret := bearer(r)
		if own := s.cfg.LocalToken; own != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(own)) == 1 {
			next(w, r, s.cfg.LocalMachine)
			return
		}
		token, err := s.cfg.History.Token(r.Context(), secret)
		switch {
		case err == nil && token.Kind == history.Write:
			next(w, r, token.Name)
		case err == nil:
			problem(w, http.StatusForbidden, errors.New("this token may not write: make one with tare serve token add NAME --write"))
		case errors.Is(err, history.ErrNotFound):
			s.unknown(w, r, "--write")
		default:
			s.broken(w, err)
		}
	}
}

// refusals are the answers to who cannot be enrolled.
var refusals = []struct {
	err    error
	status int
}{
	{history.ErrNoEnrolment, http.StatusForbidden}, {history.ErrExpired, http.StatusForbidden}, {history.ErrAllEnrolled, http.StatusForbidden},
	{history.ErrNameTaken, http.StatusConflict}, {history.ErrNoName, http.StatusBadRequest}, {history.ErrNoSecret, http.StatusBadRequest},
}

// maxEnrolling bounds the body of a request to enrol.
const maxEnrolling = 4 << 10

// enrol takes up a machine: from then on the token that its agent has made is its own.
func (s *Server) enrol(w http.ResponseWriter, r *http.Request) {
	var asked collect.Enrolling
	text, err := readBody(w, r, maxEnrolling, maxEnrolling)
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err != nil {
		problem(w, http.StatusBadRequest, fmt.Errorf("the request to enrol cannot be read: %w", err))
		return
	}
	err = history.ErrNameTaken // the rows of this machine are its own agent's
	if s.cfg.LocalToken == "" || asked.Machine != s.cfg.LocalMachine {
		err = s.cfg.History.Enrol(r.Context(), bearer(r), asked.Machine, asked.Token, s.cfg.Now())
	}
	if err == nil {
		answer(w, nil, http.StatusOK, collect.Enrolled{Machine: asked.Machine})
		return
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			problem(w, known.status, known.err)
			return
		}
	}
	if errors.Is(err, history.ErrNotFound) {
		s.unknown(w, r, "--enrol")
		return
	}
	s.broken(w, err)
}

// unknown answers to a token that is none, and counts it. flag makes one of its kind.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request, flag string) {
	s.limits.failed(clientOf(r), s.cfg.Now())
	w.Header().Set("WWW-Authenticate", `Bearer realm="tare"`)
	problem(w, http.StatusUnauthorized, fmt.Errorf("the token is none, or was taken back: make one with tare serve token add NAME %s", flag))
}

// quiet is where net/http writes what clients did wrong.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
