package footprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Read reads a saved footprint: one JSON document, or a record, whose lines
// are one footprint each; of a record it takes the last line that is whole. A
// longer record is read from its end when r can seek.
//
// Fields and owners that are not known are passed over, for both may be added.
// A footprint of another schema is refused, and one that contradicts itself:
// what Read returns adds up.
func Read(r io.Reader) (*Footprint, error) {
	text, err := readEnd(r)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrForeign)
	}
	f, err := Decode(bytes.NewReader(lastWhole(text)))
	if err != nil {
		return nil, err
	}
	if err := f.adds(); err != nil {
		return nil, err
	}
	return f, nil
}

// readEnd reads all of r, or the whole lines at the end of what can seek and
// is longer than maxSaved.
func readEnd(r io.Reader) ([]byte, error) {
	cut := false
	if s, ok := r.(io.Seeker); ok {
		at, err1 := s.Seek(0, io.SeekCurrent)
		end, err2 := s.Seek(0, io.SeekEnd)
		if err1 == nil && err2 == nil { // else a pipe, which only says that it cannot
			cut = end-at > maxSaved
			if cut {
				at = end - maxSaved
			}
			if _, err := s.Seek(at, io.SeekStart); err != nil {
				return nil, err
			}
		}
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSaved+1))
	if err != nil {
		return nil, err
	}
	if cut {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	if len(text) > maxSaved {
		return nil, fmt.Errorf("%w: more than %d MiB; of a record, pass the last line alone (tail -n 1)", ErrForeign, maxSaved>>20)
	}
	return text, nil
}

// lastWhole finds the last whole line of a record. It returns a single document,
// and anything that is no record, unchanged.
func lastWhole(text []byte) []byte {
	if json.Valid(text) {
		return text
	}
	for rest := bytes.TrimRight(text, "\n"); len(rest) > 0; {
		i := bytes.LastIndexByte(rest, '\n')
		// What a killed writer left is passed over.
		if line := rest[i+1:]; isObject(line) && json.Valid(line) {
			return line
		}
		rest = rest[:max(i, 0)]
	}
	return text
}

func isObject(line []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) }

// adds refuses a footprint that contradicts itself.
func (f *Footprint) adds() error {
	left := f.RSSBytes
	for _, r := range f.Rows {
		left -= r.ResidentBytes
	}
	if left != 0 {
		return fmt.Errorf("%w: its rows add up to %d bytes, rssBytes says %d", ErrForeign, f.RSSBytes-left, f.RSSBytes)
	}
	if c := f.Cgroup; c != nil && (c.LimitBytes == nil) != (c.HeadroomBytes == nil) {
		return fmt.Errorf("%w: of limitBytes and headroomBytes it has only one", ErrForeign)
	}
	return nil
}
