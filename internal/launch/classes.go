package launch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/jarfile"
)

const (
	maxJars  = 4096
	maxFiles = 100_000 // in folders of classes
)

// classCount counts the classes that a command can load: of its jars, the jars
// that their manifests name, and folders. What cannot be read counts nothing:
// the JVM will say what is wrong with it.
type classCount struct {
	dir     string
	classes int64
	jars    int
	files   int
	seen    map[string]bool
}

func countClasses(dir string, paths []string) int64 {
	c := &classCount{dir: dir, seen: map[string]bool{}}
	for _, p := range paths {
		c.add(p, true)
	}
	return min(c.classes, maxClasses)
}

// add counts one element of a class path: a jar, a folder, or "folder/*" for
// the jars in it. follow also counts what the manifest's Class-Path names.
func (c *classCount) add(path string, follow bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	if folder, ok := strings.CutSuffix(path, "/*"); ok {
		for _, jar := range jarfile.In(folder) {
			c.add(jar, follow)
		}
		return
	}
	st, err := os.Stat(path)
	switch {
	case err != nil || c.seen[path]:
	case st.IsDir():
		c.seen[path] = true
		c.addFolder(path)
	case c.jars < maxJars:
		c.seen[path] = true
		c.jars++
		c.addJar(path, follow)
	}
}

func (c *classCount) addJar(path string, follow bool) {
	j, err := jarfile.Open(path)
	if err != nil {
		return
	}
	defer j.Close()
	c.classes += int64(j.Classes())
	if !follow {
		return
	}
	for _, name := range jarfile.ClassPath(path) {
		c.add(name, false)
	}
}

// addFolder counts the classes below a folder, and the jars in it, as on a
// module path.
func (c *classCount) addFolder(folder string) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if c.files++; c.files > maxFiles {
			return filepath.SkipAll
		}
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".class") {
			c.classes++
		}
		return nil
	})
	for _, jar := range jarfile.In(folder) {
		c.add(jar, false)
	}
}
