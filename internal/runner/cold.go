package runner

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Cold are files to drop from the page cache right before a process starts.
type Cold struct {
	// JavaHome is a Java runtime: its libraries, modules and class archives.
	JavaHome string
	// Files are files, and folders with all that is below them.
	Files []string
}

// maxColdFiles bounds how many files are dropped before a trial.
const maxColdFiles = 10000

// drop drops the files from the page cache.
//
// A page of the cache is charged to the group that read it first. A trial that
// finds the pages of an earlier one there gets them free of charge, and would
// look smaller than a fresh container is. Pages that another running process
// maps, such as the C library's, cannot be dropped; they are the same few
// megabytes in every trial.
func (c Cold) drop() {
	n := 0
	drop := func(path string) {
		if n++; n <= maxColdFiles {
			dropFile(path)
		}
	}
	if c.JavaHome != "" {
		walkFiles(filepath.Join(c.JavaHome, "lib"), isRuntimeFile, drop)
	}
	for _, f := range c.Files {
		f = strings.TrimSuffix(f, "*") // a class path may end in /*
		if f == "" {
			continue
		}
		walkFiles(f, func(string) bool { return true }, drop)
	}
}

func isRuntimeFile(path string) bool {
	switch filepath.Ext(path) {
	case ".so", ".jsa", ".jar":
		return true
	}
	return filepath.Base(path) == "modules"
}

// walkFiles calls do for the regular files at or below path.
func walkFiles(path string, want func(string) bool, do func(string)) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	seen := 0
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if seen++; seen > maxColdFiles {
			return filepath.SkipAll
		}
		if err == nil && d.Type().IsRegular() && want(p) {
			do(p)
		}
		return nil // what cannot be read stays in the cache
	})
}

func dropFile(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	// Length 0 is "to the end of the file". Only clean pages go.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
