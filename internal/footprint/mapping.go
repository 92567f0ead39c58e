package footprint

import (
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/linux"
)

// mappingClaim is the claim on a mapping as far as its kind and name tell.
func mappingClaim(v *linux.VMA) claim {
	c := claim{span: span{v.Start, v.End}, owner: Unattributed, how: Exact, rank: rankMapping}
	path := strings.TrimSuffix(v.Path, " (deleted)")
	switch {
	case path == "[heap]":
		c.owner, c.part = Malloc, PartMainArena
	case strings.HasPrefix(path, "[anon: glibc: malloc"), strings.HasPrefix(path, "[anon: glibc: loader malloc"):
		c.owner = Malloc
	case strings.HasPrefix(path, "[anon: glibc: pthread"):
		c.owner = ThreadStacks
	case path == "[stack]":
		c.owner, c.part = ThreadStacks, partPrimordial
	case strings.HasPrefix(path, "[v"): // vdso, vvar, vsyscall
		c.owner, c.part = JVMOther, partKernelPages
	case strings.HasPrefix(path, "/memfd:java_heap"), strings.HasPrefix(path, "/java_heap"):
		c.owner = JavaHeap // ZGC's backing file
	case strings.Contains(path, "/hsperfdata_"):
		c.owner, c.part = JVMOther, partPerfData
	case strings.HasSuffix(path, ".jsa"), strings.HasSuffix(path, ".aot"):
		c.owner, c.part = CDS, FilePart(baseName(path))
	case strings.HasPrefix(path, "/SYSV"), strings.HasPrefix(path, "/dev/shm/"), strings.HasPrefix(path, "/dev/zero"):
		c.owner, c.part = MappedFiles, partShared
	case v.FileBacked():
		c.owner, c.part = MappedFiles, under(FilePart(baseName(path)), sectionName(v))
	default:
		c.how = Heuristic
	}
	return c
}

func baseName(path string) string { return linux.PrintableName(filepath.Base(path)) }

// sectionName is the id of the part of a library that a mapping is, by its
// permissions.
func sectionName(v *linux.VMA) string {
	switch {
	case v.Perms[2] == 'x':
		return partText
	case v.Writable():
		return partData
	}
	return partReadOnly
}

// anonymous says that a mapping is of no file, and not one that the kernel makes
// for a purpose. It may have been given a name: by glibc (glibc.mem.decorate_maps)
// or by the program (PR_SET_VMA_ANON_NAME in prctl(2)).
func anonymous(v *linux.VMA) bool {
	return !v.FileBacked() && (v.Path == "" || strings.HasPrefix(v.Path, "[anon:"))
}
