package ledger

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"time"
)

// ErrNone says that a folder has no ledger.
var ErrNone = errors.New("no ledger")

// Reader reads a ledger, also while an agent writes to it: it sees what was there
// when each call began, less what is removed meanwhile.
type Reader struct {
	dir   string
	state state
}

// OpenReader opens the ledger in a folder. The error is ErrNone when there is
// none, and ErrNewer when a newer tare wrote it.
func OpenReader(dir string) (*Reader, error) {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil && (errors.Is(err, ErrNewer) || errors.Is(err, fs.ErrPermission)) {
		return nil, err
	}
	// With a damaged state the records are whole nonetheless.
	return &Reader{dir, s}, nil
}

// LedgerID names the ledger among others; "" when its state is damaged.
func (r *Reader) LedgerID() string { return r.state.ID }

// Summary is what a ledger has of one JVM.
type Summary struct {
	Process
	// First and Last are the wall times of its oldest and its newest record,
	// LastUptime the time since boot of the newest.
	First      time.Time     `json:"first"`
	Last       time.Time     `json:"last"`
	LastUptime time.Duration `json:"lastUptime"`
	// Ended says that the agent saw its end.
	Ended bool `json:"ended"`
}

// Processes lists the JVMs of the ledger, the one last seen first. It reads the
// ends of each ring alone.
func (r *Reader) Processes() ([]Summary, Damage, error) {
	var damage Damage
	rings, err := list(r.dir)
	if err != nil {
		return nil, damage, err
	}
	var out []Summary
	for id, segments := range rings {
		if id.Machine() {
			continue
		}
		s, err := r.summary(id, segments, &damage)
		if err != nil {
			return nil, damage, err
		}
		if !s.Last.IsZero() {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Summary) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return out, damage, nil
}

// Process is what the ledger has of one JVM, and whether it has anything. It reads the
// ends of its ring alone: those of all rings may be the whole ledger.
func (r *Reader) Process(id ID) (Summary, bool, error) {
	var damage Damage
	rings, err := list(r.dir)
	if err != nil {
		return Summary{}, false, err
	}
	s, err := r.summary(id, rings[id], &damage)
	return s, err == nil && !s.Last.IsZero(), err
}

// summary reads the ends of a ring.
func (r *Reader) summary(id ID, segments []stored, damage *Damage) (s Summary, err error) {
	s.ID = id
	if n := len(segments); n > 1 {
		segments = []stored{segments[0], segments[n-1]}
	}
	for rec := range r.records(id, segments, damage, &err) {
		s.add(rec)
	}
	return s, err
}

func (s *Summary) add(r Record) {
	if r.Start != nil {
		s.Process = *r.Start
	}
	if s.First.IsZero() {
		s.First = r.At
	}
	s.Last, s.LastUptime = r.At, r.Uptime
	s.Ended = r.Event != nil && r.Event.Kind == Ended
}

// Read hands the records of a JVM, or of the machine (the zero ID), to yield in
// the order in which they were written, until yield returns false. It goes past
// damage, and says how much there was. A ring that is not there has no records.
func (r *Reader) Read(id ID, yield func(Record) bool) (Damage, error) {
	var damage Damage
	rings, err := list(r.dir)
	if err != nil {
		return damage, err
	}
	for rec := range r.records(id, rings[id], &damage, &err) {
		if !yield(rec) {
			break
		}
	}
	return damage, err
}

// Since hands the records of all rings whose number is above after to yield, by
// number, until yield returns false. It leaves out the copies of starts. It is for a ledger
// that nobody writes to: rings are read one after the other, and a record that is written
// meanwhile may come without one of a lower number. Who collects a ledger that is written
// to follows it, see Writer.Follow.
func (r *Reader) Since(after uint64, yield func(Record) bool) (Damage, error) {
	var damage Damage
	rings, err := list(r.dir)
	if err != nil {
		return damage, err
	}
	var m merge
	defer func() { m.stop() }()
	for id, segments := range rings {
		m.add(r.records(id, r.notBefore(id, segments, after), &damage, &err), after)
	}
	heap.Init(&m)
	for err == nil && len(m) > 0 {
		if rec := m[0].record; !rec.Again && !yield(rec) {
			break
		}
		m.advance()
	}
	return damage, err
}

// notBefore leaves out the files all of whose records are known to have the number
// after or a smaller one: those before a file that begins with such a number.
func (r *Reader) notBefore(id ID, segments []stored, after uint64) []stored {
	for i := len(segments) - 1; i > 0; i-- {
		b, _, err := readSegment(r.path(id, segments[i]))
		if err != nil {
			continue
		}
		if first, err := parseHeader(b); err == nil && first <= after {
			return segments[i:]
		}
	}
	return segments
}

func (r *Reader) path(id ID, s stored) string { return filepath.Join(r.dir, fileName(id, s.number)) }

// records are the records of some files of a ring.
func (r *Reader) records(id ID, segments []stored, damage *Damage, failed *error) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, s := range segments {
			b, growing, err := readSegment(r.path(id, s))
			going := true
			if err == nil {
				err = decode(b, growing, id, damage, func(rec Record) bool {
					going = yield(rec)
					return going
				})
			}
			if err != nil {
				*failed = fmt.Errorf("ledger %s: %w", r.dir, err)
			}
			if !going || err != nil {
				return
			}
		}
	}
}

// merge is a heap of rings by the number of their next record.
type merge []cursor

type cursor struct {
	record Record
	next   func() (Record, bool)
	stop   func()
}

// add adds a ring from its first record above after on.
func (m *merge) add(records iter.Seq[Record], after uint64) {
	next, stop := iter.Pull(records)
	for {
		rec, ok := next()
		if !ok {
			stop()
			return
		}
		if rec.Seq > after {
			*m = append(*m, cursor{rec, next, stop})
			return
		}
	}
}

// advance takes the next record of the foremost ring.
func (m *merge) advance() {
	var ok bool
	if (*m)[0].record, ok = (*m)[0].next(); ok {
		heap.Fix(m, 0)
		return
	}
	heap.Pop(m).(cursor).stop()
}

func (m merge) stop() {
	for _, c := range m {
		c.stop()
	}
}

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].record.Seq < m[j].record.Seq }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push adds a ring.
func (m *merge) Push(x any) { *m = append(*m, x.(cursor)) }

// Pop takes the last ring.
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
