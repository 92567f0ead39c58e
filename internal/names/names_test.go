package names_test

import (
	"encoding/xml"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// files calls f with each file of the tree that has a name like pattern.
func files(t *testing.T, pattern string, f func(name, text string)) {
	t.Helper()
	root, found := jvmtest.Root(t), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "target" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if ok, _ := filepath.Match(pattern, d.Name()); !ok || d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found++
		f(name, string(text))
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files %s: %v", found, pattern, err)
	}
}

func TestModule(t *testing.T) {
	files(t, "go.mod", func(name, text string) {
		if name == "go.mod" && !strings.HasPrefix(text, "module "+names.Module+"\n") {
			t.Errorf("%s is not of the module %s: %.60s", name, names.Module, text)
		}
	})
}

// project is what the test reads of a pom.
type project struct {
	GroupID string `xml:"groupId"`
	Version string `xml:"version"`
	Parent  struct {
		GroupID string `xml:"groupId"`
		Version string `xml:"version"`
	} `xml:"parent"`
}

func TestMaven(t *testing.T) {
	files(t, "pom.xml", func(name, text string) {
		if !strings.HasPrefix(name, "java"+string(filepath.Separator)) {
			return // a service that is measured
		}
		var p project
		if err := xml.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		group, version := p.GroupID+p.Parent.GroupID, p.Version+p.Parent.Version
		if group != names.MavenGroup || version != names.Version {
			t.Errorf("%s: %s of %s, want %s of %s", name, version, group, names.Version, names.MavenGroup)
		}
	})
}

var (
	coordinates = regexp.MustCompile(`\b(dev\.tare[\w.]*):(tare-[\w-]+)(?::([\w.-]+))?`)
	dependency  = regexp.MustCompile(`<groupId>([\w.]+)</groupId>\s*<artifactId>tare-[\w-]+</artifactId>\s*<version>([\w.-]+)</version>`)
	install     = regexp.MustCompile(`go install ([\w./-]+)/cmd/`)
)

func TestDocs(t *testing.T) {
	files(t, "*.md", func(name, text string) {
		for _, m := range coordinates.FindAllStringSubmatch(text, -1) {
			if m[1] != names.MavenGroup || m[3] != "" && m[3] != names.Version {
				t.Errorf("%s: %s, want %s and %s", name, m[0], names.MavenGroup, names.Version)
			}
		}
		for _, m := range dependency.FindAllStringSubmatch(text, -1) {
			if m[1] != names.MavenGroup || m[2] != names.Version {
				t.Errorf("%s: %s", name, m[0])
			}
		}
		for _, m := range install.FindAllStringSubmatch(text, -1) {
			if m[1] != names.Module {
				t.Errorf("%s: %s", name, m[0])
			}
		}
	})
}
