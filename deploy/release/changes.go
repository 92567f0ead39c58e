package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tare.dev/tare/internal/names"
)

const unreleased = ", not yet released"

var (
	heading = regexp.MustCompile(`(?m)^## (.*)$`)
	entry   = regexp.MustCompile(`(?m)^- \S`)
	semver  = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)
)

// changesOf is the part of the changelog that tells of a version, with its date. A version
// of which nothing is told is not released.
func changesOf(file, version string, date time.Time) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i, h := range heading.FindAllSubmatchIndex(text, -1) {
		name, when, _ := strings.Cut(string(text[h[2]:h[3]]), ", ")
		if name != version {
			if i == 0 && strings.HasSuffix(string(text[h[2]:h[3]]), unreleased) {
				return nil, fmt.Errorf("%s begins with version %s, which is not yet released, and not with %s", file, name, version)
			}
			continue
		}
		if ", "+when == unreleased {
			when = date.Format(time.DateOnly)
		} else if _, err := time.Parse(time.DateOnly, when); err != nil {
			return nil, fmt.Errorf("%s: version %s: %q is no date as 2006-01-02", file, version, when)
		}
		body := text[h[1]:]
		if next := heading.FindIndex(body); next != nil {
			body = body[:next[0]]
		}
		if !entry.Match(body) {
			return nil, fmt.Errorf("%s tells nothing of version %s: say what changed", file, version)
		}
		return fmt.Appendf(nil, "# tare %s, %s\n\n%s\n", version, when, bytes.TrimSpace(body)), nil
	}
	return nil, fmt.Errorf("%s has no version %s", file, version)
}

// setVersion gives the tree in a folder another version: where names.Version stands, and
// above all in the changelog, where the last one gets its date.
func setVersion(root, version string) error {
	if !semver.MatchString(version) {
		return fmt.Errorf("%q is no version as 1.2.3: semver.org", version)
	}
	if version == names.Version {
		return fmt.Errorf("the tree is of version %s already", version)
	}
	const (
		artifact = `(<artifactId>(?:tare-[\w-]+|dev\.tare\.gradle\.plugin)</artifactId>\s*<version>)`
		inPages  = `(<artifactId>tare-[\w-]+</artifactId>\s*<version>|dev\.tare:tare-[\w-]+:|'dev\.tare' version '|[/_=@-]v?)`
	)
	old := regexp.QuoteMeta(names.Version)
	edits := []struct {
		files       string
		old, change string
	}{
		{"internal/names/names.go", `Version = "` + old + `"`, `Version = "` + version + `"`},
		{"java/pom.xml", artifact + old + `<`, "${1}" + version + "<"},
		{"java/*/pom.xml", artifact + old + `<`, "${1}" + version + "<"},
		{"java/*/*/pom.xml", artifact + old + `<`, "${1}" + version + "<"},
		{"docs/*.md", inPages + old, "${1}" + version},
		{"*.md", inPages + old, "${1}" + version},
		{"install.sh", `(:-|such as )` + old, "${1}" + version},
		{"action.yml", `(default: )` + old, "${1}" + version},
		{"deploy/gitlab/tare.yml", `(default: )` + old, "${1}" + version},
		{"CHANGELOG.md", `(?m)^## ` + old + unreleased + `$`, "## " + version + unreleased + "\n\n### Added\n\n## " + names.Version + ", " + time.Now().UTC().Format(time.DateOnly)},
	}
	for _, e := range edits {
		paths, err := filepath.Glob(filepath.Join(root, e.files))
		if err != nil || len(paths) == 0 {
			return errors.Join(err, fmt.Errorf("no files %s", e.files))
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, regexp.MustCompile(e.old).ReplaceAll(text, []byte(e.change)), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
