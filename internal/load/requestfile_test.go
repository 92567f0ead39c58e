package load

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadTargets(t *testing.T) {
	const text = "\ufeff### Orders\r\n" + `
# a comment
// another
POST http://localhost:8080/orders HTTP/1.1
Content-Type: application/json
# not sent
X-Two: 1
X-Two:2

{
  "id": 1
# part of the body
}

### next, without an empty line after its headers
http://localhost/a
Accept: */*
### by file

PUT http://localhost/b

< ./bodies/one.bin
###
###
DELETE http://localhost/c`
	files := fstest.MapFS{"bodies/one.bin": {Data: []byte("\r\n###\x00\n")}}
	got, err := ReadTargets(strings.NewReader(text), files)
	want := []Target{
		{"POST", "http://localhost:8080/orders", http.Header{"Content-Type": {"application/json"}, "X-Two": {"1", "2"}}, []byte("{\n  \"id\": 1\n# part of the body\n}")},
		{"GET", "http://localhost/a", http.Header{"Accept": {"*/*"}}, nil},
		{"PUT", "http://localhost/b", nil, []byte("\r\n###\x00\n")},
		{"DELETE", "http://localhost/c", nil, nil},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadTargetsRefuses(t *testing.T) {
	const request = "POST http://h/\n\n"
	files := fstest.MapFS{"big": {Data: make([]byte, maxRequestBytes)}}
	for text, want := range map[string]string{
		"":                                      "has no request",
		"###\n# only\n":                         "has no request",
		"\nget http://h/":                       "line 2: ",
		"GET http://h/ HTTP/2":                  "HTTP/1.1",
		"GET http://{{host}}/":                  "write the value",
		"GET http://h/\nno header":              "line 2: \"no header\" is not a header",
		"GET http://h/\n  ?a=b":                 "is not a header",
		"GET http://h/\nA: {{b}}":               "write the value",
		"GET http://h/\nContent-Length: 3\n\nx": "remove it",
		"GET http://h/\nA: \x01\n":              "control character",
		"@host = x\n":                           "in capitals",
		request + "< {% script %}":              "not supported",
		request + "text\n> {% script %}":        "not supported",
		request + "< /etc/passwd":               "relative",
		request + "< ../secret":                 "relative",
		request + "< missing":                   "beside the request file",
		request + "< big":                       "send less",
		"GET http://h/\nA: " + strings.Repeat("x", maxRequestLine): "at most",
		strings.Repeat("GET http://h/\n###\n", maxRequests+1):      "write fewer",
		strings.Repeat("#\n", maxRequestBytes/2+1):                 "shorter",
	} {
		got, err := ReadTargets(strings.NewReader(text), files)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %d targets, %v; want %q", text, len(got), err, want)
		}
	}
	if _, err := ReadTargets(strings.NewReader(request+"< big"), nil); err == nil {
		t.Error("a body file was read without files")
	}
}

// writeTargets writes what ReadTargets reads, for bodies without files.
func writeTargets(w io.Writer, targets []Target) {
	for _, t := range targets {
		fmt.Fprintf(w, "### request\n%s HTTP/1.1\n", t)
		for _, name := range slices.Sorted(maps.Keys(t.Header)) {
			for _, v := range t.Header[name] {
				fmt.Fprintf(w, "%s: %s\n", name, v)
			}
		}
		fmt.Fprintf(w, "\n%s\n", t.Body)
	}
}

// What is accepted can be written down and read again, and each request can be
// rendered.
func FuzzReadTargets(f *testing.F) {
	f.Add("POST http://h/ HTTP/1.1\nA: b\n\nbody\n###\nGET http://h/x\n")
	f.Add("\ufeff# c\r\nhttp://h/\r\nHost: x\r\n\r\n< body")
	f.Add("GET http://h/\nConnection: close\n\n\n{{x}}\n\n### \n###")
	f.Fuzz(func(t *testing.T, text string) {
		targets, err := ReadTargets(strings.NewReader(text), nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of more than a line: %v", err)
			}
			return
		}
		var b bytes.Buffer
		writeTargets(&b, targets)
		again, err := ReadTargets(&b, nil)
		if err != nil || !reflect.DeepEqual(again, targets) {
			t.Fatalf("%q\nreads as       %q\nand again as %q, %v", text, targets, again, err)
		}
		for _, target := range targets {
			checkRendered(t, target)
		}
	})
}
