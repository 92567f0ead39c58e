package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// ErrNotWritten says that a training run left something else than a file.
var ErrNotWritten = errors.New("the training run made something else of that name")

// OpenTraining removes an earlier file; the process writes the new one itself.
func (h thisHost) OpenTraining(ctx context.Context, file string) (string, error) {
	return file, h.Remove(ctx, file)
}

// TakeTrained has nothing to take.
func (thisHost) TakeTrained(ctx context.Context, file string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !st.Mode().IsRegular() {
		err = errors.Join(fmt.Errorf("%s: %w", file, ErrNotWritten), os.Remove(file))
	}
	return err
}

// trainedDir is the folder in a shared one that a training run may write to, whatever
// user the image has. Nothing that was written there is read there.
const trainedDir = "trained"

// RunAs tells which user and group the processes of the image run as: training runs
// write as those.
func (d *Docker) RunAs(uid, gid int) { d.uid, d.gid = uid, gid }

// OpenTraining makes a folder that the container may write to.
func (d *Docker) OpenTraining(ctx context.Context, file string) (string, error) {
	if d.dir == "" || filepath.Dir(file) != d.dir {
		return "", fmt.Errorf("%s is in no folder that the containers have", file)
	}
	if err := d.Remove(ctx, file); err != nil {
		return "", err
	}
	dir := filepath.Join(d.dir, trainedDir)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, d.uid, d.gid)); err != nil {
		return "", err
	}
	return path.Join(InImage, trainedDir, filepath.Base(file)), nil
}

// TakeTrained moves what a container made out of its reach. It may be anything: only a
// file with one name is taken.
func (d *Docker) TakeTrained(ctx context.Context, file string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(file), trainedDir)
	made := filepath.Join(dir, filepath.Base(file))
	if _, err := os.Lstat(made); err != nil {
		return os.RemoveAll(dir) // there is none, which is told by the file that is missing
	}
	if err := errors.Join(os.Rename(made, file), os.RemoveAll(dir)); err != nil {
		return err
	}
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, os.Remove(file), fmt.Errorf("%s: %w", file, ErrNotWritten))
	}
	return errors.Join(os.Chown(file, 0, 0), os.Chmod(file, 0o644))
}
