// Package yamlfile reads files in YAML that people write: strictly, bounded, and with
// errors that show the line and the place.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes is the size of the largest file, maxDepth how deep its lists and maps nest.
const (
	MaxBytes = 64 << 10
	maxDepth = 16
)

// Format is a kind of file.
type Format struct {
	// Name is what a file of it is called with its article: "an experiment file".
	Name string
	// Page has an example.
	Page string
}

// Error is a mistake in a file.
type Error struct {
	Name, Message string
	// Excerpt shows the place in the file; it may be empty.
	Excerpt string
}

// Error says what is wrong, and shows where.
func (e *Error) Error() string {
	text := e.Name + ": " + e.Message
	if e.Excerpt != "" {
		text += "\n" + strings.TrimRight(e.Excerpt, "\n")
	}
	return text
}

// Read reads the text of a file of this name. A file that is too large is an *Error.
func (f Format) Read(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return nil, &Error{Name: name, Message: fmt.Sprintf("larger than %d bytes: not %s", MaxBytes, f.Name)}
	}
	return data, nil
}

// Decode reads one document without aliases into a struct: nested, those stand for
// exponentially much. The YAML library panics on some malformed texts; that is no more
// than one more mistake in the file. Its errors are *Error.
func (f Format) Decode(data []byte, name string, into any) (err error) {
	defer func() {
		if recover() != nil {
			err = &Error{Name: name, Message: "the text is no YAML"}
		}
	}()
	if depth(data) > maxDepth {
		return &Error{Name: name, Message: fmt.Sprintf("lists and maps are nested more than %d deep: not %s", maxDepth, f.Name)}
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return f.decodeError(name, err)
	}
	if len(parsed.Docs) > 1 {
		return &Error{Name: name, Message: fmt.Sprintf("%d documents: write each into a file of its own", len(parsed.Docs))}
	}
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if alias := ast.Filter(ast.AliasType, doc); len(alias) > 0 {
			return &Error{Name: name, Message: fmt.Sprintf("[%d] aliases are not read: write the value out", alias[0].GetToken().Position.Line)}
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(into); err != nil {
		return f.decodeError(name, err)
	}
	return nil
}

// depth is at least how deep lists and maps are nested, counting brackets and
// indicators at the start of a line, quoted or not. The YAML library takes time
// that grows with the square of it.
func depth(data []byte) int {
	deepest, open := 0, 0
	for line := range bytes.Lines(data) {
		compact := 0
		for rest := bytes.TrimLeft(line, " "); len(rest) > 1 && (rest[0] == '-' || rest[0] == '?' || rest[0] == ':') && rest[1] == ' '; compact++ {
			rest = bytes.TrimLeft(rest[1:], " ")
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
			deepest = max(deepest, open+compact)
		}
	}
	return deepest
}

func (f Format) decodeError(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return &Error{Name: name, Message: "the file is empty: see " + f.Page + " for an example"}
	}
	text := yaml.FormatError(err, false, true)
	message, excerpt, _ := strings.Cut(text, "\n")
	return &Error{Name: name, Message: message, Excerpt: excerpt}
}

// Mistake is a mistake at a path of a file, such as $.factors[0].name.
func Mistake(data []byte, name, path, format string, args ...any) *Error {
	mistake := &Error{Name: name, Message: fmt.Sprintf(format, args...)}
	p, err := yaml.PathString(path)
	if err != nil {
		return mistake
	}
	node, err := p.ReadNode(bytes.NewReader(data))
	if err != nil || node == nil {
		return mistake
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		mistake.Message = fmt.Sprintf("[%d:%d] %s", t.Position.Line, t.Position.Column, mistake.Message)
	}
	if excerpt, err := p.AnnotateSource(data, false); err == nil {
		mistake.Excerpt = string(excerpt)
	}
	return mistake
}
