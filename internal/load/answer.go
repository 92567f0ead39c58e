package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
)

var errMalformed = errors.New("malformed answer")

const (
	maxChunkLine = 4 << 10
	unknown      = int64(-1)
)

// answer is the head of a response, as far as it matters here.
type answer struct {
	status  int
	keep    bool  // the connection may carry another request
	length  int64 // of the body, or unknown
	chunked bool
}

// readAnswer reads one response, its body to the end, and throws the body
// away. head says that it answers a HEAD request. What RFC 9112 lets a reader
// refuse is refused: lines folded or ended by LF alone, both lengths given, an
// unknown coding. The head, with the interim answers before it, and the
// trailers may take 64 KiB each.
func readAnswer(r *bufio.Reader, head bool) (answer, error) {
	a, err := readHead(r)
	if err != nil {
		return answer{}, truncated(err)
	}
	switch {
	case head || a.status == http.StatusNoContent || a.status == http.StatusNotModified:
	case a.chunked:
		err = discardChunks(r)
	case a.length == unknown:
		a.keep = false
		err = discardToEnd(r)
	default:
		err = discard(r, a.length)
	}
	if err != nil {
		return answer{}, truncated(err)
	}
	if r.Buffered() > 0 { // nothing was asked for yet that this could answer
		a.keep = false
	}
	return a, nil
}

// truncated turns an end in the midst of an answer into an error of its own.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readHead reads up to the empty line after the headers, skipping the interim
// answers (1xx) before the one that counts.
func readHead(r *bufio.Reader) (answer, error) {
	budget := maxHeaderBytes
	for {
		line, err := readLine(r, &budget)
		if err != nil {
			return answer{}, err
		}
		a, err := parseStatusLine(line)
		if err != nil {
			return answer{}, err
		}
		if err := readFields(r, &budget, &a); err != nil {
			return answer{}, err
		}
		if a.chunked && a.length != unknown {
			return answer{}, fmt.Errorf("%w: both Content-Length and Transfer-Encoding", errMalformed)
		}
		if a.status == http.StatusSwitchingProtocols {
			return answer{}, fmt.Errorf("%w: 101, and nothing asked to switch protocols", errMalformed)
		}
		if a.status >= 200 {
			return a, nil
		}
	}
}

// parseStatusLine reads "HTTP/1.1 200 OK"; the reason may be missing.
func parseStatusLine(line []byte) (answer, error) {
	bad := len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' ||
		line[7] != '0' && line[7] != '1' || len(line) > 12 && line[12] != ' '
	if bad {
		return answer{}, fmt.Errorf("%w: status line %.60q", errMalformed, line)
	}
	status, err := parseDigits(line[9:12])
	if err != nil || status < 100 {
		return answer{}, fmt.Errorf("%w: status line %.60q", errMalformed, line)
	}
	return answer{status: int(status), keep: line[7] == '1', length: unknown}, nil
}

// readFields reads header or trailer lines up to the empty one.
// into takes note of them, unless it is nil.
func readFields(r *bufio.Reader, budget *int, into *answer) error {
	for {
		line, err := readLine(r, budget)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !isToken(name) || !isFieldValue(value) {
			return fmt.Errorf("%w: header line %.60q", errMalformed, line)
		}
		if into == nil {
			continue
		}
		if err := into.field(name, bytes.Trim(value, " \t")); err != nil {
			return err
		}
	}
}

// field takes note of the headers that say where the answer ends, and whether
// the connection goes on.
func (a *answer) field(name, value []byte) error {
	switch {
	case is(name, "Content-Length"):
		n, err := parseDigits(value)
		if err != nil || a.length != unknown && a.length != n {
			return fmt.Errorf("%w: Content-Length %.60q", errMalformed, value)
		}
		a.length = n
	case is(name, "Transfer-Encoding"):
		if a.chunked || !is(value, "chunked") {
			return fmt.Errorf("%w: Transfer-Encoding %.60q", errMalformed, value)
		}
		a.chunked = true
	case is(name, "Connection"):
		if hasToken(value, "close") {
			a.keep = false
		} else if hasToken(value, "keep-alive") {
			a.keep = true
		}
	}
	return nil
}

// is compares without regard to case. Most headers differ in length already.
func is(b []byte, s string) bool {
	return len(b) == len(s) && bytes.EqualFold(b, []byte(s))
}

// hasToken looks for s in a list separated by commas.
func hasToken(list []byte, s string) bool {
	for item := range bytes.SplitSeq(list, []byte(",")) {
		if is(bytes.Trim(item, " \t"), s) {
			return true
		}
	}
	return false
}

// parseDigits reads a decimal number without sign, up to the largest int64.
func parseDigits(b []byte) (int64, error) {
	if len(b) == 0 || len(b) > 19 {
		return 0, strconv.ErrSyntax
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, strconv.ErrSyntax
		}
		n = n*10 + uint64(c-'0')
	}
	if n > math.MaxInt64 {
		return 0, strconv.ErrRange
	}
	return int64(n), nil
}

// readLine reads a line and takes the CR LF at its end off. The line is valid
// until the next read; it uses up budget.
func readLine(r *bufio.Reader, budget *int) ([]byte, error) {
	var long []byte // a line longer than the buffer
	for {
		part, err := r.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return nil, fmt.Errorf("%w: more than %d bytes of headers", errMalformed, maxHeaderBytes)
		}
		if long != nil || errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			part = long
		}
		if err == nil {
			line, ok := bytes.CutSuffix(part, []byte("\r\n"))
			if !ok {
				return nil, fmt.Errorf("%w: line without a carriage return: %.60q", errMalformed, part)
			}
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// discardChunks reads a chunked body (RFC 9112, section 7.1) and its trailers.
func discardChunks(r *bufio.Reader) error {
	for {
		size, err := readChunkSize(r)
		if err != nil {
			return err
		}
		if size == 0 {
			budget := maxHeaderBytes
			return readFields(r, &budget, nil)
		}
		if err := discard(r, size); err != nil {
			return err
		}
		end, err := r.Peek(2)
		if err != nil {
			return err
		}
		if end[0] != '\r' || end[1] != '\n' {
			return fmt.Errorf("%w: chunk of %d bytes goes on with %q", errMalformed, size, end)
		}
		if _, err := r.Discard(2); err != nil {
			return err
		}
	}
}

// readChunkSize reads a line such as "1a;name=value"; extensions are ignored.
func readChunkSize(r *bufio.Reader) (int64, error) {
	budget := maxChunkLine
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(line) > budget {
		return 0, fmt.Errorf("%w: chunk line longer than %d bytes", errMalformed, budget)
	}
	if err != nil {
		return 0, err
	}
	digits, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || !isFieldValue(digits) {
		return 0, fmt.Errorf("%w: chunk line %.60q", errMalformed, line)
	}
	digits, _, _ = bytes.Cut(digits, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	if len(digits) > 15 {
		return 0, fmt.Errorf("%w: chunk size %.60q", errMalformed, digits)
	}
	n, err := strconv.ParseUint(string(digits), 16, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: chunk size %.60q", errMalformed, digits)
	}
	return int64(n), nil
}

func discard(r *bufio.Reader, n int64) error {
	for n > 0 {
		done, err := r.Discard(int(min(n, math.MaxInt32)))
		if err != nil {
			return err
		}
		n -= int64(done)
	}
	return nil
}

func discardToEnd(r *bufio.Reader) error {
	for {
		if _, err := r.Discard(math.MaxInt32); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
