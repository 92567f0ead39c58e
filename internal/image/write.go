package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"tare.dev/tare/internal/authorities"
	"tare.dev/tare/internal/docker"
)

// Tag is a name of an image with its tag.
type Tag struct{ tag name.Tag }

// ParseTag reads a name such as shop:1.4 or registry/shop; latest is the tag of one
// without.
func ParseTag(text string) (Tag, error) {
	t, err := name.NewTag(text)
	if err != nil {
		return Tag{}, fmt.Errorf("%.100q is no name of an image: write it as name:tag", text)
	}
	return Tag{t}, nil
}

// String is the name as engines show it: without the registry where that is the
// default one.
func (t Tag) String() string { return t.repository() + ":" + t.tag.TagStr() }

func (t Tag) repository() string {
	if t.tag.RegistryStr() != name.DefaultRegistry {
		return t.tag.RegistryStr() + "/" + t.tag.RepositoryStr()
	}
	return trimLibrary(t.tag.RepositoryStr())
}

func trimLibrary(repository string) string {
	if dir, base := filepath.Split(repository); dir == "library/" {
		return base
	}
	return repository
}

// ToEngine gives the image to an engine, which knows it by its ID from then on.
func (i *Image) ToEngine(ctx context.Context, e *docker.Engine) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.writeArchive(w, nil)) }()
	return errors.Join(e.Load(ctx, r), r.Close())
}

// TagIn names an image that an engine has.
func (t Tag) TagIn(ctx context.Context, e *docker.Engine, id string) error {
	return e.Tag(ctx, id, t.repository(), t.tag.TagStr())
}

// ToArchive writes an archive as docker save does.
func (i *Image) ToArchive(file string, t Tag) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".tare-image-*")
	if err != nil {
		return fmt.Errorf("image archive: %w", err)
	}
	err = errors.Join(i.writeArchive(f, []string{t.String()}), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("image archive %s: %w", file, err), remove(f.Name()))
	}
	return nil
}

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeArchive writes the form of docker save, version 1.2 (Docker Image
// Specification, "Combined Image JSON + Filesystem Changeset Format"): a tar archive
// of the configuration, the layers as tar archives, and manifest.json.
func (i *Image) writeArchive(w io.Writer, tags []string) error {
	t := tar.NewWriter(w)
	id, err := digest(i.config)
	if err != nil {
		return err
	}
	m := archiveManifest{Config: id.Hex + ".json", RepoTags: tags}
	if err := writeEntry(t, m.Config, int64(len(i.config)), bytes.NewReader(i.config)); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, l := range i.layers {
		id, err := l.DiffID()
		if err != nil {
			return err
		}
		file := id.Hex + ".tar"
		m.Layers = append(m.Layers, file)
		if written[file] {
			continue
		}
		written[file] = true
		if err := writeLayer(t, file, l); err != nil {
			return err
		}
	}
	text, err := json.Marshal([]archiveManifest{m})
	if err != nil {
		return err
	}
	return errors.Join(writeEntry(t, "manifest.json", int64(len(text)), bytes.NewReader(text)), t.Close())
}

type archiveManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeLayer writes a layer, which is read twice: a tar archive says first how long
// an entry is.
func writeLayer(t *tar.Writer, file string, l v1.Layer) error {
	size := int64(0)
	for _, to := range []func(io.Reader) error{
		func(r io.Reader) (err error) { size, err = io.Copy(io.Discard, r); return err },
		func(r io.Reader) error { return writeEntry(t, file, size, r) },
	} {
		r, err := l.Uncompressed()
		if err != nil {
			return err
		}
		if err := errors.Join(to(r), r.Close()); err != nil {
			return fmt.Errorf("layer %s: %w", file, err)
		}
	}
	return nil
}

func writeEntry(t *tar.Writer, file string, size int64, r io.Reader) error {
	if err := t.WriteHeader(&tar.Header{Name: file, Mode: 0o444, Size: size, ModTime: FileTime}); err != nil {
		return err
	}
	_, err := io.Copy(t, r)
	return err
}

// refName is the annotation of OCI's image layout for the name of an image.
const refName = "org.opencontainers.image.ref.name"

// ToLayout adds the image to a folder in OCI's image layout, which is made where
// there is none. One of the same name there loses its name to this one.
func (i *Image) ToLayout(dir string, t Tag) error {
	p, err := layout.FromPath(dir)
	if err != nil {
		p, err = layout.Write(dir, empty.Index)
	}
	if err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	named := func(d v1.Descriptor) bool { return d.Annotations[refName] == t.String() }
	if err := p.ReplaceImage(i.oci(), named, layout.WithAnnotations(map[string]string{refName: t.String()})); err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	return nil
}

// ErrRegistry says that a registry did not take an image.
var ErrRegistry = errors.New("the registry did not take the image")

// Push gives the image to the registry of its name, with the credentials that docker
// login stored, which are not shown or kept, and returns its digest there.
func (i *Image) Push(ctx context.Context, t Tag) (string, error) {
	authorities.Trust()
	o := i.oci()
	err := remote.Write(t.tag, o, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrRegistry, t.tag.Name(), registryReason(err))
	}
	h, err := o.Digest()
	return h.String(), err
}

// registryReason is what a registry says, without the request, which may hold what
// is secret.
func registryReason(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("it answers %d: docker login stores who you are", answer.StatusCode)
	}
	return fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
}

// oci is the image with a manifest in OCI's format. Layers keep their compressed
// bytes; those that have none are compressed when the manifest is asked for.
func (i *Image) oci() v1.Image {
	o, _ := partial.CompressedToImage(&ociImage{from: i}) // it has no error
	return o
}

type ociImage struct {
	from     *Image
	manifest []byte
}

// RawConfigFile is the configuration.
func (o *ociImage) RawConfigFile() ([]byte, error) { return o.from.config, nil }

// MediaType is that of a manifest in OCI's format.
func (o *ociImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest makes the manifest, once.
func (o *ociImage) RawManifest() ([]byte, error) {
	if o.manifest != nil {
		return o.manifest, nil
	}
	id, err := digest(o.from.config)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: o.from.annotations,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(o.from.config)), Digest: id}, Layers: []v1.Descriptor{}}
	for _, l := range o.from.layers {
		d, err := partial.Descriptor(l)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: ociLayerType(d.MediaType), Size: d.Size, Digest: d.Digest})
	}
	o.manifest, err = json.Marshal(m)
	return o.manifest, err
}

// ociLayerType is the name of the same bytes in OCI's format.
func ociLayerType(t types.MediaType) types.MediaType {
	switch t {
	case types.DockerLayer:
		return types.OCILayer
	case types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer
	}
	return t
}

// LayerByDigest finds a layer, or the configuration.
func (o *ociImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if id, err := digest(o.from.config); err == nil && id == h {
		return partial.ConfigLayer(o)
	}
	for _, l := range o.from.layers {
		if d, err := l.Digest(); err == nil && d == h {
			return l, nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", h)
}

func digest(text []byte) (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(text))
	return h, err
}
