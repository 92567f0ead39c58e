package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/bootjar"
)

// Volume is a folder that this process and another one, of whatever user, both write to
// under one name: class archives and jars are put there before that one starts, and the
// archive that it trained is taken. What is there is as hostile as that process.
type Volume struct{ Dir string }

// Put writes a file that is not there yet, for all to read, with the time of its last
// change, and flushes it to its disk. Where the content cannot be read to its end nothing
// is left.
func (v Volume) Put(ctx context.Context, name string, changed time.Time, content io.Reader) (err error) {
	if err := cmp.Or(ctx.Err(), v.check(name)); err != nil {
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
	return errors.Join(f.Chmod(0o644), f.Sync(), os.Chtimes(name, changed, changed))
}

// PutFile is Put of a copy of a file, under its own name.
func (v Volume) PutFile(ctx context.Context, file string) error {
	f, err := openRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return v.Put(ctx, filepath.Join(v.Dir, filepath.Base(file)), st.ModTime(), f)
}

// TakeApart takes a jar that was put there apart, into a folder there that holds nothing
// yet: bootjar.Extract.
func (v Volume) TakeApart(ctx context.Context, jar, dir string) (string, error) {
	if err := cmp.Or(ctx.Err(), v.check(jar), v.check(dir)); err != nil {
		return "", err
	}
	return bootjar.Extract(jar, dir)
}

// Take opens a file that was trained there. The error wraps fs.ErrNotExist where there is
// none, and ErrNotWritten where something else is in its place.
func (v Volume) Take(ctx context.Context, name string) (*os.File, error) {
	if err := cmp.Or(ctx.Err(), v.check(name)); err != nil {
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
		return fmt.Errorf("%.200q is not in the volume %q: %w", name, v.Dir, ErrNoArchives)
	}
	return nil
}
