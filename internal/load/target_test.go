package load

import (
	"bufio"
	"bytes"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for s, want := range map[string]string{
		"http://localhost:8080":            "GET http://localhost:8080",
		"  https://example.org/a%20b?c=d ": "GET https://example.org/a%20b?c=d",
		"POST   http://[::1]:80/":          "POST http://[::1]:80/",
		"M-SEARCH http://h/?":              "M-SEARCH http://h/?",
		"HTTP://Host_1/":                   "GET http://Host_1/",
	} {
		got, err := ParseTarget(s)
		if err != nil || got.String() != want || got.Header != nil || got.Body != nil {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"":                             "http://HOST:PORT/PATH",
		"localhost:8080/x":             "http://HOST:PORT/PATH",
		"/path":                        "http://HOST:PORT/PATH",
		"ftp://h/":                     "http://HOST:PORT/PATH",
		"http:///x":                    "names no host",
		"http://:80/":                  "names no host",
		"http:h/x":                     "names no host",
		"get http://h/":                "in capitals",
		"CONNECT http://h/":            "another method",
		"GET http://h/a b":             "%20 for a space",
		"http://h/ü":                   "percent-encode",
		"http://h/\x00":                "percent-encode",
		"http://h:0/":                  "1 to 65535",
		"http://h:65536/":              "1 to 65535",
		"http://h:/":                   "1 to 65535",
		"http://me:secret@h/":          "Authorization",
		"http://h/#top":                "remove it",
		"http://h/#":                   "remove it",
		"http://[fe80::1%25eth0]/":     "plain name",
		"http://a,b/":                  "plain name",
		"http://h/%zz":                 "http://HOST:PORT/PATH",
		strings.Repeat("x", 10_000):    "at most 8192",
		"GET " + "http://h/\r\nX: y":   "percent-encode",
		strings.Repeat("X", 40) + " u": "in capitals",
	} {
		got, err := ParseTarget(s)
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%.80q: %q, %v; want %q", s, got, err, want)
		}
	}
}

// A target that is accepted reads again as itself, and renders as one request
// that a server reads with that method and URL.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"http://localhost:8080/a?b", "POST https://[::1]/", "GET http://h//x/../y?%20#", "PUT http://H:1/%2f;=&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s)
		if err != nil {
			return
		}
		again, err := ParseTarget(target.String())
		if err != nil || !reflect.DeepEqual(again, target) {
			t.Fatalf("%q: %q reads again as %q, %v", s, target, again, err)
		}
		checkRendered(t, target)
	})
}

func checkRendered(t *testing.T, target Target) {
	t.Helper()
	r, err := newRequest(target, nil)
	if err != nil {
		t.Fatalf("%q cannot be rendered: %v", target, err)
	}
	in := bufio.NewReader(bytes.NewReader(r.wire))
	q, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q renders as %q: %v", target, r.wire, err)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(q.Body); err != nil || in.Buffered() > 0 {
		t.Fatalf("%q renders as %q, with %d bytes after it, %v", target, r.wire, in.Buffered(), err)
	}
	u, err := parseURL(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	if q.Method != target.Method || q.RequestURI != u.RequestURI() || !bytes.Equal(body.Bytes(), target.Body) {
		t.Fatalf("%q renders as %q", target, r.wire)
	}
	for name, values := range target.Header {
		if name != "Host" && name != "Connection" && !reflect.DeepEqual(q.Header[name], values) && values[0] != "" {
			t.Fatalf("header %s: %q arrives as %q", name, values, q.Header[name])
		}
	}
}
