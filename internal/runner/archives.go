package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/cachedir"
)

// ErrNoArchives says that a host and the processes on it have no folder in common.
var ErrNoArchives = errors.New("trials have no folder for them")

// Archives is a folder of a host for the class archives and extracted jars of one fit:
// an answer names files there, which no later fit may replace. It is temporary until
// Keep.
type Archives interface {
	// Dir is the folder as the host names it, Inside as the processes on it do.
	Dir() string
	Inside() string
	// Keep says that the folder stays after Close, and after the end of this process.
	Keep(ctx context.Context) error
	// Close lets others have the folder, and removes it where nothing is to stay: it is
	// temporary, or holds nothing.
	Close() error
}

// NoArchives is of hosts that have no folder in common with the processes on them.
type NoArchives struct{}

// MakeArchives cannot be done.
func (NoArchives) MakeArchives(context.Context, string) (Archives, error) { return nil, ErrNoArchives }

// OpenArchives cannot be done.
func (NoArchives) OpenArchives(context.Context, string) (Archives, error) { return nil, ErrNoArchives }

// RemoveMade finds nothing.
func (NoArchives) RemoveMade(context.Context, string) ([]string, error) { return nil, nil }

// OpenTraining cannot be done.
func (NoArchives) OpenTraining(_ context.Context, file string) (string, error) {
	return "", fmt.Errorf("class archive %s: %w", file, ErrNoArchives)
}

// TakeTrained has nothing to take.
func (NoArchives) TakeTrained(context.Context, string) error { return nil }

// Extract cannot be done.
func (NoArchives) Extract(_ context.Context, jar, _ string) (string, error) {
	return "", fmt.Errorf("jar %s: %w", jar, ErrNoArchives)
}

// A mark file says that tare made the folder. The fit that uses it holds a lock on the
// mark.
const (
	archiveDirName = "fit-*"
	markName       = ".tare-archives"
	// The mark holds one of these: a folder to be removed when nobody uses it, or
	// one that an answer names, or that a fit needs which can go on.
	markTemporary = "temporary\n"
	markKept      = "kept\n"
)

// archiveDir is a folder of this machine.
type archiveDir struct {
	path string
	mark *os.File // locked
}

// MakeArchives makes the folder in base, or in tare's cache.
func (h thisHost) MakeArchives(ctx context.Context, base string) (Archives, error) {
	if base == "" {
		cache, err := cachedir.Path()
		if err != nil {
			return nil, fmt.Errorf("folder for class archives: %w", err)
		}
		base = filepath.Join(cache, "archives")
	}
	if err := errors.Join(ctx.Err(), os.MkdirAll(base, 0o755)); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	sweepArchives(base)
	path, err := os.MkdirTemp(base, archiveDirName)
	if err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	// MkdirTemp keeps others out; but they may run what is recommended.
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", errors.Join(err, os.Remove(path)))
	}
	d, err := openArchives(path)
	if err == nil {
		err = d.write(markTemporary)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return d, nil
}

// OpenArchives takes a folder of this machine.
func (thisHost) OpenArchives(ctx context.Context, dir string) (Archives, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := openArchives(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func openArchives(path string) (*archiveDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("folder for class archives: %w", err)
	}
	mark, err := lockMark(path, os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("folder for class archives %s: %w", path, err)
	}
	return &archiveDir{path, mark}, nil
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

func (d *archiveDir) write(text string) error {
	_, err := d.mark.WriteAt([]byte(text), 0)
	if err == nil {
		err = d.mark.Truncate(int64(len(text)))
	}
	if err != nil {
		return fmt.Errorf("folder for class archives %s: %w", d.path, err)
	}
	return nil
}

func (d *archiveDir) Dir() string { return d.path }

func (d *archiveDir) Inside() string { return d.path }

func (d *archiveDir) Keep(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.write(markKept)
}

func (d *archiveDir) Close() error {
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

// sweepArchives removes temporary folders that nobody uses. What cannot be removed is
// left: the next fit tries again.
func sweepArchives(base string) {
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

// RemoveMade removes nothing outside of a folder that tare marked as its own.
func (thisHost) RemoveMade(ctx context.Context, path string) (removed []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
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

// InImage is the folder that the processes of an image know its Archives by. An
// image that is to have what was made there has it there as well: an archive holds for
// jars of one path alone.
const InImage = "/tare"

// ImageArchives is the part of a Host whose processes are in an image: its Archives are a
// folder of this machine, which the processes that are started from then on have as
// InImage.
type ImageArchives struct{ dir string }

// sharedArchives is a folder of this machine that processes in an image have.
type sharedArchives struct{ Archives }

func (sharedArchives) Inside() string { return InImage }

// MakeArchives makes the folder as ThisHost does.
func (i *ImageArchives) MakeArchives(ctx context.Context, base string) (Archives, error) {
	return i.share(thisHost{}.MakeArchives(ctx, base))
}

// OpenArchives takes the folder of an earlier fit as ThisHost does.
func (i *ImageArchives) OpenArchives(ctx context.Context, dir string) (Archives, error) {
	return i.share(thisHost{}.OpenArchives(ctx, dir))
}

// RemoveMade removes what was being made in a folder of this machine.
func (*ImageArchives) RemoveMade(ctx context.Context, path string) ([]string, error) {
	return thisHost{}.RemoveMade(ctx, path)
}

func (i *ImageArchives) share(a Archives, err error) (Archives, error) {
	if err != nil {
		return nil, err
	}
	i.dir = a.Dir()
	return sharedArchives{a}, nil
}

// Shared is the folder of this machine; "" before there is one.
func (i *ImageArchives) Shared() string { return i.dir }

// Has says that a file of this machine is in the folder.
func (i *ImageArchives) Has(file string) bool {
	return i.dir != "" && strings.HasPrefix(filepath.Clean(file), i.dir+"/")
}
