package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/testkit/alone"
)

// maxCompressed bounds what is pulled of the image.
const maxCompressed = 40 << 20

// The images of the same source are the same, small, and list what they are made of; the
// programs for arm64 run.
func TestImages(t *testing.T) {
	alone.Uses(t, "the Go tool")
	t.Chdir(filepath.Join("..", ".."))
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	for _, dir := range dirs {
		if err := run(dir, "tare:test", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		var ids []string
		for _, dir := range dirs {
			i, err := image.FromArchive(filepath.Join(dir, "tare-"+arch+".tar"))
			if err != nil {
				t.Fatal(err)
			}
			n, err := i.CompressedSize()
			c, configErr := i.Config()
			if err != nil || configErr != nil || n > maxCompressed || c.Architecture != arch {
				t.Errorf("%s: %d bytes, for %s: %v, %v", arch, n, c.Architecture, err, configErr)
			}
			ids = append(ids, i.ID())
		}
		if ids[0] != ids[1] {
			t.Errorf("%s: the same source makes %q", arch, ids)
		}
		text, err := os.ReadFile(filepath.Join(dirs[0], "tare-"+arch+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat, SpecVersion string
			Components             []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(text, &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || len(bom.Components) < 10 {
			t.Errorf("%s: %s %s with %d components, %v", arch, bom.BOMFormat, bom.SpecVersion, len(bom.Components), err)
		}
		for _, c := range bom.Components {
			if c.Name == "" || c.Version == "" || c.PURL == "" {
				t.Errorf("%s: %+v", arch, c)
			}
		}
	}
	checkIndex(t, filepath.Join(dirs[0], "oci"))
	// Not a machine of arm64, but its instructions (qemu-user).
	out, err := exec.Command("qemu-aarch64-static", filepath.Join(dirs[0], "programs", "arm64", "tare"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "tare ") {
		t.Errorf("%v: %s: run scripts/setup.sh test", err, out)
	}
}

// checkIndex checks that an OCI layout has the name, with an image for each architecture.
func checkIndex(t *testing.T, dir string) {
	t.Helper()
	type index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
			Platform    struct{ OS, Architecture string }
		}
	}
	read := func(name string) (i index) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(text, &i)
		}
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	top := read("index.json")
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "tare:test" {
		t.Fatalf("%+v", top)
	}
	both := read("blobs/" + strings.ReplaceAll(top.Manifests[0].Digest, ":", "/"))
	if len(both.Manifests) != 2 || both.Manifests[0].Platform.Architecture != "amd64" || both.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("%+v", both)
	}
}
