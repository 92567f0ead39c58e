package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Volume is a folder that this process and one elsewhere, of whatever user, both write to
// under one name: class archives are put there before that one starts, and those that it
// trained are taken. What is there is as hostile as that process.
type Volume struct{ Dir string }

// Put writes a file that is not there yet, for all to read, and flushes it to its disk.
// Where the content cannot be read to its end nothing is left.
func (v Volume) Put(ctx context.Context, name string, content io.Reader) (err error) {
	if err := errors.Join(ctx.Err(), v.check(name)); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	if _, err := io.Copy(f, ctxReader{ctx, content}); err != nil {
		return err
	}
	// Dirty pages cannot be dropped from the page cache, and whoever reads them is not
	// charged for them (Cold).
	return errors.Join(f.Chmod(0o644), f.Sync())
}

// Take opens a file that was trained there. The error wraps fs.ErrNotExist where there is
// none, and ErrNotWritten where something else is in its place.
func (v Volume) Take(ctx context.Context, name string) (*os.File, error) {
	if err := errors.Join(ctx.Err(), v.check(name)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link, or a socket
		return nil, fmt.Errorf("%s: %w", name, ErrNotWritten)
	}
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s: %w", name, ErrNotWritten))
	}
	return f, nil
}

// check says that a name is not directly in the folder.
func (v Volume) check(name string) error {
	if v.Dir == "" || filepath.Dir(name) != v.Dir || filepath.Clean(name) != name {
		return fmt.Errorf("%.200q is not in the volume %s", name, v.Dir)
	}
	return nil
}
