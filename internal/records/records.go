// Package records keeps what was measured in a file, one JSON object a line, so
// that a measurement that was cut off goes on where it stopped. One process at a
// time writes to such a file. What is kept in the tree is packed: compressed by gzip.
package records

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const maxLine = 1 << 20 // bytes

// Packed is how the name of a packed file ends.
const Packed = ".gz"

// ErrInUse says that another process writes to a file.
var ErrInUse = errors.New("another process writes to it")

// File is a file that is appended to.
type File struct{ file *os.File }

// Open opens a file to go on with it, and makes it, with its folder, where there is
// none. It calls add with each line; the error of add names the line. A last line
// that a kill cut off is removed. The error is ErrInUse while another File of that
// name is open.
func Open(name string, add func(line []byte) error) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if err := goOn(f, name, add); err != nil {
		f.Close()
		return nil, err
	}
	return &File{f}, nil
}

func goOn(f *os.File, name string, add func(line []byte) error) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", name, ErrInUse)
	}
	whole, err := read(f, name, add)
	if err != nil {
		return err
	}
	return f.Truncate(whole)
}

// Name is the name that the file was opened by.
func (f *File) Name() string { return f.file.Name() }

// Append writes a record through to the disk.
func (f *File) Append(record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.file.Sync()
}

// Clear removes all lines.
func (f *File) Clear() error { return f.file.Truncate(0) }

// Close closes the file, for another process to write to it.
func (f *File) Close() error { return f.file.Close() }

// Read calls add with each line; name is for errors. A last line without a line end
// was cut off, and is left out.
func Read(in io.Reader, name string, add func(line []byte) error) error {
	_, err := read(in, name, add)
	return err
}

// ReadFile reads a file, packed or not; one that is not there has no line.
func ReadFile(name string, add func(line []byte) error) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !strings.HasSuffix(name, Packed) {
		return Read(f, name, add)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return Read(z, name, add)
}

// Pack writes the lines of files, one file after the other, to a packed file, which may
// be one of them.
func Pack(to string, from ...string) error {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, name := range from {
		if err := ReadFile(name, func(line []byte) error { _, err := z.Write(line); return err }); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", out.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// Into is an add for Open and Read that decodes each line.
func Into[T any](add func(T)) func(line []byte) error {
	return func(line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%w: mend or remove the line", err)
		}
		add(v)
		return nil
	}
}

// read returns also the length of the whole lines.
func read(in io.Reader, name string, add func(line []byte) error) (whole int64, err error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err == nil {
			err = add(line)
		}
		if err != nil {
			return 0, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		whole += int64(len(line))
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("line of more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
