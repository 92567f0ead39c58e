package load

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"tare.dev/tare/internal/authorities"
)

// request is a Target rendered for the wire, once for all its sendings.
type request struct {
	address string      // host:port to connect to
	tls     *tls.Config // nil for http
	wire    []byte
	// head: the answer has no body, whatever its headers say.
	head bool
	// idempotent: it may be sent again when no answer came.
	idempotent bool
	// last: the connection ends with this request.
	last bool
}

// key finds the connection: one per address and protocol.
func (r *request) key() connKey { return connKey{r.address, r.tls != nil} }

// newRequest renders t. base holds what all TLS connections share, or is nil.
func newRequest(t Target, base *tls.Config) (*request, error) {
	if err := checkMethod(t.Method); err != nil {
		return nil, fmt.Errorf("load target %q: %w", t, err)
	}
	u, err := parseURL(t.URL)
	if err != nil {
		return nil, fmt.Errorf("load target %q: %w", t, err)
	}
	if err := checkHeader(t.Header); err != nil {
		return nil, fmt.Errorf("load target %q: %w", t, err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	r := &request{
		address:    net.JoinHostPort(u.Hostname(), port),
		wire:       render(t, u.RequestURI(), u.Host),
		head:       t.Method == http.MethodHead,
		idempotent: slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"}, t.Method),
	}
	for _, v := range t.Header.Values("Connection") {
		r.last = r.last || hasToken([]byte(v), "close")
	}
	if u.Scheme == "https" {
		authorities.Trust()
		r.tls = base.Clone()
		if r.tls == nil {
			r.tls = &tls.Config{}
		}
		r.tls.ServerName = u.Hostname()
		r.tls.NextProtos = []string{"http/1.1"}
	}
	return r, nil
}

func render(t Target, uri, host string) []byte {
	h := t.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if v := h.Get("Host"); v != "" {
		host = v
	}
	h.Del("Host")
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "tare")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", t.Method, uri, host)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, strings.Trim(v, " \t"))
		}
	}
	if len(t.Body) > 0 || slices.Contains([]string{"POST", "PUT", "PATCH"}, t.Method) {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(t.Body))
	}
	b.WriteString("\r\n")
	b.Write(t.Body)
	return b.Bytes()
}
