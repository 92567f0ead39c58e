package footprint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostiles are made-up processes that try to hold up who weighs them.
var hostiles = []struct {
	name, what string
	make       func(*testing.T, *hostileJVM)
}{
	{"threads that overlap", "2¹⁸ Java threads with stacks of 16 GiB, one page apart", func(_ *testing.T, j *hostileJVM) {
		j.mapped(1<<40, 1<<31, "rw-p", "")
		j.javaThreads(1<<18, func(i uint64) (uint64, uint64) { return 1<<40 + 1<<34 + i*hostilePage, 1 << 34 }, 1<<18)
	}},
	{"threads nested", "2¹⁸ Java threads, each stack within the one before", func(_ *testing.T, j *hostileJVM) {
		j.mapped(1<<40, 1<<32, "rw-p", "")
		j.javaThreads(1<<18, func(i uint64) (uint64, uint64) { return 1<<40 + 1<<32 - i*hostilePage, 1<<32 - 2*i*hostilePage }, 1<<18)
	}},
	{"threads scattered", "2¹⁸ Java threads in 2¹⁴ pages far apart", func(_ *testing.T, j *hostileJVM) {
		const pages = 1 << 14
		j.mapped(1<<40, pages<<20, "rw-p", "")
		j.maps[len(j.maps)-1].rss = pages * hostilePage
		j.threadFields()
		list := j.room(8 << 18)
		for i := range uint64(1 << 18) {
			at := 1<<40 + i%pages<<20
			j.words(list+8*i, at)
			if i < pages {
				j.words(at, at+1<<30, 1<<20)
			}
		}
		j.threadList(list, 1<<18)
	}},
	{"threads in a ring", "a list of threads that leads back to its beginning", func(_ *testing.T, j *hostileJVM) {
		j.threadFields()
		j.fields["JavaThread::_next"] = 24
		first := j.room(64)
		j.words(first, 1<<41, 1<<20, 0, first)
		j.static("Threads::_thread_list", first)
	}},
	{"regions of G1", "2¹⁸ regions, no two neighbours of one kind", func(_ *testing.T, j *hostileJVM) {
		const regions, size = 1 << 18, 256 << 10
		j.mapped(1<<41, regions*size, "rw-p", "")
		j.maps[len(j.maps)-1].rss = 1 << 30
		j.flag("UseG1GC", 1)
		heap := j.room(256)
		j.static("Universe::_collectedHeap", heap)
		for name, offset := range map[string]uint64{
			"CollectedHeap::_reserved": 0, "MemRegion::_start": 0, "MemRegion::_word_size": 8, "G1CollectedHeap::_hrm": 64,
			"HeapRegionManager::_regions": 0, "G1HeapRegionTable::_base": 0, "G1HeapRegionTable::_length": 8,
			"HeapRegion::_type": 0, "HeapRegionType::_tag": 0,
		} {
			j.fields[name] = offset
		}
		j.static("HeapRegion::GrainBytes", size)
		young, old := j.room(16), j.room(16)
		j.words(young, 2)
		j.words(old, 16)
		table := make([]uint64, regions)
		for i := range table {
			table[i] = []uint64{young, old}[i%2]
		}
		base := j.room(8 * regions)
		j.words(base, table...)
		j.words(heap, 1<<41, regions*size/8)
		j.words(heap+64, base, regions)
	}},
	{"classes without end", "a tree of classes that lie in each other, in 4096 pages", func(_ *testing.T, j *hostileJVM) {
		j.static("Universe::_boolArrayKlassObj", 1<<40)
		for i, name := range []string{"Klass::_super", "Klass::_subklass", "Klass::_next_sibling", "InstanceKlass::_constants", "InstanceKlass::_methods", "InstanceKlass::_init_state"} {
			j.fields[name] = uint64(i) * 8
		}
		j.fields["Klass::_layout_helper"] = 48
		const words = 4096 * hostilePage / 8
		j.mapped(1<<40, words*8, "rw-p", "")
		text := make([]uint64, words)
		for i := range text {
			text[i] = 1<<40 + uint64(i*2654435761)%words*8
		}
		text[0] = 0
		j.words(1<<40, text...)
	}},
	{"free chunks in a ring", "an arena of glibc whose list of free chunks does not end", func(_ *testing.T, j *hostileJVM) {
		j.arenas(1, true)
	}},
	{"arenas", "2¹³ heaps of glibc, each with an arena, in one ring", func(_ *testing.T, j *hostileJVM) {
		j.arenas(1<<13, false)
	}},
	{"large chunks", "16 000 mappings full of what looks like chunks of a page", func(_ *testing.T, j *hostileJVM) {
		const mappings, pages = 16000, 2
		for i := range uint64(mappings) {
			at := 1<<40 + i*2*pages*hostilePage
			j.mapped(at, pages*hostilePage, "rw-p", "")
			for p := range uint64(pages) {
				j.words(at+p*hostilePage, 0, hostilePage|2)
			}
		}
	}},
	{"mappings", "262 144 mappings, no two neighbours alike", func(_ *testing.T, j *hostileJVM) {
		for i := range uint64(1 << 18) {
			j.mapped(1<<40+i*64*1024, 60<<10, []string{"rw-p", "r--p"}[i%2], "")
		}
	}},
	{"paths", "65 000 mapped files with paths of 4000 bytes", func(_ *testing.T, j *hostileJVM) {
		for i := range uint64(65000) {
			j.mapped(1<<40+i*hostilePage, hostilePage, "r--p", fmt.Sprintf("/%s/%d.so", strings.Repeat("x", 4000), i))
		}
	}},
	{"libraries", "65 000 libraries that say they reach over the next tebibyte", func(_ *testing.T, j *hostileJVM) {
		h := make([]byte, 0, 128)
		h = append(h, "\x7fELF\x02\x01"...)
		h = append(h, make([]byte, 122)...)
		h[32], h[54], h[56], h[64] = 64, 56, 1, 1
		h[64+44] = 255 // 2⁴⁰ bytes in memory
		for i := range uint64(32500) {
			at := 1<<40 + i*3*hostilePage
			j.mapped(at, hostilePage, "r--p", fmt.Sprintf("/lib/%d.so", i))
			j.mapped(at+hostilePage, hostilePage, "rw-p", "")
			if i < 1<<14 {
				j.write(at, h)
			}
		}
	}},
	{"address space", "8 TiB of accessible memory, of which the last page is resident", func(_ *testing.T, j *hostileJVM) {
		j.mapped(1<<42, 1<<42, "rw-p", "")
		j.maps[len(j.maps)-1].rss = hostilePage
	}},
	{"strings without end", "8192 options and 16 384 fields with names of 511 bytes", func(_ *testing.T, j *hostileJVM) {
		long := strings.Repeat("y", 480)
		for i := range 1 << 13 {
			j.flag(fmt.Sprintf("%s%d", long, i), 1)
			j.fields[fmt.Sprintf("%s%d::%s", long, i, long)] = 8
		}
	}},
	{"native threads", "4000 threads whose stack pointers lie in one mapping each", func(t *testing.T, j *hostileJVM) {
		for i := range uint64(4000) {
			at := 1<<40 + i*3*hostilePage
			j.mapped(at, hostilePage, "---p", "")
			j.mapped(at+hostilePage, 2*hostilePage, "rw-p", "")
			dir := filepath.Join(j.dir, "task", fmt.Sprint(i+1))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "syscall"), fmt.Appendf(nil, "202 0x0 %#x 0x0\n", at+2*hostilePage), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"tables", "60 000 mappings that each have the size of a collector's table", func(_ *testing.T, j *hostileJVM) {
		j.flag("UseG1GC", 1)
		heap := j.room(64)
		j.static("Universe::_collectedHeap", heap)
		for name, offset := range map[string]uint64{"CollectedHeap::_reserved": 0, "MemRegion::_start": 0, "MemRegion::_word_size": 8} {
			j.fields[name] = offset
		}
		j.words(heap, 1<<42, 32<<20/8)
		for i := range uint64(60000) {
			j.mapped(1<<40+i*72*1024, 64<<10, "rw-p", "")
		}
	}},
}

// flag adds an option of type bool.
func (j *hostileJVM) flag(name string, value byte) {
	j.flags = append(j.flags, [2]uint64{j.text(name), j.room(8)})
	j.write(j.flags[len(j.flags)-1][1], []byte{value})
}

func (j *hostileJVM) threadFields() {
	j.fields["JavaThread::_stack_base"], j.fields["JavaThread::_stack_size"] = 0, 8
}

// threadList makes a list of Java threads out of an array.
func (j *hostileJVM) threadList(array, length uint64) {
	j.fields["ThreadsList::_length"], j.fields["ThreadsList::_threads"] = 0, 8
	list := j.room(16)
	j.words(list, length, array)
	j.static("ThreadsSMRSupport::_java_thread_list", list)
}

// javaThreads makes Java threads with stacks, the objects one after the other.
func (j *hostileJVM) javaThreads(n uint64, stack func(i uint64) (base, size uint64), length uint64) {
	j.threadFields()
	array, objects := j.room(8*n), j.room(16*n)
	for i := range n {
		base, size := stack(i)
		j.words(objects+16*i, base, size)
		j.words(array+8*i, objects+16*i)
	}
	j.threadList(array, length)
}

// arenas makes heaps of glibc's malloc, each with an arena that leads to the next,
// and a free chunk that leads to itself when ring is set.
func (j *hostileJVM) arenas(n uint64, ring bool) {
	const base, size, heap = 1 << 41, 64 << 20, 0x3000
	for i := range n {
		at := base + i*size
		state, next := at+0x30, base+(i+1)%n*size+0x30
		j.mapped(at, heap, "rw-p", "")
		j.mapped(at+heap, size-heap, "---p", "")
		words := make([]uint64, 2200/8)
		bins := func(w int) uint64 { return state + 112 + uint64(w/2)*16 - 16 }
		for w := range 254 {
			words[14+w] = bins(w)
		}
		words[12], words[2160/8], words[2184/8] = at+0x2000, next, heap
		if ring {
			words[14] = at + 0x1800
			j.words(at+0x1800, 0, 0x21, at+0x1800, at+0x1800)
		}
		j.words(at, state, 0, heap, heap)
		j.words(state, words...)
		j.words(at+0x2000, 0, 0x1001)
	}
}

// TestHostiles checks that the corpus has what it is said to have.
func TestHostiles(t *testing.T) {
	var names []string
	for _, h := range hostiles {
		names = append(names, h.name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(hostiles) || n < 12 {
		t.Errorf("%d hostile JVMs of %d names", len(hostiles), n)
	}
}
