package fit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// InImage is where a fit's folder of class archives and extracted jars is in the
// containers of an image. An image that is to have them has them there as well: an
// archive holds for jars of one path alone.
const InImage = "/tare"

// trainedDir is the folder in InImage that a training run may write to, whatever user
// the image has. Nothing that was written there is read there.
const trainedDir = "trained"

// inside is the path that the application knows a file of the folder of archives by.
func (c Config) inside(file string) string {
	rel, err := filepath.Rel(c.ArchiveDir, file)
	if c.Image == nil || err != nil {
		return file
	}
	return path.Join(InImage, filepath.ToSlash(rel))
}

// outside is the path on this machine of a file that a setup names.
func (c Config) outside(file string) string {
	if c.Image == nil {
		return file
	}
	return Outside(c.ArchiveDir, file)
}

// Outside is the path on this machine of a file that the setup of a fit of an image
// names; dir is the fit's folder of archives.
func Outside(dir, file string) string {
	rel, ok := strings.CutPrefix(file, InImage+"/")
	if !ok {
		return file
	}
	return filepath.Join(dir, filepath.FromSlash(rel))
}

// openTraining makes the folder that a training run in a container writes to, and
// returns the path in there of the file that it is to make.
func (c Config) openTraining(file string) (string, error) {
	dir := filepath.Join(c.ArchiveDir, trainedDir)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, c.Image.UID, c.Image.GID)); err != nil {
		return "", err
	}
	return path.Join(InImage, trainedDir, filepath.Base(file)), nil
}

// takeTrained moves what a training run in a container made out of its reach. It may
// be anything: only a file with one name is taken.
func (c Config) takeTrained(file string) error {
	dir := filepath.Join(c.ArchiveDir, trainedDir)
	made := filepath.Join(dir, filepath.Base(file))
	if _, err := os.Lstat(made); err != nil {
		return os.RemoveAll(dir) // there is none, which is told by the file that is missing
	}
	if err := errors.Join(os.Rename(made, file), os.RemoveAll(dir)); err != nil {
		return err
	}
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, os.Remove(file), fmt.Errorf("%w: the training run made something else of that name", ErrNoArchive))
	}
	return errors.Join(os.Chown(file, 0, 0), os.Chmod(file, 0o644))
}
