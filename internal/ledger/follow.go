package ledger

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// Follower hands on what is written to a ledger, each record once and in the order
// of the numbers. It belongs to the process that writes.
type Follower struct {
	w      *Writer
	after  uint64
	places map[ID]place
}

// place is where a ring was read up to: the number of a file, and bytes of it.
type place struct {
	file   uint64
	offset int64
}

// Follow follows the ledger from behind a record's number on.
func (w *Writer) Follow(after uint64) *Follower {
	return &Follower{w: w, after: after, places: map[ID]place{}}
}

// LedgerID names the ledger that is followed.
func (f *Follower) LedgerID() string { return f.w.LedgerID() }

// After is the number of the last record that was handed on.
func (f *Follower) After() uint64 { return f.after }

// written is a number that no record which is written later has, nor a smaller one.
func (w *Writer) written() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next - min(w.next, 1)
}

// Next hands what was written before the call to yield, until yield returns false:
// then it goes on with that record in the next call. The copy of a start comes as a
// part of the record behind it. Of the files it reads what is new.
func (f *Follower) Next(yield func(Record) bool) (Damage, error) {
	var damage Damage
	// Rings are read one after the other while others are written to: what is above
	// this number may be seen of one ring and not of another.
	last := f.w.written()
	if last <= f.after {
		return damage, nil
	}
	rings, err := list(f.w.dir)
	if err != nil {
		return damage, fmt.Errorf("ledger %s: %w", f.w.dir, err)
	}
	reached := map[ID]*place{}
	copies := map[ID]*Process{}
	var m merge
	defer func() { m.stop() }()
	for id, segments := range rings {
		at := f.places[id]
		if n := segments[len(segments)-1]; n.number == at.file && n.bytes == at.offset {
			continue
		}
		reached[id] = &at
		n := len(m)
		if m.add(f.rest(id, segments, &at, last, &damage, &err), f.after); len(m) == n {
			f.places[id] = at // all of it was handed on before
		}
	}
	f.forget(rings)
	heap.Init(&m)
	for err == nil && len(m) > 0 {
		rec := m[0].record
		at := *reached[rec.Process] // behind it
		if rec.Again {              // a copy has the number of the record behind it, and comes with that
			copies[rec.Process] = rec.Start
			m.advance()
			continue
		}
		if start := copies[rec.Process]; start != nil && rec.Start == nil {
			rec.Start, rec.Again = start, true
		}
		delete(copies, rec.Process)
		if !yield(rec) {
			break
		}
		f.after, f.places[rec.Process] = rec.Seq, at
		m.advance()
	}
	return damage, err
}

// forget forgets the rings that are gone.
func (f *Follower) forget(rings map[ID][]stored) {
	for id := range f.places {
		if rings[id] == nil {
			delete(f.places, id)
		}
	}
}

// rest are the records of a ring from a place on, up to a number; at follows behind
// the record that was handed out last.
func (f *Follower) rest(id ID, segments []stored, at *place, last uint64, damage *Damage, failed *error) iter.Seq[Record] {
	from := *at
	return func(yield func(Record) bool) {
		for _, s := range segments {
			if s.number < from.file {
				continue
			}
			offset := int64(0)
			if s.number == from.file {
				offset = from.offset
			}
			b, err := readFrom(filepath.Join(f.w.dir, fileName(id, s.number)), offset)
			if err != nil {
				*failed = fmt.Errorf("ledger %s: %w", f.w.dir, err)
				return
			}
			for rec, end := range framed(b, id, damage) {
				if rec.Seq > last {
					return
				}
				*at = place{s.number, offset + int64(end)}
				if !yield(rec) {
					return
				}
			}
		}
	}
}

// readFrom reads a file from an offset on; nothing when it was removed meanwhile.
func readFrom(name string, offset int64) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, offset, maxSegment))
}

// framed are the records of a part of a segment, each with the offset behind it.
// What is behind the last whole record may be one that is being written.
func framed(b []byte, id ID, damage *Damage) iter.Seq2[Record, int] {
	return func(yield func(Record, int) bool) {
		skipped := 0
		for at := 0; at < len(b); {
			if _, err := parseHeader(b[at:]); at == 0 && err == nil {
				at = headerSize
				continue
			}
			payload, ok := frame(b[at:])
			if !ok {
				at++
				skipped++
				continue
			}
			damage.add(skipped)
			skipped = 0
			end, going := at+frameSize+len(payload), true
			_ = decode(b[at:end], false, id, damage, func(r Record) bool { // one frame has no header to be newer
				going = yield(r, end)
				return going
			})
			if at = end; !going {
				return
			}
		}
	}
}
