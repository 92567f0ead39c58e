package jarfile

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// classFolders are where executable jars and wars keep the application's own files
// (Spring Boot reference, "The Executable Jar Format"; Jakarta Servlet, "Directory
// Structure").
var classFolders = []string{"BOOT-INF/classes/", "WEB-INF/classes/"}

// Holds tells which of some entries, such as
// "org/apache/catalina/startup/Tomcat.class", the jars and folders of a class path
// hold: at their root, below BOOT-INF/classes or WEB-INF/classes, or in a jar inside
// that is stored as it is. It passes over jars inside that are compressed once more,
// and what cannot be read.
func Holds(paths, entries []string) map[string]bool {
	h := holding{wanted: make(map[string]bool, len(entries)), found: map[string]bool{}}
	for _, e := range entries {
		h.wanted[e] = true
	}
	for _, p := range paths {
		st, err := os.Stat(p)
		switch {
		case err != nil:
		case st.IsDir():
			h.folder(p)
		default:
			h.jar(p)
		}
	}
	return h.found
}

type holding struct{ wanted, found map[string]bool }

func (h holding) folder(dir string) {
	for e := range h.wanted {
		if st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(e))); err == nil && st.Mode().IsRegular() {
			h.found[e] = true
		}
	}
}

func (h holding) jar(path string) {
	j, err := Open(path)
	if err != nil {
		return
	}
	defer j.Close()
	nested := 0
	eachEntry(j.entries, func(e entry) bool {
		h.note(e)
		if bytes.HasSuffix(e.name, []byte(".jar")) {
			if nested++; nested > maxNested {
				return false
			}
			h.nested(j, e)
		}
		return true
	})
}

func (h holding) note(e entry) {
	name := e.name
	for _, folder := range classFolders {
		name = bytes.TrimPrefix(name, []byte(folder))
	}
	if h.wanted[string(name)] {
		h.found[string(name)] = true
	}
}

func (h holding) nested(j *Jar, e entry) {
	if directory, ok := j.nestedDirectory(e); ok {
		eachEntry(directory, func(e entry) bool {
			h.note(e)
			return true
		})
	}
}

// nestedDirectory is the central directory of a jar inside that is stored as it is.
func (j *Jar) nestedDirectory(e entry) ([]byte, bool) {
	if e.method != stored || e.compressed != e.size {
		return nil, false
	}
	start, err := j.contents(e)
	if err != nil {
		return nil, false
	}
	directory, _, err := readDirectory(io.NewSectionReader(j.r, start, e.size), e.size)
	return directory, err == nil
}

// maxTexts bounds the files that Texts reads.
const maxTexts = 64

// Texts are the files of a class path whose base name match takes: at the root of a
// jar or folder or in its folder config, and below BOOT-INF/classes or WEB-INF/classes. The
// keys are paths, for a file in a jar the jar's and the entry's. Jars inside are left out; so are
// files above 1 MiB, those after the first 64, and what cannot be read.
func Texts(paths []string, match func(base string) bool) map[string][]byte {
	out := map[string][]byte{}
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			textsOfFolder(p, match, out)
		} else {
			textsOfJar(p, match, out)
		}
	}
	return out
}

func textsOfFolder(dir string, match func(string) bool, out map[string][]byte) {
	for _, d := range []string{dir, filepath.Join(dir, "config")} {
		entries, err := os.ReadDir(d)
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if len(out) == maxTexts || err != nil || !info.Mode().IsRegular() || info.Size() > maxManifest || !match(e.Name()) {
				continue
			}
			if text, err := os.ReadFile(filepath.Join(d, e.Name())); err == nil {
				out[filepath.Join(d, e.Name())] = text
			}
		}
	}
}

func textsOfJar(name string, match func(string) bool, out map[string][]byte) {
	j, err := Open(name)
	if err != nil {
		return
	}
	defer j.Close()
	eachEntry(j.entries, func(e entry) bool {
		dir, base := path.Split(string(e.name))
		dir = strings.TrimSuffix(dir, "config/")
		if !match(base) || dir != "" && !slices.Contains(classFolders, dir) {
			return true
		}
		if text, err := j.read(e); err == nil {
			out[name+"!/"+string(e.name)] = text
		}
		return len(out) < maxTexts
	})
}
