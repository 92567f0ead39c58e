package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/historytest"
)

func opener(file string) func(context.Context) (store.Store, error) {
	return func(ctx context.Context) (store.Store, error) { return store.Open(ctx, file) }
}

func ledgerOwner(i int) footprint.Owner { return footprint.Owner(fmt.Sprintf("-%d", i)) }

// gate is a server with a token of each kind.
type gate struct {
	*httptest.Server
	d           *history.DB
	read, write string
}

func newGate(t *testing.T, change func(*serve.Config)) gate {
	t.Helper()
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	fleet(t, d, 3)
	read, err := d.AddToken(t.Context(), "people", history.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	write, err := d.AddToken(t.Context(), "web-9", history.Write, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return gate{start(t, d, change), d, read, write}
}

var reads = []string{"/", "/metrics", "/fits/1", "/api/v1/status", "/api/v1/jvms", "/api/v1/jvms/1", "/api/v1/machines", "/api/v1/kills", "/api/v1/findings", "/api/v1/fits", "/api/v1/fits/1",
	"/api/v1/jvms/1/samples", "/api/v1/jvms/1/footprints", "/api/v1/jvms/1/footprint", "/api/v1/jvms/1/events"}

// hurried is a clock by which nobody asks too often.
func hurried() func() time.Time {
	var n atomic.Int64
	begin := time.Now()
	return func() time.Time { return begin.Add(time.Duration(n.Add(1)) * time.Second) }
}

func (g gate) status(t *testing.T, method, path, body string, headers ...string) int {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, _ := do(t, client, method, g.URL+path, body, headers...)
	return resp.StatusCode
}

// Without a token nothing is read and nothing written; a token that writes reads
// nothing, and one that reads writes nothing.
func TestTokensAreNeeded(t *testing.T) {
	g := newGate(t, func(c *serve.Config) { c.Local = false; c.Now = hurried() })
	batch, err := json.Marshal(historytest.NewAgent("x").Batch(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range reads {
		for _, token := range []string{"", "Bearer x", "Bearer " + g.write, "Basic eDp5"} {
			if got := g.status(t, "GET", path, "", "Authorization", token); got != http.StatusUnauthorized && got != http.StatusSeeOther {
				t.Errorf("%s with %q: %d", path, token, got)
			}
		}
		if got := g.status(t, "GET", path, "", "Authorization", "Bearer "+g.read); got != http.StatusOK && !strings.Contains(path, "fits/") {
			t.Errorf("%s: %d", path, got)
		}
	}
	for _, c := range []struct {
		token string
		want  int
	}{{"", 401}, {"Bearer x", 401}, {"Bearer " + g.read, 403}, {"Bearer " + g.write, 200}} {
		if got := g.status(t, "POST", "/api/v1/records", string(batch), "Authorization", c.token); got != c.want {
			t.Errorf("%q: %d", c.token, got)
		}
		if got := g.status(t, "GET", "/api/v1/position?ledger=x", "", "Authorization", c.token); got != c.want {
			t.Errorf("%q: %d", c.token, got)
		}
	}
	if err := g.d.RemoveToken(t.Context(), "people", false); err != nil {
		t.Fatal(err)
	}
	if got := g.status(t, "GET", "/api/v1/jvms", "", "Authorization", "Bearer "+g.read); got != http.StatusUnauthorized {
		t.Errorf("a token that was taken back: %d", got)
	}
	for _, path := range []string{"/healthz", "/readyz", "/login", "/assets/main.js", "/api/v1/openapi.json"} {
		if got := g.status(t, "GET", path, ""); got != http.StatusOK {
			t.Errorf("%s: %d", path, got)
		}
	}
	for _, path := range []string{"/assets/..%2f..%2fserve.go", "/assets/nothing", "/x", "/api/v1/tokens"} {
		if got := g.status(t, "GET", path, ""); got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
}

// On the loopback whoever is on the machine may read, until a token was made; and a
// page of another site that has its own name led here may not.
func TestLoopback(t *testing.T) {
	g := newGate(t, nil)
	if got := g.status(t, "GET", "/api/v1/jvms", ""); got != http.StatusUnauthorized {
		t.Errorf("%d", got)
	}
	if err := g.d.RemoveToken(t.Context(), "people", false); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"127.0.0.1:1": 200, "localhost": 200, "[::1]:9": 200, "evil.example": 421, "127.0.0.1.evil.example": 421, "": 200} {
		headers := []string{"Host", host}
		if host == "" {
			headers = nil
		}
		if got := g.status(t, "GET", "/api/v1/jvms", "", headers...); got != want {
			t.Errorf("%s: %d", host, got)
		}
	}
	// Who comes through a proxy is not of this machine.
	if got := g.status(t, "GET", "/api/v1/jvms", "", "X-Forwarded-For", "192.0.2.1"); got != http.StatusUnauthorized {
		t.Errorf("%d", got)
	}
	named := start(t, g.d, func(c *serve.Config) { c.Hosts = []string{"tare.example"} })
	if resp, _ := do(t, named.Client(), "GET", named.URL+"/api/v1/jvms", "", "Host", "tare.example"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s", resp.Status)
	}
	if got := g.status(t, "POST", "/api/v1/records", "{}"); got != http.StatusUnauthorized {
		t.Errorf("without a token anybody writes: %d", got)
	}
}

func TestSessions(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Second); return now }
	g := newGate(t, func(c *serve.Config) { c.Local = false; c.Now = clock })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	form := func(token string) string { return url.Values{"token": {token}}.Encode() }
	kind := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, token := range []string{"", "x", g.write} {
		resp, text := do(t, client, "POST", g.URL+"/login", form(token), kind...)
		if resp.Request.URL.Path != "/login" || !strings.Contains(text, "Log in") {
			t.Errorf("%q is let in: %s", token, resp.Request.URL)
		}
	}
	// Another site's page may not log in here, or out.
	for _, path := range []string{"/login", "/logout", "/api/v1/records"} {
		for _, h := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
			if resp, _ := do(t, client, "POST", g.URL+path, form(g.read), append(h, kind...)...); resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s from another site: %s", path, resp.Status)
			}
		}
	}
	resp, _ := do(t, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, "POST", g.URL+"/login", form(g.read), kind...)
	cookie := resp.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("%q lacks %s", cookie, want)
		}
	}
	logIn := func() {
		t.Helper()
		if resp, _ := do(t, client, "POST", g.URL+"/login", form(g.read), kind...); resp.Request.URL.Path != "/" || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s", resp.Request.URL, resp.Status)
		}
	}
	may := func(want int) {
		t.Helper()
		if resp, text := do(t, client, "GET", g.URL+"/api/v1/jvms", ""); resp.StatusCode != want {
			t.Errorf("%s, want %d: %.100s", resp.Status, want, text)
		}
	}
	logIn()
	may(200)
	do(t, client, "POST", g.URL+"/logout", "")
	may(401)
	logIn()
	mu.Lock()
	now = now.Add(13 * time.Hour)
	mu.Unlock()
	may(401)
	logIn()
	may(200)
	// A session ends with its token.
	if err := g.d.RemoveToken(t.Context(), "people", false); err != nil {
		t.Fatal(err)
	}
	may(401)
}

func TestHeaders(t *testing.T) {
	g := newGate(t, func(c *serve.Config) { c.TLS = true })
	for _, path := range []string{"/login", "/api/v1/jvms", "/nothing", "/assets/main.js"} {
		resp, _ := do(t, g.Client(), "GET", g.URL+path, "")
		csp := resp.Header.Get("Content-Security-Policy")
		if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
			resp.Header.Get("Strict-Transport-Security") == "" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

// An agent writes the rows of the machine that its token names, whatever it says.
func TestAnAgentWritesItsOwnRows(t *testing.T) {
	g := newGate(t, nil)
	c, err := collect.NewClient(g.URL, g.write, "")
	if err != nil {
		t.Fatal(err)
	}
	a := historytest.NewAgent("web-1") // whose rows are another's
	p := historytest.Process(1)
	p.Name = "mine.jar"
	a.Add(time.Now(), ledger.Record{Process: p.ID, Start: p})
	b := a.Batch(time.Now())
	got, err := c.Take(t.Context(), b)
	if err != nil || got.Position != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	all, err := g.d.JVMs(t.Context(), history.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range all {
		if (j.Process.Name == "mine.jar") != (j.Machine == "web-9") {
			t.Errorf("%s is of %s", j.Process.Name, j.Machine)
		}
	}
	if pos, err := c.Position(t.Context(), b.Ledger); err != nil || pos != 1 {
		t.Errorf("%d, %v", pos, err)
	}
	b.After = 7
	b.Records = nil
	var gap *history.GapError
	if _, err := c.Take(t.Context(), b); !asGap(err, &gap) || gap.Position != 1 {
		t.Errorf("%v", err)
	}
}

func asGap(err error, gap **history.GapError) bool {
	g, ok := err.(*history.GapError)
	*gap = g
	return ok
}

// What a hostile agent sends is refused, and takes no more than a bounded body.
func TestHostileAgents(t *testing.T) {
	g := newGate(t, nil)
	pack := func(text []byte) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		body, encoding string
		want           int
	}{
		"nothing":      {"", "", 400},
		"no JSON":      {"{", "", 400},
		"another":      {"[]", "", 400},
		"deep":         {strings.Repeat("[", 1<<20), "", 400},
		"large":        {strings.Repeat(" ", collect.MaxPacked+1), "", 413},
		"a bomb":       {pack(make([]byte, 64<<20)), "gzip", 413},
		"no gzip":      {"x", "gzip", 400},
		"strange":      {"x", "br", 400},
		"cut":          {pack([]byte("{}"))[:12], "gzip", 400},
		"large number": {`{"after":1e400}`, "", 400},
	} {
		if got := g.status(t, "POST", "/api/v1/records", c.body, "Authorization", "Bearer "+g.write, "Content-Encoding", c.encoding); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	long := strings.Repeat("x", 20<<10)
	if got := g.status(t, "GET", "/api/v1/jvms?machine="+long[:5000], "", "Authorization", "Bearer "+g.read); got != 200 {
		t.Errorf("%d", got)
	}
}

// Who asks too often is told to come later, and who is slow is cut off by the limits
// of the server and takes nobody's place.
func TestTooManyRequests(t *testing.T) {
	fixed := time.Now()
	g := newGate(t, func(c *serve.Config) { c.Now = func() time.Time { return fixed } })
	limited := 0
	for range 1200 {
		if g.status(t, "GET", "/login", "") == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 100 || limited > 250 {
		t.Errorf("%d of 1200 requests were refused", limited)
	}
	other := newGate(t, func(c *serve.Config) { c.Now = func() time.Time { return fixed } })
	n := 0
	for ; n < 100 && other.status(t, "GET", "/api/v1/jvms", "", "Authorization", "Bearer wrong") == http.StatusUnauthorized; n++ {
	}
	if n < 5 || n > 20 {
		t.Errorf("%d wrong tokens", n)
	}
}

// A server that is told to end answers what is under way, and takes nothing new.
func TestServeEnds(t *testing.T) {
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	s, err := serve.New(serve.Config{History: d, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l, nil) }()
	if resp, _ := do(t, http.DefaultClient, "GET", "http://"+l.Addr().String()+"/readyz", ""); resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://127.0.0.1/readyz", nil)
	if s.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("ready at its end: %d", w.Code)
	}
}
