package ledger

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

const (
	lockName  = "lock"
	stateName = "ledger.json"
	// maxSegment bounds what is read of one file: none is made larger than the
	// largest segment and one record.
	maxSegment = 1 << 20
)

// state is the file ledger.json: what all rings of a ledger share.
type state struct {
	Format int `json:"format"`
	// ID names the ledger for whoever collects several. It is made at random with
	// the ledger.
	ID string `json:"id"`
	// Next is above every number that was given out: numbers are taken from it in
	// blocks, so that a kill costs numbers and no search.
	Next uint64 `json:"next"`
}

func newState() state { return state{Format: Version, ID: rand.Text(), Next: 1} }

// readState reads the state of the ledger in dir. The error is fs.ErrNotExist
// without one, ErrNewer, or says that the file is damaged.
func readState(dir string) (state, error) {
	var s state
	text, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil || s.ID == "" {
		return s, fmt.Errorf("%s is damaged", filepath.Join(dir, stateName))
	}
	if s.Format > Version {
		return s, fmt.Errorf("ledger %s: format %d is %w: this one reads formats up to %d", dir, s.Format, ErrNewer, Version)
	}
	return s, nil
}

// write replaces the state on the disk, or leaves it as it was.
func (s state) write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, stateName)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	return errors.Join(err, syncFile(dir))
}

// syncFile has the kernel write a file or a folder to the disk. One that is gone
// needs none.
func syncFile(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// stored is a file of a ring.
type stored struct {
	number uint64
	// bytes is its length.
	bytes int64
	// order is smaller for what was written to longer ago.
	order uint64
}

// list lists the rings of the ledger in dir, the files of each by their number.
// The orders are smaller than the number of files.
func list(dir string) (map[ID][]stored, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type file struct {
		id       ID
		stored   stored
		modified int64
	}
	var files []file
	for _, e := range entries {
		id, number, ok := parseFileName(e.Name())
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() {
			continue // not a segment, or removed meanwhile
		}
		files = append(files, file{id, stored{number: number, bytes: info.Size()}, info.ModTime().UnixNano()})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.modified, b.modified) })
	rings := map[ID][]stored{}
	for i, f := range files {
		f.stored.order = uint64(i)
		rings[f.id] = append(rings[f.id], f.stored)
	}
	for _, segments := range rings {
		sort.Slice(segments, func(i, j int) bool { return segments[i].number < segments[j].number })
	}
	return rings, nil
}

// readSegment reads a file of a ring; nil when it was removed meanwhile. The writer
// was at work on it when it is growing: then its end may be a part of a record.
func readSegment(name string) (b []byte, growing bool, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if b, err = io.ReadAll(io.LimitReader(f, maxSegment)); err != nil {
		return nil, false, err
	}
	if growing, err = isWriting(f); err != nil || growing {
		return b, growing, err
	}
	st, err := f.Stat()
	return b, err == nil && st.Size() != int64(len(b)), err
}

// lockWriting says to readers that a file is being written, until it is closed.
// They only ask for the lock (fcntl(2), F_OFD_GETLK), so that none holds up a writer.
// A lock of the write before may be there still: a child that this process forks has
// its descriptor until it runs another program. It says the same to readers.
func lockWriting(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}

func isWriting(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}
