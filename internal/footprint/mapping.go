package footprint

import (
	"strings"

	"tare/internal/linux"
)

// mappingOwner is the owner of a mapping as far as its kind and name tell.
func mappingOwner(v *linux.VMA) (Owner, How) {
	path := strings.TrimSuffix(v.Path, " (deleted)")
	switch {
	case path == "[heap]", strings.HasPrefix(path, "[anon: glibc: malloc"):
		return Malloc, Exact
	case path == "[stack]":
		return ThreadStacks, Exact
	case strings.HasPrefix(path, "[v"): // vdso, vvar, vsyscall
		return JVMOther, Exact
	case strings.HasPrefix(path, "/memfd:java_heap"), strings.HasPrefix(path, "/java_heap"):
		return JavaHeap, Exact // ZGC's backing file
	case strings.Contains(path, "/hsperfdata_"):
		return JVMOther, Exact
	case strings.HasSuffix(path, ".jsa"), strings.HasSuffix(path, ".aot"):
		return CDS, Exact
	case v.FileBacked():
		return MappedFiles, Exact
	}
	return Unattributed, Heuristic
}

// anonymous says that a mapping has neither file nor name.
func anonymous(v *linux.VMA) bool { return !v.FileBacked() && v.Path == "" }
