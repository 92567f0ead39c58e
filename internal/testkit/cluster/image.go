package cluster

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"tare.dev/tare/internal/testkit/dockertest"
)

// Image is an image that the node is to have, made of files of this machine and of the
// libraries that programs among them need. No registry is asked: pods say
// imagePullPolicy Never, or IfNotPresent.
type Image struct {
	// Name has a tag that is not latest, or the kubelet would ask a registry.
	Name       string
	Entrypoint []string
	Env        []string
	// Files are files and folders of this machine by their paths in the image.
	Files map[string]string
}

// write writes the image as an archive of docker save, which containerd imports.
func (i Image) write(dir string) error {
	root, err := os.CreateTemp(dir, "root-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(root.Name())
	buffered := bufio.NewWriterSize(root, 1<<20)
	if err := errors.Join(dockertest.WriteRoot(buffered, i.Files), buffered.Flush(), root.Close()); err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(root.Name())
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config := v1.Config{Entrypoint: i.Entrypoint, Env: append([]string{"PATH=/usr/bin:/bin:/jdk/bin"}, i.Env...), WorkingDir: "/"}
	if made, err = mutate.ConfigFile(made, &v1.ConfigFile{Architecture: "amd64", OS: "linux", Config: config, RootFS: v1.RootFS{Type: "layers", DiffIDs: mustDiffIDs(layer)}}); err != nil {
		return err
	}
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(i.Name)+".tar"), tag, made)
}

func mustDiffIDs(layer v1.Layer) []v1.Hash {
	id, err := layer.DiffID()
	if err != nil {
		panic(err) // of a file that was written a moment ago
	}
	return []v1.Hash{id}
}
