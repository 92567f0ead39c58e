// Package outdir writes results into a folder that may hold other people's files
// too: it replaces and removes only what tare made there.
package outdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// ListName is the file in which a folder lists what tare made there.
const ListName = ".tare-files.json"

const (
	listSchema = "tare.files/1"
	maxList    = 1 << 20 // bytes
	// Results hold command lines, which may hold secrets.
	fileMode = 0o600
)

// ForeignError says that a file is in the way: tare did not make it, or it was
// changed since.
type ForeignError struct {
	Path    string
	Changed bool
}

// Error names the file and the next step.
func (e *ForeignError) Error() string {
	if e.Changed {
		return fmt.Sprintf("%s was changed since tare wrote it: move it away, or give another --out", e.Path)
	}
	return fmt.Sprintf("%s is not from tare, and would be replaced: move it away, or give another --out", e.Path)
}

// BusyError says that another process writes to the folder.
type BusyError struct{ Path string }

// Error names the folder and the next step.
func (e *BusyError) Error() string {
	return fmt.Sprintf("another tare writes to %s: wait for its end, or give another --out", e.Path)
}

// Dir is a folder of results, held by this process until Close. Reserve and Write may be
// called from several goroutines.
type Dir struct {
	path string
	lock *os.File
	mu   sync.Mutex // of made, and of the list on disk
	// made are the files that tare made, by name, each with the SHA-256 of its
	// content in hex: empty while it is being written, and of files that are
	// written little by little.
	made map[string]string
}

// list is the content of ListName.
type list struct {
	Schema string            `json:"schema"`
	Files  map[string]string `json:"files"`
}

// Open makes the folder where it is missing, and holds it. Errors: BusyError.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("folder for results: %w", err)
	}
	d := &Dir{path: path, made: map[string]string{}}
	var err error
	if d.lock, err = os.Open(path); err != nil {
		return nil, fmt.Errorf("folder for results: %w", err)
	}
	err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = &BusyError{path}
	case err != nil:
		err = fmt.Errorf("folder for results %s: lock: %w", path, err)
	default:
		err = d.read()
	}
	if err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// Close lets others write to the folder.
func (d *Dir) Close() error { return d.lock.Close() }

// Path is the path of a file in the folder.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Clear removes all that tare made in the folder before. It removes nothing where a
// file was changed since, or where one that tare did not make has a name that
// matches a pattern of those that are about to be written. Errors: ForeignError.
func (d *Dir) Clear(patterns ...string) error {
	names := slices.Sorted(maps.Keys(d.made))
	for _, name := range names {
		if err := d.check(name); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("folder for results: %w", err)
	}
	for _, e := range entries {
		_, made := d.made[e.Name()]
		if !made && slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, e.Name()); return ok }) {
			return &ForeignError{Path: d.Path(e.Name())}
		}
	}
	for _, name := range names {
		if err := os.Remove(d.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("earlier result: %w", err)
		}
	}
	clear(d.made)
	return d.save()
}

// Reserve returns the path of a file that somebody else writes, as tare's from now
// on. It exists, and is empty. Errors: ForeignError.
func (d *Dir) Reserve(name string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(name); err != nil {
		return "", err
	}
	f, err := os.OpenFile(d.Path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return d.Path(name), f.Close()
}

// Write writes a file in one step: on an error the earlier one is left, if there
// was one. Errors: ForeignError.
func (d *Dir) Write(name string, content func(io.Writer) error) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(name); err != nil {
		return err
	}
	if err := replace(d.Path(name), b.Bytes()); err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes())
	d.made[name] = hex.EncodeToString(sum[:])
	return d.save()
}

// begin lists a file that is about to be written: killed in between, tare still
// knows it.
func (d *Dir) begin(name string) error {
	if err := d.check(name); err != nil {
		return err
	}
	d.made[name] = ""
	return d.save()
}

// check fails where a file exists that is not as tare made it.
func (d *Dir) check(name string) error {
	st, err := os.Lstat(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("folder for results: %w", err)
	}
	sum, made := d.made[name]
	if !made || !st.Mode().IsRegular() {
		return &ForeignError{Path: d.Path(name)}
	}
	if sum == "" {
		return nil
	}
	now, err := digest(d.Path(name))
	if err == nil && now != sum {
		err = &ForeignError{Path: d.Path(name), Changed: true}
	}
	return err
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// read reads the list; without one the folder holds nothing of tare.
func (d *Dir) read() error {
	f, err := os.OpenFile(d.Path(ListName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("folder for results: %w", err)
	}
	defer f.Close()
	var l list
	text, err := io.ReadAll(io.LimitReader(f, maxList))
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && l.Schema != listSchema {
		err = fmt.Errorf("schema %.40q: want %s", l.Schema, listSchema)
	}
	for name := range l.Files {
		if name != filepath.Base(name) || name == "." || name == ".." || name == ListName {
			err = errors.Join(err, fmt.Errorf("%.80q is no file of the folder", name))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: remove it if the folder holds nothing to keep, or give another --out", d.Path(ListName), err)
	}
	if l.Files != nil {
		d.made = l.Files
	}
	return nil
}

func (d *Dir) save() error {
	text, err := json.MarshalIndent(list{listSchema, d.made}, "", " ")
	if err != nil {
		return err
	}
	return replace(d.Path(ListName), append(text, '\n'))
}

// replace writes a file in one step.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tare-new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// WriteFile writes a file that the user named, in one step: on an error an earlier
// one is left. Only its owner may read it. A pipe, or anything else that is not a
// regular file, is written to as it is.
func WriteFile(path string, content func(io.Writer) error) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return os.WriteFile(path, b.Bytes(), fileMode)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return replace(path, b.Bytes())
}
