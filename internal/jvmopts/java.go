package jvmopts

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Java is an installed launcher.
type Java struct {
	// Path is the launcher, without symbolic links.
	Path string
	// Home is the folder of the runtime: it holds lib, and release.
	Home string
	// Version is as in java.version, such as "17.0.15" or "1.8.0_504".
	Version string
}

// Find locates the launcher of a command and its version: from the release
// file beside it, or else by asking it.
func Find(ctx context.Context, launcher string) (Java, error) {
	found, err := exec.LookPath(launcher)
	if err != nil {
		return Java{}, fmt.Errorf("no java launcher %q: install a JDK, or give the path of its bin/java: %w", launcher, err)
	}
	resolved, err := filepath.EvalSymlinks(found)
	if err != nil {
		return Java{}, fmt.Errorf("java launcher %s: %w", found, err)
	}
	j := Java{Path: resolved, Home: filepath.Dir(filepath.Dir(resolved))}
	for _, home := range []string{j.Home, filepath.Dir(j.Home)} { // JDK 8: jre/bin/java
		if v := releaseVersion(filepath.Join(home, "release")); v != "" {
			j.Version = v
			return j, nil
		}
	}
	j.Version, err = askVersion(ctx, resolved)
	return j, err
}

func releaseVersion(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), "JAVA_VERSION="); ok && s.Err() == nil {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

var versionLine = regexp.MustCompile(`version "([^"]{1,64})"`)

func askVersion(ctx context.Context, java string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", java, err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s -version names no version", java)
	}
	return string(m[1]), nil
}

// Release is a Java version that compares.
type Release struct{ Feature, Interim, Update int }

// ParseRelease reads a java.version, old ("1.8.0_504") or new ("17.0.15",
// "27-ea", "21.0.12.1"). What is missing or is no number counts as zero.
func ParseRelease(version string) Release {
	v, _, _ := strings.Cut(version, "-")
	v, _, _ = strings.Cut(v, "+")
	parts := strings.FieldsFunc(v, func(r rune) bool { return r == '.' || r == '_' })
	if len(parts) > 1 && parts[0] == "1" {
		parts = parts[1:]
	}
	n := [3]int{}
	for i := range min(len(parts), len(n)) {
		n[i], _ = strconv.Atoi(parts[i])
	}
	return Release{n[0], n[1], n[2]}
}

// AtLeast compares releases.
func (r Release) AtLeast(o Release) bool {
	if r.Feature != o.Feature {
		return r.Feature > o.Feature
	}
	if r.Interim != o.Interim {
		return r.Interim > o.Interim
	}
	return r.Update >= o.Update
}
