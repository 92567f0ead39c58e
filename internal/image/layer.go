package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// FileTime is the time of every file in a layer that is made here, so that the same
// files make the same layer. A class archive holds for jars of one time alone: jars
// get this time before it is trained.
var FileTime = time.Date(1980, 1, 1, 0, 0, 1, 0, time.UTC)

// File is a file of a layer. Root owns it, and all may read it.
type File struct {
	// Path is where it is in the image, absolute and clean.
	Path string
	// Source is the file on this machine that it is a copy of; else it has
	// Content, or is a symbolic link to Link.
	Source  string
	Content []byte
	Link    string
	// Executable files may be run by all.
	Executable bool
}

// Folder are the files below a folder of this machine, as files below at.
func Folder(folder, at string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		rel, err := filepath.Rel(folder, name)
		files = append(files, File{Path: path.Join(at, filepath.ToSlash(rel)), Source: name})
		return err
	})
	return files, err
}

// Layer is a layer of an image and what made it.
type Layer struct {
	v1.Layer
	// CreatedBy is for the history of the image.
	CreatedBy string
	// Bytes is the size of its tar archive.
	Bytes int64
}

// NewLayer makes a layer of files and of the folders that they are in. The same
// files give the same bytes: sorted, of user and group 0, of one time, without
// extended attributes. The sources are read again each time that the layer is
// written, and may not change until then.
func NewLayer(createdBy string, files []File) (Layer, error) {
	sorted, err := withFolders(files)
	if err != nil {
		return Layer{}, err
	}
	c := content{files: sorted}
	r, err := c.Uncompressed()
	if err != nil {
		return Layer{}, err
	}
	var n int64
	c.diffID, n, err = v1.SHA256(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return Layer{}, fmt.Errorf("layer of an image: %w", err)
	}
	l, err := partial.UncompressedToLayer(&c)
	return Layer{l, createdBy, n}, err
}

// entry is a file, or a folder.
type entry struct {
	File
	folder bool
}

// withFolders are files in the order of their paths, each after the folders that
// lead to it.
func withFolders(files []File) ([]entry, error) {
	all := map[string]entry{}
	for _, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
			return nil, fmt.Errorf("layer of an image: %q is no clean absolute path of a file", f.Path)
		}
		if _, twice := all[f.Path]; twice {
			return nil, fmt.Errorf("layer of an image: %s is there twice", f.Path)
		}
		all[f.Path] = entry{File: f}
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			if e, ok := all[dir]; ok && !e.folder {
				return nil, fmt.Errorf("layer of an image: %s is a file and a folder", dir)
			}
			all[dir] = entry{File: File{Path: dir}, folder: true}
		}
	}
	sorted := make([]entry, 0, len(all))
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	return sorted, nil
}

// content is a layer as it lies on a disk.
type content struct {
	files  []entry
	diffID v1.Hash
}

var _ partial.UncompressedLayer = (*content)(nil)

// DiffID is the digest of the tar archive.
func (c *content) DiffID() (v1.Hash, error) { return c.diffID, nil }

// MediaType is that of a layer in OCI's format.
func (c *content) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Uncompressed writes the tar archive while it is read.
func (c *content) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.write(w)) }()
	return r, nil
}

func (c *content) write(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, e := range c.files {
		if err := e.write(t); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return t.Close()
}

func (e entry) write(t *tar.Writer) error {
	h := &tar.Header{Name: strings.TrimPrefix(e.Path, "/"), ModTime: FileTime, Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if e.Executable || e.folder {
		h.Mode = 0o755
	}
	switch {
	case e.folder:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return t.WriteHeader(h)
	case e.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Link, 0o777
		return t.WriteHeader(h)
	case e.Source == "":
		h.Size = int64(len(e.Content))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(t, bytes.NewReader(e.Content))
		return err
	}
	return e.copySource(t, h)
}

func (e entry) copySource(t *tar.Writer, h *tar.Header) error {
	f, err := os.Open(e.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", e.Source)
	}
	h.Size = st.Size()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(t, f, h.Size)
	return err
}
