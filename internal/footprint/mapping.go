package footprint

import (
	"path/filepath"
	"strings"

	"tare/internal/linux"
)

// mappingClaim is the claim on a mapping as far as its kind and name tell.
func mappingClaim(v *linux.VMA) claim {
	c := claim{span: span{v.Start, v.End}, owner: Unattributed, how: Exact, rank: rankMapping}
	path := strings.TrimSuffix(v.Path, " (deleted)")
	switch {
	case path == "[heap]":
		c.owner, c.part = Malloc, mainArena
	case strings.HasPrefix(path, "[anon: glibc: malloc"):
		c.owner = Malloc
	case path == "[stack]":
		c.owner, c.part = ThreadStacks, "primordial thread"
	case strings.HasPrefix(path, "[v"): // vdso, vvar, vsyscall
		c.owner, c.part = JVMOther, "kernel's pages (vdso)"
	case strings.HasPrefix(path, "/memfd:java_heap"), strings.HasPrefix(path, "/java_heap"):
		c.owner = JavaHeap // ZGC's backing file
	case strings.Contains(path, "/hsperfdata_"):
		c.owner, c.part = JVMOther, "performance data"
	case strings.HasSuffix(path, ".jsa"), strings.HasSuffix(path, ".aot"):
		c.owner, c.part = CDS, baseName(path)
	case strings.HasPrefix(path, "/SYSV"), strings.HasPrefix(path, "/dev/shm/"), strings.HasPrefix(path, "/dev/zero"):
		c.owner, c.part = MappedFiles, "shared memory"
	case v.FileBacked():
		c.owner, c.part = MappedFiles, baseName(path)+"/"+sectionName(v)
	default:
		c.how = Heuristic
	}
	return c
}

func baseName(path string) string { return linux.PrintableName(filepath.Base(path)) }

// sectionName says what part of a library a mapping is, by its permissions.
func sectionName(v *linux.VMA) string {
	switch {
	case v.Perms[2] == 'x':
		return "text"
	case v.Writable():
		return "data"
	}
	return "read-only"
}

// anonymous says that a mapping has neither file nor name.
func anonymous(v *linux.VMA) bool { return !v.FileBacked() && v.Path == "" }
