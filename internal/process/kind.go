package process

import (
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/linux"
)

// Kind is a kind of JVM, such as HotSpot.
type Kind string

// kinds are the kinds of JVM, in the order in which a process is tried for them.
// find says whether the process is of the kind, and where its code lies. A further
// kind is a file with its name and its find, and a line here.
var kinds = []struct {
	kind Kind
	find func(proc linux.FS, t *Target) bool
}{
	{OpenJ9, findOpenJ9}, // before HotSpot: it has a libjvm.so, too
	{HotSpot, findHotSpot},
	{NativeImage, findNativeImage},
}

// Kinds lists the kinds of JVM that Find knows.
func Kinds() []Kind {
	var out []Kind
	for _, k := range kinds {
		out = append(out, k.kind)
	}
	return out
}

// recognise says whether the process is a JVM, and sets of what kind.
func (t *Target) recognise(proc linux.FS) bool {
	if len(t.VMAs) == 0 {
		return false // a thread of the kernel, or a process that ends
	}
	for _, k := range kinds {
		if k.find(proc, t) {
			t.Kind, t.Musl = k.kind, t.mapsMusl()
			return true
		}
	}
	return false
}

// takeLibrary takes the JVM's library: the first file that is mapped from its
// beginning and has such a name.
func (t *Target) takeLibrary(named func(name string) bool) bool {
	for i := range t.VMAs {
		if v := &t.VMAs[i]; v.Offset == 0 && v.Path != "" && named(fileName(v)) {
			t.LibjvmBase, t.LibjvmPath = v.Start, v.Path
			return true
		}
	}
	return false
}

// mapsMusl says whether the process's C library is musl: glibc's is libc.so.6.
func (t *Target) mapsMusl() bool {
	for i := range t.VMAs {
		if name := fileName(&t.VMAs[i]); strings.HasPrefix(name, "ld-musl-") || name == "libc.so" {
			return true
		}
	}
	return false
}

// fileName is the name of the file behind a mapping, without its folder.
func fileName(v *linux.VMA) string {
	return filepath.Base(strings.TrimSuffix(v.Path, " (deleted)"))
}
