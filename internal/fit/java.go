package fit

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
