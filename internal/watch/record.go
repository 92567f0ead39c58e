package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"tare.dev/tare/internal/footprint"
)

// Record appends footprints to a file, one line of JSON each.
//
// A line is one write at the end of the file, so that several may record into
// one. A writer that is killed leaves at most its last line torn; who opens
// the record next ends that line.
//
// A line is on the disk when Append returns, and a record has a bound: a watch
// that nobody ends must not fill a disk.
type Record struct {
	file *os.File
	left int64 // bytes that it may still grow by
	most int64
	sync bool // the file is a file, not a pipe or a terminal
}

// maxRecord bounds a record: some hundred thousand footprints, four days of one a
// second.
const maxRecord = 4 << 30

// OpenRecord opens or makes the record at path. A file that holds anything
// else is refused.
func OpenRecord(path string) (*Record, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, recordError(err)
	}
	if err := endTornLine(file); err != nil {
		file.Close()
		return nil, recordError(err)
	}
	st, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, recordError(err)
	}
	r := &Record{file: file, most: maxRecord, left: maxRecord, sync: st.Mode().IsRegular()}
	if r.sync {
		r.left -= st.Size()
	}
	return r, nil
}

// recordError says what was to be done; the error itself names the file.
func recordError(err error) error { return fmt.Errorf("cannot record: %w", err) }

// beginning is how every line of a record begins.
const beginning = `{"schema":"tare.footprint/`

// endTornLine ends the last line of a record that has no end.
func endTornLine(file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	size := st.Size()
	if !st.Mode().IsRegular() || size == 0 {
		return nil // a pipe or a terminal has nothing to end
	}
	head := make([]byte, min(size, int64(len(beginning))))
	if _, err := file.ReadAt(head, 0); err != nil {
		return err
	}
	if first, _, _ := bytes.Cut(head, []byte("\n")); !bytes.HasPrefix([]byte(beginning), first) || len(first) == 0 {
		return fmt.Errorf("%s holds something else than footprints: name another file", file.Name())
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = file.Write([]byte("\n"))
	return err
}

// Append adds a footprint as one line.
func (r *Record) Append(f *footprint.Footprint) error {
	line, err := json.Marshal(f)
	if err != nil {
		return recordError(err)
	}
	line = append(line, '\n')
	if r.sync && int64(len(line)) > r.left {
		return recordError(fmt.Errorf("%s has %d MiB, which is all that a record may have: name another file", r.file.Name(), r.most>>20))
	}
	if _, err := r.file.Write(line); err != nil {
		return fmt.Errorf("%w\nwhat was recorded before stays readable", recordError(err))
	}
	r.left -= int64(len(line))
	if !r.sync {
		return nil
	}
	if err := r.file.Sync(); err != nil {
		return recordError(err)
	}
	return nil
}

// Close closes the file.
func (r *Record) Close() error { return r.file.Close() }
