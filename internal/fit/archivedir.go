package fit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Each fit has a folder of its own for class archives and extracted jars: an
// answer names files there, which no later fit may replace. A mark file says that
// tare made the folder. The fit that uses it holds a lock on the mark.
const (
	archiveDirName = "fit-*"
	markName       = ".tare-archives"
	// The mark holds one of these: a folder to be removed when nobody uses it, or
	// one that an answer names, or that a fit needs which can go on.
	markTemporary = "temporary\n"
	markKept      = "kept\n"
)

// ArchiveDir is the folder of a fit's class archives and extracted jars.
type ArchiveDir struct {
	path string
	mark *os.File // locked
}

// MakeArchiveDir makes a new folder below base, and removes those there that
// killed fits left. It is temporary until Keep.
func MakeArchiveDir(base string) (*ArchiveDir, error) {
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	sweepArchiveDirs(base)
	path, err := os.MkdirTemp(base, archiveDirName)
	if err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	// MkdirTemp keeps others out; but they may run what is recommended.
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", errors.Join(err, os.Remove(path)))
	}
	d, err := OpenArchiveDir(path)
	if err == nil {
		err = d.write(markTemporary)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return d, nil
}

// OpenArchiveDir takes the folder of an earlier fit that goes on, which is made
// again where it is gone.
func OpenArchiveDir(path string) (*ArchiveDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	mark, err := lockMark(path, os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("folder for class archives %s: %w", path, err)
	}
	return &ArchiveDir{path, mark}, nil
}

// lockMark opens and locks the mark of a folder.
func lockMark(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, markName), os.O_RDWR|create|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another tare uses it: %w", err), f.Close())
	}
	return f, nil
}

func (d *ArchiveDir) write(text string) error {
	_, err := d.mark.WriteAt([]byte(text), 0)
	if err == nil {
		err = d.mark.Truncate(int64(len(text)))
	}
	if err != nil {
		return fmt.Errorf("folder for class archives %s: %w", d.path, err)
	}
	return nil
}

// Path is the folder.
func (d *ArchiveDir) Path() string { return d.path }

// Keep says that the folder stays after this process.
func (d *ArchiveDir) Keep() error { return d.write(markKept) }

// Close releases the folder, and removes it where nothing is to stay: it is
// temporary, or holds nothing.
func (d *ArchiveDir) Close() error {
	var err error
	if isTemporary(d.mark) || isEmpty(d.path) {
		err = os.RemoveAll(d.path)
	}
	return errors.Join(err, d.mark.Close())
}

func isTemporary(mark *os.File) bool {
	text := make([]byte, len(markTemporary))
	n, _ := mark.ReadAt(text, 0)
	return string(text[:n]) == markTemporary
}

// isEmpty says that a folder holds its mark alone.
func isEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 1
}

// sweepArchiveDirs removes temporary folders that nobody uses. What cannot be
// removed is left: the next fit tries again.
func sweepArchiveDirs(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, archiveDirName)) // the pattern is well-formed
	for _, path := range dirs {
		mark, err := lockMark(path, 0)
		if err != nil {
			continue // no mark, or in use
		}
		if isTemporary(mark) {
			_ = os.RemoveAll(path)
		}
		_ = mark.Close()
	}
}

// RemoveMade removes a class archive or a folder of extracted jars that a killed
// fit was making, and returns the paths that it removed. It removes nothing
// outside of a folder that tare marked as its own.
func RemoveMade(path string) (removed []string, err error) {
	if _, err := os.Lstat(filepath.Join(filepath.Dir(path), markName)); err != nil {
		return nil, nil
	}
	// JEP 514: the AOT configuration is written beside the cache first.
	for _, name := range []string{path, path + ".config"} {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}
