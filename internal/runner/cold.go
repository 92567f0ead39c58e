package runner

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
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

// Opener is a Process of this machine that tells which files it uses. Its command names some of
// them; modules, plug-ins and data it finds by itself.
type Opener interface {
	// Opened are regular files that processes of the group have open or mapped, by the names
	// that these know them by.
	Opened(ctx context.Context) ([]string, error)
}

// Opened reads /proc/PID/fd and /proc/PID/maps of the group's processes.
func (j *jvm) Opened(ctx context.Context) ([]string, error) {
	pids, err := processesBelow(j.dirs)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		addOpen(files, j.proc, pid)
		addMapped(files, j.proc, pid)
	}
	return slices.Sorted(maps.Keys(files)), nil
}

// addOpen adds the files that a process has open; one that has ended has none.
func addOpen(files map[string]bool, proc linux.FS, pid int) {
	entries, err := os.ReadDir(proc.Path(pid, "fd"))
	if err != nil {
		return
	}
	for _, e := range entries {
		fd := proc.Path(pid, "fd", e.Name())
		name, err := os.Readlink(fd)
		if err != nil || !filepath.IsAbs(name) || len(files) >= maxColdFiles {
			continue
		}
		if st, err := os.Stat(fd); err == nil && st.Mode().IsRegular() {
			files[name] = true
		}
	}
}

// addMapped adds the files that a process has mapped.
func addMapped(files map[string]bool, proc linux.FS, pid int) {
	mapped, err := proc.Maps(pid)
	if err != nil {
		return
	}
	for _, m := range mapped {
		if filepath.IsAbs(m.Path) && len(files) < maxColdFiles {
			files[m.Path] = true
		}
	}
}

// giveBackCache has the kernel drop the page cache that groups without processes are charged for,
// whatever files it is of, so that the next group that reads them is charged for them: by
// memory.force_empty of cgroup v1 (Documentation/admin-guide/cgroup-v1/memory.rst, section 5.1)
// and memory.high of v2, which the kernel reclaims down to. It does its best: v2 leaves the last
// few pages that each processor has read.
func giveBackCache(dirs []string) {
	for _, dir := range dirs {
		_ = writeFile(dir, "memory.force_empty", "0")
		_ = writeFile(dir, "memory.high", "0")
	}
}
