package hotspot

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
)

// tampered is a recorded memory in which words were changed, and areas were
// added that hold whatever was made up for them.
type tampered struct {
	*recording
	words map[uint64]uint64
	areas []area
	reads int
}

type area struct {
	start, size uint64
	word        func(offset uint64) uint64 // the aligned word at an offset
}

func (m *tampered) ReadMem(p []byte, addr uint64) error {
	m.reads++
	for _, a := range m.areas {
		if off := addr - a.start; off < a.size && uint64(len(p)) <= a.size-off {
			for i := range p {
				at := off + uint64(i)
				p[i] = byte(a.word(at&^7) >> (8 * (at & 7)))
			}
			return nil
		}
	}
	if err := m.recording.ReadMem(p, addr); err != nil {
		return err
	}
	for at, w := range m.words {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], w)
		for i := range b {
			if off := at + uint64(i) - addr; off < uint64(len(p)) {
				p[off] = b[i]
			}
		}
	}
	return nil
}

// must is the value of what is known to be in a recording.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// madeUp is where areas are added: nothing of a recording lies there.
const madeUp = 0x100000000000

// hostiles are JVMs that were made up to cost whoever reads them time and memory.
var hostiles = []struct {
	name  string
	major int
	// tamper changes what m holds, which r reads.
	tamper func(t *testing.T, m *tampered, r *reader)
	// check looks at what came of it, beside what holds for every JVM.
	check func(t *testing.T, vm *VM)
}{
	{"as many threads as are listed at most", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		list, base, size := word(r.staticWord("ThreadsSMRSupport::_java_thread_list")), word(r.offset("JavaThread::_stack_base")), word(r.offset("JavaThread::_stack_size"))
		m.words[list+word(r.offset("ThreadsList::_length"))] = maxThreads
		m.words[list+word(r.offset("ThreadsList::_threads"))] = madeUp
		const objects = 2 * madeUp
		m.areas = append(m.areas,
			area{madeUp, maxThreads * 8, func(off uint64) uint64 { return objects + off/8*4096 }},
			area{objects, maxThreads * 4096, func(off uint64) uint64 {
				switch off % 4096 {
				case base:
					return madeUp + off
				case size:
					return maxStack
				}
				return 0
			}})
	}, func(t *testing.T, vm *VM) {
		if len(vm.Threads) != maxThreads {
			t.Errorf("%d threads", len(vm.Threads))
		}
	}},
	{"one thread again and again", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		list := word(r.staticWord("ThreadsSMRSupport::_java_thread_list"))
		first := word(r.word(word(r.member(list, "ThreadsList::_threads"))))
		m.words[list+word(r.offset("ThreadsList::_length"))] = maxThreads
		m.words[list+word(r.offset("ThreadsList::_threads"))] = madeUp
		m.areas = append(m.areas, area{madeUp, maxThreads * 8, func(uint64) uint64 { return first }})
	}, func(t *testing.T, vm *VM) {
		if len(vm.Threads) != 1 {
			t.Errorf("%d threads", len(vm.Threads))
		}
	}},
	{"a list of threads that comes back", 8, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		first := word(r.staticWord("Threads::_thread_list"))
		second := word(r.member(first, "JavaThread::_next"))
		m.words[second+word(r.offset("JavaThread::_next"))] = first
	}, func(t *testing.T, vm *VM) {
		if len(vm.Threads) != 2 || len(vm.Problems) == 0 {
			t.Errorf("%d threads, %v", len(vm.Threads), vm.Problems)
		}
	}},
	{"classes without end", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		object := word(r.objectClass())
		sibling, subclass := word(r.offset("Klass::_next_sibling")), word(r.offset("Klass::_subklass"))
		m.words[object+subclass] = madeUp
		m.areas = append(m.areas, area{madeUp, 1 << 40, func(off uint64) uint64 {
			switch off % 1024 {
			case sibling, subclass:
				return madeUp + (off*2654435761)%(1<<40)&^1023
			}
			return 0x0003000000000008 // fits every other field
		}})
	}, func(t *testing.T, vm *VM) {
		if len(vm.Classes) < maxClasses/2 {
			t.Errorf("%d classes", len(vm.Classes))
		}
	}},
	{"siblings that come back", 27, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		first := word(r.member(word(r.objectClass()), "Klass::_subklass"))
		m.words[first+word(r.offset("Klass::_next_sibling"))] = first
	}, nil},
	{"names without end", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		flags, n, name := word(r.staticWord("JVMFlag::flags")), word(r.staticWord("JVMFlag::numFlags")), word(r.offset("JVMFlag::_name"))
		for i := range n - 1 {
			m.words[flags+i*r.types["JVMFlag"]+name] = madeUp + i*8
		}
		m.areas = append(m.areas, area{madeUp, 1 << 20, func(uint64) uint64 { return 0x6161616161616161 }})
	}, func(t *testing.T, vm *VM) {
		if len(vm.Flags) != 0 {
			t.Errorf("flags %v", vm.Flags)
		}
	}},
	{"a heap over everything", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		heap := word(r.staticWord("Universe::_collectedHeap")) + word(r.offset("CollectedHeap::_reserved"))
		m.words[heap+word(r.offset("MemRegion::_start"))] = 0
		m.words[heap+word(r.offset("MemRegion::_word_size"))] = maxHeap / 8
	}, func(t *testing.T, vm *VM) {
		if !vm.Heap.Empty() {
			t.Errorf("heap %x", vm.Heap)
		}
	}},
	{"an archive over everything", 17, func(t *testing.T, m *tampered, r *reader) {
		word := must[uint64](t)
		m.words[word(r.static("MetaspaceObj::_shared_metaspace_base"))] = 0
		m.words[word(r.static("MetaspaceObj::_shared_metaspace_top"))] = 1 << 63
	}, func(t *testing.T, vm *VM) {
		if !vm.Archive.Empty() {
			t.Errorf("archive %x", vm.Archive)
		}
	}},
}

// However hostile a JVM is, reading it ends after so many reads, with so much
// memory, and what is taken from it is believable.
func TestReadVMOfHostileJVMs(t *testing.T) {
	const maxReads, maxAlloc = 8 << 20, 192 << 20
	for _, c := range hostiles {
		t.Run(c.name, func(t *testing.T) {
			m := &tampered{recording: load(t, c.major), words: map[uint64]uint64{}}
			s, err := ReadStructs(m, m.Base)
			if err != nil {
				t.Fatal(err)
			}
			c.tamper(t, m, &reader{s, m, m.Base})
			m.reads = 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			vm := ReadVMAgain(m, m.Base, s, nil, false)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; m.reads > maxReads || n > maxAlloc {
				t.Errorf("%d reads, %d bytes allocated", m.reads, n)
			}
			checkBelievable(t, vm)
			if c.check != nil {
				c.check(t, vm)
			}
		})
	}
}

// cancelled is a memory that closes after some reads, as one whose reader is
// told to stop.
type cancelled struct {
	Memory
	left  int
	after int // reads that came later
}

func (m *cancelled) ReadMem(p []byte, addr uint64) error {
	if m.left--; m.left < 0 {
		m.after++
		return context.Canceled
	}
	return m.Memory.ReadMem(p, addr)
}

// A memory that closes ends the reading soon, wherever it is: only what is listed
// already is still tried.
func TestReadVMOfClosedMemory(t *testing.T) {
	rec := load(t, 17)
	for left := 1; left < 1<<15; left *= 2 {
		m := &cancelled{Memory: rec, left: left}
		if vm, err := ReadVM(m, rec.Base); err == nil {
			checkBelievable(t, vm)
		}
		if m.after > 1<<12 {
			t.Errorf("%d reads after %d", m.after, left)
		}
	}
}
