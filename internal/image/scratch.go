package image

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Container is how containers of an image that is begun here start.
type Container struct {
	Entrypoint []string            `json:",omitempty"`
	Env        []string            `json:",omitempty"`
	WorkingDir string              `json:",omitempty"`
	Volumes    map[string]struct{} `json:",omitempty"`
}

// Scratch is an image of no layers, for Put. Its time of creation is FileTime.
func Scratch(architecture string, c Container) (*Image, error) {
	config, err := json.Marshal(map[string]any{"architecture": architecture, "os": "linux", "created": FileTime, "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{}}, "history": []any{}})
	return &Image{config: config, close: func() error { return nil }}, err
}

// WriteIndex writes one image for several architectures as a new folder in OCI's image
// layout.
func WriteIndex(dir string, t Tag, images ...*Image) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		c, err := i.Config()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i.oci(), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: c.Architecture}}})
	}
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: t.String()}))
	}
	if err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	return nil
}

// CompressedSize is what a registry sends of the image: its layers, compressed.
func (i *Image) CompressedSize() (n int64, err error) {
	for _, l := range i.layers {
		size, err := l.Size()
		if err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}
