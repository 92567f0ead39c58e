package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tare.dev/tare/internal/names"
)

// nfpm makes packages of Debian and Fedora. It is run and not linked, so that what it is
// made of is no part of this module.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4"

const summary = "Where every resident page of a JVM goes, and how little memory it needs"

// content is a file of a package, as nfpm reads it: nfpm.goreleaser.com/configuration.
type content struct {
	Source string `json:"src"`
	To     string `json:"dst"`
	Info   struct {
		Mode  fs.FileMode `json:"mode"`
		Owner string      `json:"owner"`
		Group string      `json:"group"`
		Time  string      `json:"mtime"`
	} `json:"file_info"`
}

// pack makes a package of the files, in /usr. It starts no unit: the packages have no
// scripts, and depend on nothing.
func (r *release) pack(work, format, arch string, files []file) error {
	dir := filepath.Join(work, format+"-"+arch)
	var contents []content
	for _, f := range files {
		if err := writeBelow(dir, f.path, f.content); err != nil {
			return err
		}
		c := content{Source: filepath.Join(dir, f.path), To: "/usr/" + f.path}
		c.Info.Mode, c.Info.Owner, c.Info.Group, c.Info.Time = f.mode, "root", "root", r.date.Format("2006-01-02T15:04:05Z")
		contents = append(contents, c)
	}
	config := map[string]any{
		"name": "tare", "arch": arch, "platform": "linux", "version": r.version, "version_schema": "semver", "release": "1",
		"section": "admin", "maintainer": names.Maintainers, "homepage": names.Repository, "license": "Apache-2.0",
		"description": summary + ".\nIt reads running JVMs from outside, and tries programs in control groups.",
		"mtime":       r.date.Format("2006-01-02T15:04:05Z"), "contents": contents,
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

// packageName is a package's file, as its system names them.
func (r *release) packageName(format, arch string) string {
	if format == "deb" {
		return fmt.Sprintf("tare_%s_%s.deb", r.version, arch)
	}
	return fmt.Sprintf("tare-%s-1.%s.rpm", r.version, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch])
}
