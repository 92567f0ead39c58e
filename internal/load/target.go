package load

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxTargetLength = 8 << 10
	maxMethodLength = 32
	maxHeaderBytes  = 64 << 10
)

// ParseTarget reads "[METHOD ]URL"; the method is GET where there is none. The
// URL is absolute, http or https, and written as it is sent: percent-encoded,
// without user, fragment or IPv6 zone.
func ParseTarget(s string) (Target, error) {
	method, address := http.MethodGet, strings.TrimSpace(s)
	if len(address) > maxTargetLength {
		return Target{}, fmt.Errorf("load target of %d bytes: write at most %d", len(address), maxTargetLength)
	}
	if before, after, ok := strings.Cut(address, " "); ok {
		method, address = before, strings.TrimLeft(after, " ")
	}
	if err := checkMethod(method); err != nil {
		return Target{}, fmt.Errorf("load target %q: %w", s, err)
	}
	u, err := parseURL(address)
	if err != nil {
		return Target{}, fmt.Errorf("load target %q: %w", s, err)
	}
	return Target{Method: method, URL: u.String()}, nil
}

// String is the target as ParseTarget reads it, without headers and body.
func (t Target) String() string {
	return t.Method + " " + t.URL
}

func checkMethod(m string) error {
	if m == "" || len(m) > maxMethodLength || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
		return fmt.Errorf("%.40q is not a method: write it in capitals before the URL, as in \"POST http://localhost:8080/\"", m)
	}
	if m == http.MethodConnect {
		return errors.New("CONNECT makes a tunnel and no load: use another method")
	}
	return nil
}

func parseURL(s string) (*url.URL, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }); i >= 0 {
		return nil, fmt.Errorf("URL has %q at byte %d: percent-encode it, as %%20 for a space", []rune(s[i:])[0], i)
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%w: write it as http://HOST:PORT/PATH", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q is not http or https: write it as http://HOST:PORT/PATH", s)
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %q names no host: write it as http://HOST:PORT/PATH", s)
	case strings.Contains(u.Host, "%") || strings.IndexFunc(u.Host, notHost) >= 0:
		return nil, fmt.Errorf("host %q has an escape, zone or sign that no host name has: write its plain name or address", u.Host)
	case u.User != nil:
		return nil, errors.New("URL has a user: give an Authorization header in a request file instead")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("URL has a fragment (#), which is never sent: remove it")
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("port %q: write one from 1 to 65535", p)
		}
	}
	return u, nil
}

// notHost tells what may not stand in the authority of a URL that is sent as a
// Host header: letters, digits and "-._~:[]" may.
func notHost(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~:[]", r))
}

// checkHeader refuses headers that could not be sent, or that would contradict
// the framing which the generator chooses.
func checkHeader(h http.Header) error {
	size := 0
	for name, values := range h {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Upgrade", "Expect":
			return fmt.Errorf("header %s is set by the load itself or not supported: remove it", name)
		case "Host":
			if len(values) != 1 {
				return fmt.Errorf("header Host is given %d times: give it once", len(values))
			}
		}
		if !isToken([]byte(name)) {
			return fmt.Errorf("%.40q is not a header name: write \"Name: value\"", name)
		}
		for _, v := range values {
			if !isFieldValue([]byte(v)) {
				return fmt.Errorf("header %s has a control character: remove it", name)
			}
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > maxHeaderBytes {
		return fmt.Errorf("headers of %d bytes: send at most %d", size, maxHeaderBytes)
	}
	return nil
}

// isToken tells whether b is a token of RFC 9110, section 5.6.2.
func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenByte[c] {
			return false
		}
	}
	return len(b) > 0
}

var tokenByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// isFieldValue tells whether b holds no control character but tabs.
func isFieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
