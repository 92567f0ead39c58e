package runner

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/lazy"
)

// Java is an installed launcher.
type Java struct {
	// Path is the launcher, without symbolic links.
	Path string
	// Home is the folder of the runtime: it holds lib, and release.
	Home string
	// Version is as in java.version, such as "17.0.15" or "1.8.0_504".
	Version string
	// Build tells builds of one version apart, such as "17.0.15+6-Debian-1 Debian";
	// without a release file it is the version.
	Build string `json:",omitempty"`
}

// FindJava locates the launcher of a command and its version: from the release
// file beside it, or else by asking it.
func FindJava(ctx context.Context, launcher string) (Java, error) {
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
		if r := readRelease(filepath.Join(home, "release")); r["JAVA_VERSION"] != "" {
			j.Version = r["JAVA_VERSION"]
			j.Build = strings.TrimSpace(cmp.Or(r["JAVA_RUNTIME_VERSION"], j.Version) + " " + r["IMPLEMENTOR"])
			return j, nil
		}
	}
	j.Version, err = askVersion(ctx, resolved)
	j.Build = j.Version
	return j, err
}

// FindJavaOf locates the launcher that a command starts: its own, or what start scripts look for,
// that of JAVA_HOME in env or else the one in PATH.
func FindJavaOf(ctx context.Context, args, env []string) (Java, error) {
	if filepath.Base(args[0]) == "java" {
		return FindJava(ctx, args[0])
	}
	for _, e := range slices.Backward(env) {
		if home, ok := strings.CutPrefix(e, "JAVA_HOME="); ok && home != "" {
			if j, err := FindJava(ctx, filepath.Join(home, "bin", "java")); err == nil {
				return j, nil
			}
			break
		}
	}
	return FindJava(ctx, "java")
}

// readRelease reads the release file of a JDK, lines such as JAVA_VERSION="17.0.15"
// (JDK: make/ReleaseFile.gmk); empty where it cannot be read.
func readRelease(name string) map[string]string {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	values := map[string]string{}
	s := bufio.NewScanner(io.LimitReader(f, maxRelease))
	for s.Scan() {
		if key, value, ok := strings.Cut(s.Text(), "="); ok {
			values[key] = strings.Trim(value, `"`)
		}
	}
	if s.Err() != nil {
		return nil
	}
	return values
}

// maxRelease bounds a release file, which lists modules and little more.
const maxRelease = 1 << 20

var versionLine = lazy.Regexp(`version "([^"]{1,64})"`)

func askVersion(ctx context.Context, java string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", java, err)
	}
	m := versionLine().FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s -version names no version", java)
	}
	return string(m[1]), nil
}
