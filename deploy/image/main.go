// Image makes tare's own container image, for amd64 and arm64, with the list of what it
// is made of (SBOM, CycloneDX 1.6). The same source makes the same bytes.
//
//	go run ./deploy/image -out bin/image
//
// leaves in the folder an OCI image layout of both (oci), an archive of each for docker
// load (tare-ARCH.tar), and each SBOM (tare-ARCH.cdx.json).
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"tare.dev/tare/deploy/licences"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/names"
)

// state is the volume of the image: what tare keeps, and what it gives other containers.
const state = "/var/lib/tare"

func main() {
	out := flag.String("out", "bin/image", "new `folder` for the images")
	name := flag.String("name", "tare:latest", "the image's `name`")
	flag.Parse()
	if err := run(*out, *name, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run makes the images for architectures, by default both.
func run(out, name string, architectures []string) error {
	if len(architectures) == 0 {
		architectures = []string{"amd64", "arm64"}
	}
	tag, err := image.ParseTag(name)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var all []*image.Image
	for _, arch := range architectures {
		i, err := build(out, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		if err := i.ToArchive(filepath.Join(out, "tare-"+arch+".tar"), tag); err != nil {
			return err
		}
		n, err := i.CompressedSize()
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s, %.1f MiB compressed\n", arch, i.ID(), float64(n)/(1<<20))
		all = append(all, i)
	}
	return image.WriteIndex(filepath.Join(out, "oci"), tag, all...)
}

// build makes the image for an architecture.
func build(out, arch string) (*image.Image, error) {
	bin := filepath.Join(out, "programs", arch)
	files := []image.File{{Path: state + "/tmp/.keep"}}
	for _, program := range []string{"tare", "tare-exec"} {
		file := filepath.Join(bin, program)
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w", "-o", file, "./cmd/"+program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build of %s: %w", program, err)
		}
		files = append(files, image.File{Path: "/usr/bin/" + program, Source: file, Executable: true})
	}
	info, err := buildinfo.ReadFile(filepath.Join(bin, "tare"))
	if err != nil {
		return nil, err
	}
	sbom, err := sbomOf(info, arch)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(out, "tare-"+arch+".cdx.json"), sbom, 0o644); err != nil {
		return nil, err
	}
	notices, err := licences.Collect(".", arch, "./cmd/tare", "./cmd/tare-exec")
	if err != nil {
		return nil, fmt.Errorf("licences: %w", err)
	}
	files = append(files, image.File{Path: "/usr/share/tare/sbom.cdx.json", Content: sbom}, image.File{Path: "/usr/share/tare/LICENSE", Source: "LICENSE"},
		image.File{Path: "/usr/share/tare/THIRD-PARTY.txt", Content: licences.Text(notices)})
	layer, err := image.NewLayer("tare", files)
	if err != nil {
		return nil, err
	}
	base, err := image.Scratch(arch, image.Container{Entrypoint: []string{"/usr/bin/tare"}, WorkingDir: state, Volumes: map[string]struct{}{state: {}},
		Env: []string{"PATH=/usr/bin", "HOME=" + state, "TMPDIR=" + state + "/tmp", "TARE_CACHE=" + state + "/cache", "XDG_STATE_HOME=" + state + "/state"}})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"org.opencontainers.image.title": "tare", "org.opencontainers.image.version": names.Version, "org.opencontainers.image.licenses": "Apache-2.0"}
	if revision := setting(info, "vcs.revision"); revision != "" {
		labels["org.opencontainers.image.revision"] = revision
	}
	return base.Put(image.Change{Layers: []image.Layer{layer}, Labels: labels, Annotations: labels})
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// sbomOf lists the modules that a program is made of, as its own build information says.
func sbomOf(info *debug.BuildInfo, arch string) ([]byte, error) {
	component := func(path, version, sum string) cdx.Component {
		purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
		c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
		if sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
		}
		return c
	}
	main := component(info.Main.Path, cmp.Or(info.Main.Version, "(devel)"), "")
	main.Type = cdx.ComponentTypeApplication
	main.Properties = &[]cdx.Property{{Name: "arch", Value: arch}}
	libraries := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		libraries = append(libraries, component(d.Path, d.Version, d.Sum))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &libraries
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	if text.Len() == 0 {
		err = errors.Join(err, errors.New("the SBOM is empty"))
	}
	return text.Bytes(), err
}
