package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/names"
)

// nfpm makes packages of Debian and Fedora. It is run and not linked, so that what it is
// made of is no part of this module.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4"

const summary = "Where every resident page of a JVM goes, and how little memory it needs"

// content is a file of a package, as nfpm reads it: nfpm.goreleaser.com/configuration.
type content struct {
	Source string `json:"src,omitempty"`
	To     string `json:"dst"`
	Type   string `json:"type,omitempty"`
	Info   struct {
		Mode  fs.FileMode `json:"mode"`
		Owner string      `json:"owner"`
		Group string      `json:"group"`
		Time  string      `json:"mtime"`
	} `json:"file_info"`
}

// scripts are what runs when a package is installed and removed, by nfpm's names.
//
//go:embed scripts
var scripts embed.FS

// pack makes a package of the files, in /usr. It depends on nothing and starts no unit; one
// that runs is started anew by an upgrade, and stopped by a removal.
func (r *release) pack(work, format, arch string, files []file) error {
	dir := filepath.Join(work, format+"-"+arch)
	var contents []content
	add := func(c content, mode fs.FileMode) {
		c.Info.Mode, c.Info.Owner, c.Info.Group, c.Info.Time = mode, "root", "root", r.date.Format("2006-01-02T15:04:05Z")
		contents = append(contents, c)
	}
	// The folders of its own: rpm leaves those that no package has.
	for _, folder := range []string{"/usr/share/tare", "/usr/share/doc/tare"} {
		add(content{To: folder, Type: "dir"}, 0o755)
	}
	for _, f := range files {
		if err := writeBelow(dir, f.path, f.content); err != nil {
			return err
		}
		add(content{Source: filepath.Join(dir, f.path), To: "/usr/" + f.path}, f.mode)
	}
	run, err := writeScripts(dir + "-scripts")
	if err != nil {
		return err
	}
	config := map[string]any{
		"name": "tare", "arch": arch, "platform": "linux", "version": r.version, "version_schema": "semver", "release": "1",
		"section": "admin", "maintainer": names.Maintainers, "homepage": names.Repository, "license": "Apache-2.0",
		"description": summary + ".\nIt reads running JVMs from outside, and tries programs in control groups.",
		"mtime":       r.date.Format("2006-01-02T15:04:05Z"), "contents": contents, "scripts": run,
		"rpm": map[string]any{"summary": summary, "group": "Development/Tools", "buildhost": "reproducible", "compression": "gzip:9"},
		"deb": map[string]any{"compression": "gzip"},
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	file := filepath.Join(work, format+"-"+arch+".yaml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	_, err = command("go", "run", nfpm, "package", "--config", file, "--packager", format, "--target", filepath.Join(r.out, r.packageName(format, arch)))
	return err
}

// writeScripts puts the scripts into a folder, and says where each is.
func writeScripts(dir string) (map[string]string, error) {
	entries, err := scripts.ReadDir("scripts")
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, e := range entries {
		text, err := scripts.ReadFile(path.Join("scripts", e.Name()))
		if err != nil {
			return nil, err
		}
		paths[strings.TrimSuffix(e.Name(), ".sh")] = filepath.Join(dir, e.Name())
		if err := writeBelow(dir, e.Name(), text); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// packageName is a package's file, as its system names them.
func (r *release) packageName(format, arch string) string {
	if format == "deb" {
		return fmt.Sprintf("tare_%s_%s.deb", r.version, arch)
	}
	return fmt.Sprintf("tare-%s-1.%s.rpm", r.version, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch])
}
