package store

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A fit under way is locked, by its number as the offset of one byte in a file
// beside the database, with an open file description lock (fcntl(2),
// F_OFD_SETLK): the kernel releases it however the process ends.

// lock is a held lock.
type lock struct{ file *os.File }

// acquire takes the lock of a fit; ok is false when another process, or another
// lock of this one, has it.
func (s *Store) acquire(id int64) (l lock, ok bool, err error) {
	f, err := os.OpenFile(s.locks.Name(), os.O_RDWR, 0)
	if err != nil {
		return lock{}, false, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, byteOf(id, unix.F_WRLCK))
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return lock{}, false, f.Close()
	}
	if err != nil {
		return lock{}, false, errors.Join(fmt.Errorf("lock of fit %d: %w", id, err), f.Close())
	}
	return lock{f}, true, nil
}

// locked tells whether somebody holds the lock of a fit.
func (s *Store) locked(id int64) (bool, error) {
	l := byteOf(id, unix.F_RDLCK)
	if err := unix.FcntlFlock(s.locks.Fd(), unix.F_OFD_GETLK, l); err != nil {
		return false, fmt.Errorf("lock of fit %d: %w", id, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

func (l lock) release() error { return l.file.Close() }

func byteOf(id int64, kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: id, Len: 1}
}
