// Package image reads container images, puts layers on top of them, and writes
// them: to a Docker Engine, an OCI layout, an archive, or a registry. All that it is
// not told to change stays as it is, byte for byte (Open Container Initiative, Image
// Format Specification 1.1, "Image Configuration" and "Image Manifest").
package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"tare.dev/tare/internal/docker"
)

// Image is an image: its configuration and its layers.
type Image struct {
	config      []byte
	layers      []v1.Layer
	annotations map[string]string
	close       func() error
}

// ErrNotOneImage says that a file or folder does not hold one image alone.
var ErrNotOneImage = errors.New("does not hold one image")

// FromEngine takes an image from an engine. It lies in a temporary file until Close.
func FromEngine(ctx context.Context, e *docker.Engine, name string) (*Image, error) {
	saved, err := e.Save(ctx, name)
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	f, err := os.CreateTemp("", "tare-image-*.tar")
	if err != nil {
		return nil, fmt.Errorf("image %.100q: %w", name, err)
	}
	_, err = io.Copy(f, saved)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("image %.100q: %w: TMPDIR names the folder of the file", name, err), os.Remove(f.Name()))
	}
	i, err := FromArchive(f.Name())
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	i.close = func() error { return os.Remove(f.Name()) }
	return i, nil
}

// FromArchive reads an archive as docker save writes it, with one image.
func FromArchive(file string) (*Image, error) {
	from, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return nil, fmt.Errorf("image archive %s: %w", file, err)
	}
	return newImage(from, file)
}

// FromLayout reads a folder in OCI's image layout, with one image.
func FromLayout(dir string) (*Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	if len(m.Manifests) != 1 || !m.Manifests[0].MediaType.IsImage() {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, ErrNotOneImage)
	}
	from, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	return newImage(from, dir)
}

func newImage(from v1.Image, name string) (*Image, error) {
	i := &Image{close: func() error { return nil }}
	var err error
	if i.config, err = from.RawConfigFile(); err == nil {
		i.layers, err = from.Layers()
	}
	if err != nil {
		return nil, fmt.Errorf("image in %s: %w", filepath.Base(name), err)
	}
	return i, nil
}

// Over is an image that Put made, whose Close closes its base too.
func (i *Image) Over(base *Image) *Image {
	over := *i
	over.close = func() error { return errors.Join(i.close(), base.close()) }
	return &over
}

// Close removes what FromEngine left. An image that Put made needs its base open.
func (i *Image) Close() error { return i.close() }

// ID is the digest of the image's configuration, as engines name images.
func (i *Image) ID() string {
	h, err := digest(i.config)
	if err != nil {
		return "" // a digest of bytes in memory has no error
	}
	return h.String()
}

// Config is what the configuration says of containers.
func (i *Image) Config() (Config, error) {
	var c struct {
		Architecture, Created string
		Config                Config
	}
	if err := json.Unmarshal(i.config, &c); err != nil {
		return Config{}, fmt.Errorf("configuration of the image: %w", err)
	}
	c.Config.Architecture = c.Architecture
	return c.Config, nil
}

// Config is the part of a configuration that is looked at here.
type Config struct {
	Entrypoint, Cmd, Env []string
	Labels               map[string]string
	// Architecture is as in GOARCH.
	Architecture string `json:"-"`
}

// Size is the sum of the layers' tar archives in bytes. It reads all of them.
func (i *Image) Size() (int64, error) {
	var sum int64
	for _, l := range i.layers {
		r, err := l.Uncompressed()
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(io.Discard, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
