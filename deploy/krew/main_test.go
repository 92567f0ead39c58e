package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestManifest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tare-linux-arm64.tar.gz")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := write(&out, "v1.2.3", "https://example.com/v1.2.3/", "https://example.com", []string{file}); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector struct {
					Labels map[string]string `yaml:"matchLabels"`
				}
				URI, SHA256, Bin string
			}
		}
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if err := yaml.Unmarshal(out.Bytes(), &m); err != nil || m.Metadata.Name != "tare" || m.Spec.Version != "v1.2.3" || len(m.Spec.Platforms) != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	if p := m.Spec.Platforms[0]; p.Selector.Labels["arch"] != "arm64" || p.URI != "https://example.com/v1.2.3/tare-linux-arm64.tar.gz" || p.SHA256 != empty || p.Bin != "tare" {
		t.Errorf("%+v", p)
	}
	for _, bad := range [][]string{{"1.2.3", "https://x", file}, {"v1.2.3", "http://x", file}, {"v1.2.3", "https://x", "tare.zip"}, {"v1.2.3", "https://x", "none-linux-arm64.tar.gz"}} {
		if err := write(&out, bad[0], bad[1], "", bad[2:]); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}
