package jvmtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/alone"
)

// supported are the JDK versions that tare supports. A newer one that is in the
// cache is tested too.
var supported = []int{8, 11, 17, 21, 25, 26, 27}

// required must be in the cache, and one newer than the last of them. Of the
// others, those that the distribution no longer serves are left out by name.
var required = []int{8, 17, 25}

// Majors are the major versions of the JDKs in the cache, in order. A version
// that is supported and no longer served is named in the test's log, and one that
// is missing otherwise fails the test.
func Majors(t testing.TB) []int {
	t.Helper()
	alone.Uses(t, "a JVM")
	majors, gone, err := served(filepath.Join(Cache(t), "jdks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range gone {
		t.Log(why)
	}
	return majors
}

// Newest is the newest major version in the cache.
func Newest(t testing.TB) int {
	t.Helper()
	majors := Majors(t)
	return majors[len(majors)-1]
}

// Home is the JDK of a major version that scripts/jdks.sh put into the cache. It
// skips the test where that version is no longer served, unless it is required.
// A missing JDK fails the test.
func Home(t testing.TB, major int) string {
	t.Helper()
	alone.Uses(t, "a JVM")
	jdks := filepath.Join(Cache(t), "jdks")
	var unserved *unservedError
	switch err := present(jdks, major); {
	case errors.As(err, &unserved):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return filepath.Join(jdks, strconv.Itoa(major))
}

// unservedError says that a JDK is not in the cache because the distribution no
// longer has it.
type unservedError struct {
	major int
	why   string
}

func (e *unservedError) Error() string {
	return fmt.Sprintf("JDK %d is left out: %s", e.major, e.why)
}

// present says why a JDK is not in the folder; nil where it is.
func present(jdks string, major int) error {
	_, err := os.Stat(filepath.Join(jdks, strconv.Itoa(major), "bin", "java"))
	if err == nil {
		return nil
	}
	why, noMark := os.ReadFile(filepath.Join(jdks, ".unserved", strconv.Itoa(major)))
	if noMark != nil || slices.Contains(required, major) {
		return fmt.Errorf("JDK %d is not in the cache: run scripts/jdks.sh %d (%w)", major, major, err)
	}
	return &unservedError{major, strings.TrimSpace(string(why))}
}

// served lists the major versions in a folder, and says of each supported one
// that is left out why.
func served(jdks string) (majors []int, gone []string, err error) {
	for _, major := range supported {
		var unserved *unservedError
		switch err := present(jdks, major); {
		case errors.As(err, &unserved):
			gone = append(gone, err.Error())
		case err != nil:
			return nil, nil, err
		default:
			majors = append(majors, major)
		}
	}
	newer, err := newerThan(jdks, supported[len(supported)-1])
	if err != nil {
		return nil, nil, err
	}
	majors = append(majors, newer...)
	if last := required[len(required)-1]; majors[len(majors)-1] <= last {
		return nil, nil, fmt.Errorf("no JDK newer than %d is in the cache: run scripts/jdks.sh", last)
	}
	return majors, gone, nil
}

// newerThan lists the JDKs in a folder above a major version, in order.
func newerThan(jdks string, major int) ([]int, error) {
	entries, err := os.ReadDir(jdks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var newer []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > major && present(jdks, n) == nil {
			newer = append(newer, n)
		}
	}
	slices.Sort(newer)
	return newer, nil
}
