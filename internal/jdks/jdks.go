// Package jdks finds the JDKs that are installed on a machine, and asks each what
// it is and what it does without options.
package jdks

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// JDK is an installed JDK or JRE, with its defaults. What could not be found out is
// empty or zero, and left out of the JSON.
type JDK struct {
	Home    string `json:"home"`              // resolved: no part of it is a link
	Version string `json:"version,omitempty"` // such as 17.0.12, 1.8.0_504
	Major   int    `json:"major,omitzero"`    // such as 17, 8
	Vendor  string `json:"vendor,omitempty"`
	// Arch is named as in container images: amd64, arm64.
	Arch string `json:"arch,omitempty"`

	// The default sizes of thread stacks, without their guard pages. Where a flag
	// is 0, the JVM chooses: then this is its choice (see stackSizes).
	ThreadStackSizeBytes         int64 `json:"threadStackSizeBytes,omitzero"`
	CompilerThreadStackSizeBytes int64 `json:"compilerThreadStackSizeBytes,omitzero"`
	VMThreadStackSizeBytes       int64 `json:"vmThreadStackSizeBytes,omitzero"`

	// The default collector and the default of the largest heap, for the processors
	// and the memory of the machine or container that tare runs in.
	DefaultCollector    string `json:"defaultCollector,omitempty"`
	DefaultMaxHeapBytes int64  `json:"defaultMaxHeapBytes,omitzero"`

	// CDSArchive says whether the JDK has its default class data archive.
	CDSArchive bool `json:"cdsArchive"`

	// Sources are the places that led to this JDK: JAVA_HOME, PATH,
	// /usr/lib/jvm, SDKMAN, cache.
	Sources []string `json:"foundBy"`

	// Error says why something above is missing; it is empty when nothing is.
	Error string `json:"error,omitempty"`
}

// Java is the path of the JDK's launcher.
func (j JDK) Java() string { return filepath.Join(j.Home, "bin", "java") }

// Search says where Find looks, and how.
type Search struct {
	// Root is the folder below which usr/lib/jvm is; / on a real system.
	Root string
	// Environ is an environment as of os.Environ. Find reads JAVA_HOME and PATH;
	// SDKMAN_CANDIDATES_DIR, SDKMAN_DIR or HOME for SDKMAN's folder; and TARE_CACHE,
	// XDG_CACHE_HOME or HOME for the cache. The JDKs are run in this environment,
	// without the variables that hold Java options.
	Environ []string
	// Timeout bounds each run of a JDK's launcher; there are at most two.
	Timeout time.Duration
}

// OfThisMachine looks through this machine, in the environment of tare.
func OfThisMachine() Search {
	return Search{Root: "/", Environ: os.Environ(), Timeout: 10 * time.Second}
}

// Find lists the JDKs that it finds, each once, sorted by version and home. A JDK
// that does not work has its Error set. Find itself fails only when the context
// ends.
func Find(ctx context.Context, s Search) ([]JDK, error) {
	jdks := s.candidates()
	var wait sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range jdks {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			s.probe(ctx, &jdks[i])
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(jdks, func(a, b JDK) int {
		if c := compareVersions(a.Version, b.Version); c != 0 {
			return c
		}
		return strings.Compare(a.Home, b.Home)
	})
	return jdks, nil
}

// candidates are the JDKs with no more than Home, Sources, and an Error where
// the user named something that is no JDK.
func (s Search) candidates() []JDK {
	var found []JDK
	add := func(source, home string) {
		jdk := JDK{Home: home, Sources: []string{source}}
		if resolved, err := resolveHome(home); err != nil {
			jdk.Error = source + ": " + err.Error() + "; it is no JDK's home"
		} else {
			jdk.Home = resolved
		}
		i := slices.IndexFunc(found, func(j JDK) bool { return j.Home == jdk.Home })
		if i < 0 {
			found = append(found, jdk)
		} else if !slices.Contains(found[i].Sources, source) {
			found[i].Sources = append(found[i].Sources, source)
		}
	}
	if home := s.get("JAVA_HOME"); home != "" {
		add(SourceJavaHome, home)
	}
	if java := s.javaOnPath(); java != "" {
		add("PATH", filepath.Dir(filepath.Dir(java)))
	}
	for _, folder := range s.folders() {
		for _, home := range homesIn(folder.path) {
			add(folder.source, home)
		}
	}
	return found
}

// Sources of JDKs: SDKMAN and tare's own cache, to which HOME or a variable of the
// same origin leads, and what JAVA_HOME names.
const (
	sourceSDKMAN   = "SDKMAN"
	SourceCache    = "cache"
	SourceJavaHome = "JAVA_HOME"
)

type jdkFolder struct{ source, path string }

func (s Search) folders() []jdkFolder {
	folders := []jdkFolder{{"/usr/lib/jvm", filepath.Join(s.Root, "usr/lib/jvm")}}
	home := s.get("HOME")
	if candidates := s.get("SDKMAN_CANDIDATES_DIR"); candidates != "" {
		folders = append(folders, jdkFolder{sourceSDKMAN, filepath.Join(candidates, "java")})
	} else if sdkman := s.get("SDKMAN_DIR"); sdkman != "" {
		folders = append(folders, jdkFolder{sourceSDKMAN, filepath.Join(sdkman, "candidates/java")})
	} else if home != "" {
		folders = append(folders, jdkFolder{sourceSDKMAN, filepath.Join(home, ".sdkman/candidates/java")})
	}
	if cache := s.get("TARE_CACHE"); cache != "" {
		folders = append(folders, jdkFolder{SourceCache, filepath.Join(cache, "jdks")})
	} else if cache := s.get("XDG_CACHE_HOME"); cache != "" {
		folders = append(folders, jdkFolder{SourceCache, filepath.Join(cache, "tare/jdks")})
	} else if home != "" {
		folders = append(folders, jdkFolder{SourceCache, filepath.Join(home, ".cache/tare/jdks")})
	}
	return folders
}

// homesIn are the entries of a folder that have a launcher. A folder that is
// missing or cannot be read has none.
func homesIn(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var homes []string
	for _, entry := range entries {
		home := filepath.Join(folder, entry.Name())
		// Lstat, so that a launcher that is a dead link is reported as broken.
		_, err := os.Lstat(filepath.Join(home, "bin", "java"))
		if err == nil && !strings.HasPrefix(entry.Name(), ".") {
			homes = append(homes, home)
		}
	}
	return homes
}

// resolveHome follows the links to a JDK's home, and from the jre folder inside a
// JDK 8 to the JDK. A home without a launcher is an error.
func resolveHome(home string) (string, error) {
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		return "", err
	}
	if home, err = filepath.Abs(home); err != nil {
		return "", err
	}
	if _, err := os.Lstat(filepath.Join(home, "bin", "java")); err != nil {
		return "", err
	}
	if jdk := filepath.Dir(home); filepath.Base(home) == "jre" {
		if _, err := os.Stat(filepath.Join(jdk, "bin", "java")); err == nil {
			return jdk, nil
		}
	}
	return home, nil
}

// javaOnPath is the java that a shell would run, with all links followed; empty
// when there is none.
func (s Search) javaOnPath() string {
	for _, folder := range filepath.SplitList(s.get("PATH")) {
		if !filepath.IsAbs(folder) {
			continue // depends on the current folder
		}
		java, err := filepath.EvalSymlinks(filepath.Join(folder, "java"))
		if err != nil {
			continue
		}
		if info, err := os.Stat(java); err == nil && isExecutable(info) {
			return java
		}
	}
	return ""
}

func isExecutable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// get looks up a variable; of several settings the last counts, as in os/exec.
func (s Search) get(name string) string {
	for _, setting := range slices.Backward(s.Environ) {
		if value, ok := strings.CutPrefix(setting, name+"="); ok {
			return value
		}
	}
	return ""
}

// compareVersions orders Java versions by their numbers: 1.8.0_504 (which is 8)
// before 11.0.9 before 11.0.24. What has no version comes last.
func compareVersions(a, b string) int {
	if a == "" || b == "" {
		return strings.Compare(b, a)
	}
	if c := slices.Compare(versionNumbers(a), versionNumbers(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

func versionNumbers(version string) []int {
	fields := strings.FieldsFunc(strings.TrimPrefix(version, "1."), func(r rune) bool {
		return r < '0' || r > '9'
	})
	numbers := make([]int, len(fields))
	for i, field := range fields {
		numbers[i], _ = strconv.Atoi(field) // the largest int when out of range
	}
	return numbers
}
