package jdkfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
)

const (
	maxReleaseFile = 1 << 20 // bytes
	maxValue       = 128     // bytes of a version, vendor or architecture
)

// Release is what tare needs of a runtime's release file (JDK:
// make/ReleaseFile.gmk).
type Release struct {
	Version string // JAVA_VERSION, such as 17.0.12 or 1.8.0_504
	Vendor  string // IMPLEMENTOR; before 10 none names it
	Arch    string // OS_ARCH, such as x86_64
	Libc    string // LIBC: gnu, musl; since 15, and in backports
	Variant string // JVM_VARIANT, in lower case: openj9
}

// ReadRelease reads a release file. A file that is not there is an empty
// Release: Debian's JDK 8 has none.
func ReadRelease(path string) (Release, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Release{}, nil
	}
	if err != nil {
		return Release{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxReleaseFile {
		return Release{}, fmt.Errorf("%s: not a file of at most %d bytes", path, maxReleaseFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Release{}, err
	}
	r, err := ParseRelease(string(text))
	if err != nil {
		return Release{}, fmt.Errorf("%s, %w", path, err)
	}
	return r, nil
}

// ParseRelease reads lines like JAVA_VERSION="17.0.12".
func ParseRelease(text string) (Release, error) {
	var r Release
	fields := map[string]*string{
		"JAVA_VERSION": &r.Version, "IMPLEMENTOR": &r.Vendor, "OS_ARCH": &r.Arch, "LIBC": &r.Libc, "JVM_VARIANT": &r.Variant,
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		field := fields[key]
		if field == nil {
			continue
		}
		value, quoted := unquote(value)
		if !quoted || *field != "" || !IsName(value) {
			return Release{}, fmt.Errorf("line %d: not a single %s=\"...\": %.80q", n, key, line)
		}
		*field = value
	}
	r.Variant = strings.ToLower(r.Variant)
	return r, nil
}

// unquote takes the quotes from a value that has them, and none inside.
func unquote(s string) (string, bool) {
	inner, ok := strings.CutPrefix(s, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	return inner, ok && ok2 && !strings.Contains(inner, `"`)
}

// IsName says whether s can be printed as it is, and is as short as a name.
func IsName(s string) bool {
	return s != "" && len(s) <= maxValue && !strings.ContainsFunc(s, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsPrint(r)
	})
}
