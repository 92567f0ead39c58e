package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/jarfile"
)

// isPath says that what stands for an image is a file or folder: names of images begin
// with neither a dot nor a slash, and a jar is none.
func isPath(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".jar") || strings.HasSuffix(name, ".tar")
}

// takeIn gives the engine the image that a file or folder is: an archive, an OCI layout, or a
// jar on top of --base. The image is named after it and its own digest, so that the same
// input is the same image, also for a later --from-fit.
func (o *bakeOptions) takeIn(ctx context.Context, stderr io.Writer) error {
	file := o.image
	switch {
	case !isPath(file) && o.base != "":
		return usageError(fmt.Errorf("--base %s is for a jar, and %.100q is an image: leave it out", o.base, file))
	case !isPath(file):
		return nil
	}
	st, err := os.Stat(file)
	if err != nil {
		return usageError(fmt.Errorf("%w: bake takes the name of an image, an archive of docker save, a folder in OCI's image layout, or a jar", err))
	}
	e, err := docker.NewEngine("")
	if err != nil {
		return containerError(err)
	}
	made, err := o.imageOf(ctx, e, file, st)
	if err != nil {
		return err
	}
	defer made.Close()
	tag, err := image.ParseTag("tare-input/" + inputName(file) + ":" + strings.TrimPrefix(made.ID(), "sha256:")[:12])
	if err == nil {
		err = made.ToEngine(ctx, e)
	}
	if err == nil {
		err = tag.TagIn(ctx, e, made.ID())
	}
	if err != nil {
		return containerError(err)
	}
	fmt.Fprintf(stderr, "%s is the image %s in the engine\n", file, tag)
	o.image = tag.String()
	return nil
}

// imageOf reads or makes the image of a file or folder.
func (o *bakeOptions) imageOf(ctx context.Context, e *docker.Engine, file string, st os.FileInfo) (*image.Image, error) {
	if strings.HasSuffix(file, ".jar") {
		return o.imageOfJar(ctx, e, file)
	}
	if o.base != "" {
		return nil, usageError(fmt.Errorf("--base %s is for a jar, and %s is none: leave it out", o.base, file))
	}
	read := image.FromArchive
	if st.IsDir() {
		read = image.FromLayout
	}
	made, err := read(file)
	if err != nil {
		return nil, usageError(err)
	}
	return made, nil
}

// imageOfJar is an image whose command starts a jar.
func (o *bakeOptions) imageOfJar(ctx context.Context, e *docker.Engine, file string) (*image.Image, error) {
	if o.base == "" {
		return nil, usageError(errors.New("a jar needs an image with a JDK below it: name one with --base"))
	}
	if err := checkStarts(file); err != nil {
		return nil, usageError(err)
	}
	base, err := image.FromEngine(ctx, e, o.base)
	if err != nil {
		return nil, containerError(err)
	}
	jar := path.Join("/app", filepath.Base(file))
	layer, err := image.NewLayer("tare bake: jar", []image.File{{Path: jar, Source: file}})
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	made, err := base.Put(image.Change{Layers: []image.Layer{layer}, Entrypoint: []string{"java", "-jar", jar}, Cmd: []string{}})
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return made.Over(base), nil
}

// checkStarts refuses a file that java -jar does not start.
func checkStarts(file string) error {
	jar, err := jarfile.Open(file)
	if err != nil {
		return err
	}
	defer jar.Close()
	m, err := jar.Manifest()
	if err == nil && m["main-class"] == "" {
		err = fmt.Errorf("%s has no Main-Class: java -jar does not start it", file)
	}
	return err
}

// inputName is the name of a file as a repository may have it.
func inputName(file string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".jar"), ".tar")))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	if name = strings.Trim(name, "-"); name == "" {
		return "image"
	}
	return name
}
