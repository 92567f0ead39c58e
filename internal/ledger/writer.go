package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// DefaultBytes is how much disk a ledger takes at most.
	DefaultBytes = 64 << 20
	// MinBytes is the least that it can be told to take.
	MinBytes = 1 << 20
	// A segment is an eighth of what a live JVM may have, within these bounds: a
	// ring loses its oldest part in steps that are small beside it.
	smallestSegment = 8 << 10
	largestSegment  = 256 << 10
	segmentsPerRing = 8
	// block is what a file is taken to fill up to.
	block = 4096
	// openingRoom is what a file takes beside the record that it is made for: its
	// header, the start of the JVM, and the rest of its last block.
	openingRoom = headerSize + frameSize + maxPayload + block
	// numbersAtOnce are taken from the state in a block.
	numbersAtOnce = 1 << 16
)

// Errors of writing. A caller tells them apart with errors.Is.
var (
	// ErrInUse says that another process writes to the ledger.
	ErrInUse = errors.New("another process writes to it")
	// ErrNotStarted says that a record is of a JVM that Start has not told of.
	ErrNotStarted = errors.New("its start was not written")
)

// Writer appends to a ledger. One at a time does. Its methods may be called by
// several goroutines.
//
// A record is in the kernel's hands when Append returns, and outlives the writer's
// end by any signal; it outlives a power loss once Sync has returned. A write that
// fails, as on a full disk, leaves the ledger as it was before.
type Writer struct {
	mu    sync.Mutex
	dir   string
	bytes int64 // that all files may have
	dead  int64 // of them, what the dead may keep however much the live want
	lock  *os.File
	state state
	next  uint64
	rings map[ID]*ring
	// taken is what all files fill, takenDead those of JVMs that are gone.
	taken, takenDead int64
	live             int
	unsynced         map[string]bool
	lost             int64
}

// ring is the files of one JVM, or of the machine.
type ring struct {
	id       ID
	live     bool
	segments []stored
	// open says that the last segment can be appended to.
	open  bool
	start *Process
}

// Create opens the ledger in a folder for writing, and makes one where there is
// none; bytes bounds what its files may fill, 0 is DefaultBytes. A quarter of it is
// kept for JVMs that are gone. The error is ErrInUse while another writer has it,
// and ErrNewer when a newer tare wrote it.
func Create(dir string, bytes int64) (*Writer, error) {
	if bytes == 0 {
		bytes = DefaultBytes
	}
	if bytes < MinBytes {
		return nil, fmt.Errorf("a ledger of %d bytes is too small: give at least %d MiB", bytes, MinBytes>>20)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("ledger %s: %w", dir, ErrInUse)
	}
	w := &Writer{dir: dir, bytes: bytes, dead: bytes / 4, lock: lock, rings: map[ID]*ring{}, unsynced: map[string]bool{}}
	if err := w.goOn(); err != nil {
		lock.Close()
		return nil, err
	}
	return w, nil
}

// goOn takes up what the folder has.
func (w *Writer) goOn() error {
	files, err := list(w.dir)
	if err != nil {
		return err
	}
	for id, segments := range files {
		r := &ring{id: id, live: id.Machine(), segments: segments}
		w.rings[id] = r
		w.count(r, total(segments))
	}
	w.live = 1
	if err := w.takeState(); err != nil {
		return err
	}
	return w.makeRoom(0)
}

// takeState takes up the numbers. Where their file is missing or damaged, the
// records tell.
func (w *Writer) takeState() error {
	s, err := readState(w.dir)
	if errors.Is(err, ErrNewer) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err != nil {
		s = newState()
		r := &Reader{dir: w.dir}
		// Damage is no error: numbers that nobody can read are free.
		if _, err := r.Since(0, func(rec Record) bool { s.Next = max(s.Next, rec.Seq+1); return true }); err != nil {
			return err
		}
	}
	w.state, w.next = s, s.Next
	return nil
}

func total(segments []stored) (n int64) {
	for _, s := range segments {
		n += onDisk(s.bytes)
	}
	return n
}

// onDisk is what a file of n bytes fills.
func onDisk(n int64) int64 { return (n + block - 1) / block * block }

// count counts what a ring takes more, or less.
func (w *Writer) count(r *ring, n int64) {
	w.taken += n
	if !r.live {
		w.takenDead += n
	}
}

// LedgerID names the ledger among others.
func (w *Writer) LedgerID() string { return w.state.ID }

// Lost is how many records could not be written.
func (w *Writer) Lost() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Bytes is what the files of the ledger fill.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// Append writes a record of the machine, or of a JVM whose Start it is or was
// written by this writer. It sets Seq. An error says that the record is lost; those
// after it may be written again.
func (w *Writer) Append(rec Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.append(&rec)
	if err != nil {
		w.lost++
		err = fmt.Errorf("ledger %s: %w", w.dir, err)
	}
	return err
}

func (w *Writer) append(rec *Record) error {
	r, err := w.ringOf(rec)
	if err != nil {
		return err
	}
	if err := w.number(rec); err != nil {
		return err
	}
	b, err := appendRecord(nil, rec)
	if err != nil {
		return err
	}
	if err := w.makeRoom(int64(len(b)) + openingRoom); err != nil {
		return err
	}
	n := len(r.segments)
	if !r.open || n == 0 || r.segments[n-1].bytes+int64(len(b)) > w.segmentBytes() {
		if b, err = r.opening(rec, b); err != nil {
			return err
		}
		r.open = false
	}
	if err := w.write(r, b, rec.Seq); err != nil {
		return err
	}
	if rec.Event != nil && rec.Event.Kind == Ended {
		w.bury(r)
	}
	return nil
}

// ringOf is the ring that a record goes to.
func (w *Writer) ringOf(rec *Record) (*ring, error) {
	r := w.rings[rec.Process]
	if r == nil && (rec.Start != nil || rec.Process.Machine()) {
		r = &ring{id: rec.Process, live: rec.Process.Machine()}
		w.rings[rec.Process] = r
	}
	if rec.Start != nil {
		if rec.Start.ID != rec.Process {
			return nil, fmt.Errorf("the start of %s is written as one of %s", rec.Start.ID, rec.Process)
		}
		r.start = rec.Start
		w.revive(r)
	}
	if r == nil || !r.live {
		return nil, fmt.Errorf("%s: %w", rec.Process, ErrNotStarted)
	}
	return r, nil
}

// revive and bury move a ring from the dead to the live, and back.
func (w *Writer) revive(r *ring) {
	if !r.live {
		w.takenDead -= total(r.segments)
		w.live++
		r.live = true
	}
}

func (w *Writer) bury(r *ring) {
	if r.live && !r.id.Machine() {
		r.live, r.open, r.start = false, false, nil
		w.live--
		w.takenDead += total(r.segments)
	}
}

// number gives a record its number.
func (w *Writer) number(rec *Record) error {
	if w.next >= w.state.Next || w.next == 0 {
		s := w.state
		s.Next = max(w.next, 1) + numbersAtOnce
		if err := s.write(w.dir); err != nil {
			return err
		}
		w.state = s
	}
	rec.Seq = w.next
	w.next++
	return nil
}

// opening puts before a record what a segment begins with.
func (r *ring) opening(rec *Record, frame []byte) ([]byte, error) {
	b := appendHeader(nil, rec.Seq)
	if rec.Start == nil && r.start != nil {
		var err error
		again := Record{Seq: rec.Seq, At: rec.At, Uptime: rec.Uptime, Start: r.start, Again: true}
		if b, err = appendRecord(b, &again); err != nil {
			return nil, err
		}
	}
	return append(b, frame...), nil
}

// segmentBytes is how large a segment becomes with so many live rings.
func (w *Writer) segmentBytes() int64 {
	share := (w.bytes - w.dead) / int64(max(1, w.live)) / segmentsPerRing
	return max(smallestSegment, min(share, largestSegment))
}

// write writes b to the last segment of a ring, or to a new one.
func (w *Writer) write(r *ring, b []byte, order uint64) error {
	flags := os.O_WRONLY | os.O_APPEND
	if !r.open {
		number := uint64(1)
		if n := len(r.segments); n > 0 {
			number = r.segments[n-1].number + 1
		}
		flags |= os.O_CREATE | os.O_EXCL
		r.segments = append(r.segments, stored{number: number})
	}
	last := &r.segments[len(r.segments)-1]
	name := filepath.Join(w.dir, fileName(r.id, last.number))
	if err := appendFile(name, flags, last.bytes, b); err != nil {
		w.giveUp(r, name)
		return err
	}
	w.count(r, onDisk(last.bytes+int64(len(b)))-onDisk(last.bytes))
	last.bytes += int64(len(b))
	last.order = order
	r.open = true
	w.unsynced[name] = true
	return nil
}

// appendFile writes all of b behind the first size bytes of a file, or leaves
// those alone. It opens the file each time: a machine may have more JVMs than a
// process may have files.
func appendFile(name string, flags int, size int64, b []byte) error {
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return err
	}
	if err = lockWriting(f); err == nil {
		if _, err = f.Write(b); err != nil {
			err = errors.Join(err, f.Truncate(size))
		}
	}
	return errors.Join(err, f.Close())
}

// giveUp leaves a segment after a write that failed: what is written next goes to
// a new one, whatever is at the end of this one.
func (w *Writer) giveUp(r *ring, name string) {
	r.open = false
	if last := r.segments[len(r.segments)-1]; last.bytes == 0 {
		r.segments = r.segments[:len(r.segments)-1]
		os.Remove(name) // if it was made; if this fails, it is an empty file that no reader minds
	}
}

// makeRoom removes the oldest segments until n bytes more fit.
func (w *Writer) makeRoom(n int64) error {
	for w.taken+n > w.bytes {
		r := w.oldest(w.takenDead > w.dead)
		if r == nil {
			if r = w.oldest(w.takenDead <= w.dead); r == nil {
				return nil
			}
		}
		if err := w.removeFirst(r); err != nil {
			return err
		}
	}
	return nil
}

// oldest is the ring, of the dead or of the live, whose first segment was written
// to longest ago; nil without one.
func (w *Writer) oldest(dead bool) *ring {
	var found *ring
	least := uint64(math.MaxUint64)
	for _, r := range w.rings {
		if r.live != dead && len(r.segments) > 0 && r.segments[0].order < least {
			found, least = r, r.segments[0].order
		}
	}
	return found
}

func (w *Writer) removeFirst(r *ring) error {
	name := filepath.Join(w.dir, fileName(r.id, r.segments[0].number))
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(w.unsynced, name)
	w.count(r, -onDisk(r.segments[0].bytes))
	r.segments = r.segments[1:]
	if len(r.segments) == 0 {
		r.open = false
		if !r.live {
			delete(w.rings, r.id)
		}
	}
	return nil
}

// Sync returns when all that was appended before is on the disk.
func (w *Writer) Sync() error {
	w.mu.Lock()
	names := w.unsynced
	w.unsynced = map[string]bool{}
	w.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	err := syncFile(w.dir)
	for name := range names {
		err = errors.Join(err, syncFile(name))
	}
	return err
}

// SyncProcess returns when what was appended of a JVM before is on the disk.
func (w *Writer) SyncProcess(id ID) error {
	w.mu.Lock()
	var names []string
	if r := w.rings[id]; r != nil {
		for _, s := range r.segments {
			if name := filepath.Join(w.dir, fileName(id, s.number)); w.unsynced[name] {
				names = append(names, name)
				delete(w.unsynced, name)
			}
		}
	}
	w.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	err := syncFile(w.dir)
	for _, name := range names {
		err = errors.Join(err, syncFile(name))
	}
	return err
}

// Close writes what there is to the disk, and lets another writer begin.
func (w *Writer) Close() error {
	err := w.Sync()
	return errors.Join(err, w.lock.Close())
}
