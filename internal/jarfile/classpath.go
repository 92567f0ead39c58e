package jarfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxClassPath bounds the jars of a class path.
const maxClassPath = 4096

// ClassPath is what the manifest's Class-Path names, as paths: URLs relative to the
// jar, separated by spaces (JAR File Specification, "Main Attributes"). Those of
// other schemes than file are left out. The runner of Quarkus's fast-jar names what starts
// it alone, and finds the rest by an index: the jars in the folders lib/main, app and
// quarkus beside it are added (Quarkus, "Maven Tooling", "Using fast-jar"). None where
// the jar cannot be read: the JVM will say what is wrong with it.
func ClassPath(path string) []string {
	j, err := Open(path)
	if err != nil {
		return nil
	}
	defer j.Close()
	manifest, err := j.Manifest()
	if err != nil {
		return nil
	}
	var out []string
	for text := range strings.FieldsSeq(manifest["class-path"]) {
		name, ok := unescape(strings.TrimPrefix(text, "file:"))
		if !ok || strings.Contains(name, ":") { // of another scheme
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		if out = append(out, name); len(out) == maxClassPath {
			break
		}
	}
	if manifest["main-class"] == quarkusRunner {
		for _, folder := range quarkusFolders {
			out = append(out, In(filepath.Join(filepath.Dir(path), folder))...)
		}
	}
	return out
}

// The class that starts a fast-jar of Quarkus, and the folders that it loads from.
const quarkusRunner = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"

var quarkusFolders = []string{"lib/main", "app", "quarkus"}

// unescape decodes the percent-encoding of a URL (RFC 3986, section 2.1). Package
// net/url does so too, for a tenth of the launcher's size.
func unescape(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+3 > len(text) {
			return "", false
		}
		n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), true
}

// Closure is a class path with all that it stands for: the jars of "folder/*", and
// what manifests name, and theirs. Each element is named once, in the order in which
// it is found.
func Closure(paths []string) []string {
	var out []string
	seen := map[string]bool{}
	for todo := paths; len(todo) > 0 && len(out) < maxClassPath; {
		path := todo[0]
		todo = todo[1:]
		if folder, ok := strings.CutSuffix(path, "/*"); ok {
			todo = append(In(folder), todo...)
			continue
		}
		if seen[path] {
			continue
		}
		seen[path] = true
		out = append(out, path)
		if isJar(path) {
			todo = append(ClassPath(path), todo...)
		}
	}
	return out
}

// In are the jars in a folder.
func In(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var jars []string
	for _, e := range entries {
		if isJar(e.Name()) {
			jars = append(jars, filepath.Join(folder, e.Name()))
		}
	}
	return jars
}

func isJar(name string) bool {
	return strings.HasSuffix(name, ".jar") || strings.HasSuffix(name, ".JAR")
}
