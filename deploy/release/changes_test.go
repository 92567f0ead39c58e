package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

func TestChangesOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	date := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ text, version, want, refusal string }{
		"next":       {"# Changes\n\n## 1.1.0, not yet released\n\n### Added\n\n- A thing.\n\n## 1.0.0, 2025-01-01\n\n- First.\n", "1.1.0", "# tare 1.1.0, 2026-01-02\n\n### Added\n\n- A thing.\n", ""},
		"again":      {"## 1.0.0, 2025-01-01\n\n- First.\n", "1.0.0", "# tare 1.0.0, 2025-01-01\n\n- First.\n", ""},
		"empty":      {"## 1.1.0, not yet released\n\n### Added\n\n## 1.0.0, 2025-01-01\n\n- First.\n", "1.1.0", "", "tells nothing of version 1.1.0"},
		"other next": {"## 1.2.0, not yet released\n\n- A.\n\n## 1.1.0, 2025-01-01\n\n- B.\n", "1.1.0", "", "begins with version 1.2.0"},
		"unknown":    {"## 1.0.0, 2025-01-01\n\n- First.\n", "1.1.0", "", "has no version 1.1.0"},
		"no date":    {"## 1.1.0, soon\n\n- First.\n", "1.1.0", "", "is no date"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := changesOf(file, c.version, date)
		if string(got) != c.want || (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// All that names the version follows, and the changelog has a new part.
func TestSetVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	clone(t, jvmtest.Root(t), dir)
	for _, bad := range []string{"", "1", "1.2.3.4", "01.2.3", "../1.2.3", names.Version} {
		if err := setVersion(dir, bad); err == nil {
			t.Errorf("%q is a version", bad)
		}
	}
	if err := setVersion(dir, "98.7.6"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"internal/names/names.go", "java/pom.xml", "java/bom/pom.xml", "java/libraries/jmh/pom.xml", "java/maven-plugin/pom.xml", "java/gradle-plugin/pom.xml", "java/gradle-marker/pom.xml", "docs/ci.md", "docs/install.md", "docs/jmh.md", "install.sh", "action.yml", "deploy/gitlab/tare.yml"} {
		text := read(t, filepath.Join(dir, file))
		if strings.Contains(text, names.Version) || !strings.Contains(text, "98.7.6") {
			t.Errorf("%s has not the new version alone", file)
		}
	}
	if _, err := changesOf(filepath.Join(dir, "CHANGELOG.md"), "98.7.6", time.Now()); err == nil || !strings.Contains(err.Error(), "tells nothing") {
		t.Error(err)
	}
}
