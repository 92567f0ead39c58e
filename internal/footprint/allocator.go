package footprint

import (
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/linux"
)

// allocators are the libraries that take the place of glibc's malloc, by what
// their file names begin with.
var allocators = []struct{ prefix, name string }{
	{"libjemalloc", "jemalloc"},
	{"libtcmalloc", "tcmalloc"},
	{"libmimalloc", "mimalloc"},
}

// allocatorOf names the allocator that is mapped in place of glibc's, "" when
// there is none.
func allocatorOf(vmas []linux.VMA) string {
	for i := range vmas {
		base := filepath.Base(vmas[i].Path)
		for _, a := range allocators {
			if strings.HasPrefix(base, a.prefix) && strings.Contains(base, ".so") {
				return a.name
			}
		}
	}
	return ""
}

// giveToAllocator gives anonymous memory that is still nobody's to an
// allocator that keeps no headers which could be read; what it has by brk too.
func giveToAllocator(segs []segment, name string) {
	for i := range segs {
		g := &segs[i]
		switch {
		case g.owner == Unattributed && anonymous(g.vma) && g.vma.Accessible():
			g.owner, g.how, g.part = Malloc, Heuristic, kindAllocator+":"+name
			if g.vma.NoReserve() { // as jemalloc maps its memory
				g.how = Layout
			}
		case g.vma.Path == "[heap]" && g.owner == Malloc:
			g.part = kindAllocator + ":" + name
		}
	}
}
