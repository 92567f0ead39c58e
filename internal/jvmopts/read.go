package jvmopts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MaxFile bounds what is read of an argument, options or flags file.
const MaxFile = 1 << 20

// maxOptions bounds how many options are kept, whatever the files hold.
const maxOptions = 1 << 16

// ErrFile says that options are not read from a file: it is too large, or not a
// regular file.
var ErrFile = errors.New("not a file of options")

// ReadFile reads a regular file of at most MaxFile bytes. Anything else is an
// ErrFile: reading a pipe would take its contents from the JVM.
func ReadFile(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrFile, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > MaxFile {
		return nil, fmt.Errorf("%w: %s is larger than 1 MiB", ErrFile, name)
	}
	return b, nil
}

// reader collects the options of an Input and what is wrong with them.
type reader struct {
	in       Input
	problems []error
	count    int
}

func (r *reader) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// since tells whether the JVM is of a feature release or later.
func (r *reader) since(feature int) bool { return r.in.Release.since(feature) }

// file reads a file that an option names; a problem leaves an option that may
// be anything.
func (r *reader) file(name, option string, place Place) (text string, unknown []Option) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.in.Dir, name)
	}
	b, err := r.in.ReadFile(path)
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("%w: %s is larger than 1 MiB", ErrFile, name)
	}
	if err != nil {
		r.problem("%s in %s: %w: nothing can be added to what it may hold; name a readable, regular file", option, place, err)
		return "", []Option{{Text: option, Source: Source{Place: place}, Unknown: true}}
	}
	return string(b), nil
}

// room tells whether one more option may be kept.
func (r *reader) room() bool {
	r.count++
	if r.count == maxOptions+1 {
		r.problem("more than %d options: the others are not considered", maxOptions)
	}
	return r.count <= maxOptions
}
