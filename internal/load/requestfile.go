package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

const (
	maxRequestBytes = 16 << 20 // of a request file with the bodies it names
	maxRequests     = 10_000
	maxRequestLine  = 64 << 10
)

// ReadTargets reads requests from a file in the form that editors know as
// ".http" (the HTTP Request in Editor specification,
// https://github.com/JetBrains/http-request-in-editor-spec). It takes this part of it:
//
//	### Anything after three hashes is a title; it separates requests.
//	# A comment, before the body.
//	POST http://localhost:8080/orders HTTP/1.1
//	Content-Type: application/json
//
//	{"id": 1}
//	###
//	PUT http://localhost:8080/picture
//
//	< picture.png
//
// A request line is "[METHOD ]URL[ HTTP/1.1]" with what ParseTarget takes. The
// body goes from the empty line after the headers to the next separator,
// without the line ends around it, and its line ends are line feeds. A body
// that is exactly one line, "< " and a path, is the content of that file,
// byte for byte, which is opened in files (where that is nil, such a body is an
// error). Variables ({{name}}), scripts and URLs of several lines are errors, so that
// they are never sent by accident. There may be 10 000 requests and 16 MiB in all. An
// error names the line.
func ReadTargets(r io.Reader, files fs.FS) ([]Target, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxRequestBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read request file: %w", err)
	}
	if len(data) > maxRequestBytes {
		return nil, fmt.Errorf("request file of more than %d bytes: write a shorter one", maxRequestBytes)
	}
	p := requestParser{rest: data, files: files, budget: maxRequestBytes - len(data)}
	if err := p.file(); err != nil {
		return nil, fmt.Errorf("request file line %d: %w", p.number, err)
	}
	if len(p.targets) == 0 {
		return nil, errors.New("request file has no request: write one, as in \"GET http://localhost:8080/\"")
	}
	return p.targets, nil
}

type requestParser struct {
	rest    []byte
	line    string // the current one, and its number
	number  int
	files   fs.FS
	budget  int // bytes that files may still have
	targets []Target
}

// next makes the next line the current one.
func (p *requestParser) next() bool {
	if len(p.rest) == 0 {
		p.line = ""
		return false
	}
	line, rest, _ := bytes.Cut(p.rest, []byte("\n"))
	p.line, p.rest = string(bytes.TrimSuffix(line, []byte("\r"))), rest
	p.number++
	return true
}

func (p *requestParser) file() error {
	p.rest = bytes.TrimPrefix(p.rest, []byte("\ufeff"))
	for p.next() {
		if strings.TrimSpace(p.line) == "" || isComment(p.line) {
			continue
		}
		if len(p.targets) == maxRequests {
			return fmt.Errorf("more than %d requests: write fewer", maxRequests)
		}
		t, err := parseRequestLine(p.line)
		if err != nil {
			return err
		}
		if t.Header, err = p.header(); err != nil {
			return err
		}
		if !isSeparator(p.line) {
			if t.Body, err = p.body(); err != nil {
				return err
			}
		}
		p.targets = append(p.targets, t)
	}
	return nil
}

func isSeparator(line string) bool { return strings.HasPrefix(line, "###") }

func isComment(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//")
}

func parseRequestLine(line string) (Target, error) {
	if err := checkLine(line); err != nil {
		return Target{}, err
	}
	line = strings.TrimSpace(line)
	if before, version, ok := cutLast(line, " "); ok && strings.HasPrefix(version, "HTTP/") {
		if version != "HTTP/1.1" {
			return Target{}, fmt.Errorf("%.40q: only HTTP/1.1 is spoken: write that or nothing", version)
		}
		line = before
	}
	return ParseTarget(line)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func checkLine(line string) error {
	if len(line) > maxRequestLine {
		return fmt.Errorf("a line of %d bytes: write at most %d", len(line), maxRequestLine)
	}
	if strings.Contains(line, "{{") {
		return fmt.Errorf("%.60q: variables are not supported: write the value", line)
	}
	return nil
}

// header reads up to the empty line, a separator or the end.
func (p *requestParser) header() (http.Header, error) {
	var h http.Header
	for p.next() && strings.TrimSpace(p.line) != "" && !isSeparator(p.line) {
		if isComment(p.line) {
			continue
		}
		if err := checkLine(p.line); err != nil {
			return nil, err
		}
		name, value, found := strings.Cut(p.line, ":")
		if !found || !isToken([]byte(name)) {
			return nil, fmt.Errorf("%.60q is not a header: write \"Name: value\", and an empty line before the body", p.line)
		}
		if h == nil {
			h = http.Header{}
		}
		h.Add(name, strings.Trim(value, " \t"))
	}
	return h, checkHeader(h)
}

// body reads up to a separator or the end.
func (p *requestParser) body() ([]byte, error) {
	var lines []string
	for p.next() && !isSeparator(p.line) {
		if s := p.line; strings.HasPrefix(s, "> {%") || strings.HasPrefix(s, "< {%") || strings.HasPrefix(s, "<@ ") {
			return nil, fmt.Errorf("%.60q: scripts and variables are not supported: remove the line", s)
		}
		lines = append(lines, p.line)
	}
	text := strings.Trim(strings.Join(lines, "\n"), "\n")
	if name, ok := strings.CutPrefix(text, "< "); ok && !strings.Contains(text, "\n") {
		return p.bodyFile(strings.TrimSpace(name))
	}
	if text == "" {
		return nil, nil
	}
	return []byte(text), nil
}

func (p *requestParser) bodyFile(name string) ([]byte, error) {
	clean := path.Clean(name)
	if p.files == nil || !fs.ValidPath(clean) {
		return nil, fmt.Errorf("body file %q: it must lie in the folder of the request file or below, and its path be relative", name)
	}
	f, err := p.files.Open(clean)
	if err != nil {
		return nil, fmt.Errorf("body file %q: %w: name one beside the request file", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(p.budget)+1))
	if err != nil {
		return nil, fmt.Errorf("read body file %q: %w", name, err)
	}
	if p.budget -= len(data); p.budget < 0 {
		return nil, fmt.Errorf("body file %q makes it more than %d bytes in all: send less", name, maxRequestBytes)
	}
	return data, nil
}
