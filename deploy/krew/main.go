// Krew writes the manifest of the plugin kubectl tare
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/) for archives of a
// release, each of which has the program tare:
//
//	go run ./deploy/krew -version v0.1.0 -url https://example.com/v0.1.0 tare-linux-amd64.tar.gz …
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// manifest is a plugin for krew. Texts are quoted as YAML takes them from JSON.
const manifest = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: tare
spec:
  version: {{printf "%q" .Version}}
  homepage: {{printf "%q" .Home}}
  shortDescription: Where the memory of JVMs goes, and why they were killed
  description: |
    Weighs the JVMs of pods, finds what costs them memory without need, and says why
    a pod was killed, through tare's agent on its node.
  caveats: |
    It needs tare's agents: see {{.Home}}/docs/kubernetes-agent.md
  platforms:
{{- range .Platforms}}
  - selector:
      matchLabels: {os: linux, arch: {{.Arch}}}
    uri: {{printf "%q" .URI}}
    sha256: {{.Sum}}
    bin: tare
{{- end}}
`

type platform struct{ Arch, URI, Sum string }

func main() {
	version := flag.String("version", "", "the release, such as v0.1.0")
	url := flag.String("url", "", "the `URL` of the folder that the archives are downloaded from")
	home := flag.String("home", "https://tare.dev/tare", "the project's `URL`")
	flag.Parse()
	if err := write(os.Stdout, *version, *url, *home, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

var (
	versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	archive  = regexp.MustCompile(`-linux-(amd64|arm64)\.tar\.gz$`)
)

func write(w io.Writer, version, url, home string, files []string) error {
	if !versions.MatchString(version) || !strings.HasPrefix(url, "https://") || len(files) == 0 {
		return errors.New("give -version vX.Y.Z, -url https://…, and archives")
	}
	var all []platform
	for _, file := range files {
		m := archive.FindStringSubmatch(file)
		if m == nil {
			return fmt.Errorf("%s: its name does not end with -linux-ARCH.tar.gz", file)
		}
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		all = append(all, platform{m[1], strings.TrimSuffix(url, "/") + "/" + filepath.Base(file), sum})
	}
	t, err := template.New("krew").Parse(manifest)
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{"Version": version, "Home": home, "Platforms": all})
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
