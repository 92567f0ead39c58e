package load

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReadAnswer(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for text, want := range map[string]answer{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                      {status: 200, keep: true},
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                                                           {status: 200, keep: true},
		"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nok":                                                       {status: 200, keep: true},
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: x, Close\r\n\r\nok":                              {status: 200},
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                      {status: 200},
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok":                            {status: 200, keep: true},
		"HTTP/1.1 200 OK\r\n\r\nto the end":                                                                   {status: 200},
		"HTTP/1.1 204 No\r\n\r\n":                                                                             {status: 204, keep: true},
		"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n":                                                        {status: 304, keep: true},
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n":                   {status: 404, keep: true},
		"HTTP/1.1 200 OK\r\nX: " + long + "\r\nContent-Length: 2\r\n\r\nok":                                   {status: 200, keep: true},
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more":                                             {status: 200},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0A \r\n0123456789\r\n0\r\n\r\n": {status: 200, keep: true},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n":                        {status: 200, keep: true},
	} {
		got, err := readAnswer(bufio.NewReaderSize(strings.NewReader(text), readBuffer), false)
		if err != nil || got.status != want.status || got.keep != want.keep {
			t.Errorf("%.80q: %+v, %v", text, got, err)
		}
	}
	head := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	if got, err := readAnswer(bufio.NewReader(strings.NewReader(head)), true); err != nil || !got.keep {
		t.Errorf("HEAD: %+v, %v", got, err)
	}
}

func TestReadAnswerRefuses(t *testing.T) {
	for _, text := range []string{
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 020 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 101 Switching\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\x00\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1" + strings.Repeat(" ", maxChunkLine) + "\r\nx\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxHeaderBytes) + "\r\n\r\n",
		strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000),
	} {
		got, err := readAnswer(bufio.NewReaderSize(strings.NewReader(text), readBuffer), false)
		if !errors.Is(err, errMalformed) {
			t.Errorf("%.80q: %+v, %v", text, got, err)
		}
	}
	whole := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
	for i := range whole {
		_, err := readAnswer(bufio.NewReader(strings.NewReader(whole[:i])), false)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", whole[:i], err)
		}
	}
}

// What is accepted, the standard library accepts as well, with the same status
// and the same end: so no server can make the two disagree about where an
// answer ends.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{
		okAnswer, okAnswer + okAnswer, "HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.0 404 N\nA:b\n\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\nT: t\r\n\r\nHTTP/1.1",
		"HTTP/1.1 204 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, head bool) {
		ours := bufio.NewReaderSize(strings.NewReader(text), readBuffer)
		a, err := readAnswer(ours, head)
		if err != nil {
			if !errors.Is(err, errMalformed) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: error without a kind: %v", text, err)
			}
			return
		}
		theirs := bufio.NewReaderSize(strings.NewReader(text), 2*maxHeaderBytes) // or it refuses long trailers
		q := &http.Request{Method: "GET"}
		if head {
			q.Method = "HEAD"
		}
		for {
			r, err := http.ReadResponse(theirs, q)
			if err != nil {
				t.Fatalf("%q: accepted as %+v, net/http says %v", text, a, err)
			}
			if r.StatusCode < 200 {
				continue
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != a.status {
				t.Fatalf("%q: accepted as %+v, net/http: %d, %v", text, a, r.StatusCode, err)
			}
			break
		}
		rest, _ := io.ReadAll(theirs)
		left, _ := io.ReadAll(ours)
		if string(rest) != string(left) || a.keep && len(left) > 0 {
			t.Fatalf("%q: %+v leaves %q, net/http %q", text, a, left, rest)
		}
	})
}
