// Package hotspot reads what the memory of a HotSpot JVM says about the JVM:
// its flags, heap, code cache, threads, classes, performance counters. It asks
// nothing of the JVM: no attach, no signal, no safepoint.
package hotspot

import (
	"errors"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"strings"

	"tare.dev/tare/internal/lazy"
)

// CodeHeap is a reserved part of the code cache, with the map of its segments.
type CodeHeap struct {
	Name           string
	Memory, Segmap Region
}

// JavaThread is a thread that HotSpot represents by a JavaThread: an application
// thread, a compiler thread, or one of the JVM's service threads.
type JavaThread struct {
	// TID is the thread's id in the JVM's own PID namespace.
	TID   int
	Stack Region
}

// VM is what a JVM's memory says about the JVM. A part that this JVM does not
// describe, or that could not be read, is empty; Problems says why.
type VM struct {
	Version   string // such as "25.0.3" or "1.8.0_504"
	Major     int
	Collector string // such as "G1"
	NMT       string // "off", "summary" or "detail"
	// Flags holds the flags that decide on memory, and their values as in options.
	Flags map[string]string
	// Counters are the JVM's performance counters; nil with -XX:-UsePerfData.
	Counters *PerfCounters
	Heap     Region // reserved; empty for ZGC
	// Spaces are the parts of the heap, where the collector describes them.
	Spaces    []HeapSpace
	CodeHeaps []CodeHeap
	Threads   []JavaThread
	Archive   Region // the CDS or AOT archive; empty on JDK 8 and 11
	PerfData  Region
	CardTable Region
	// ClassSpaceBytes is the reserved size of the compressed class space; 0 when
	// there is none.
	ClassSpaceBytes int64
	// StackBytes are the default stack sizes of Java, compiler and VM
	// threads.
	StackBytes []int64
	// MarkStackBytes is the reserved size of G1's mark stack, ZMarkStackBytes that
	// of ZGC's mark stacks.
	MarkStackBytes, ZMarkStackBytes int64
	// GCTables are the collector's tables, without the card table.
	GCTables []GCTable
	// Classes are the addresses of Klass structures. Metadata are the addresses of
	// constant pools and method tables. Neither holds what is in the archive.
	Classes, Metadata []uint64
	// Direct is nil when the JVM does not tell.
	Direct   *DirectMemory
	Problems []error

	direct *directClass // found once
}

// ErrStarting says that the JVM is starting and has no heap yet.
var ErrStarting = errors.New("not made yet: the JVM is starting")

const (
	maxThreads   = 1 << 18
	maxClasses   = 1 << 19
	maxCodeHeaps = 16
	maxStack     = 1 << 34
	maxHeap      = 1 << 46
	maxCode      = 1 << 33
	maxArchive   = 1 << 36
	maxPerfData  = 1 << 30
	// maxAddress is where user space ends with page tables of five levels.
	maxAddress = 1 << 56
)

// ReadVM reads the JVM whose libjvm is mapped at base. It fails only when the JVM's
// description of itself cannot be read.
func ReadVM(mem Memory, base uint64) (*VM, error) {
	s, err := ReadStructs(mem, base)
	if err != nil {
		return nil, err
	}
	return ReadVMAgain(mem, base, s, nil, false), nil
}

// ReadVMAgain reads a JVM by a description that was read before. Where last, an
// earlier reading of the same JVM, is not nil, the classes are taken from it unless
// one was loaded or unloaded since; with keepFlags so are the version and the
// flags.
func ReadVMAgain(mem Memory, base uint64, s *Structs, last *VM, keepFlags bool) *VM {
	r := &reader{s, mem, base}
	return r.readVM(last, keepFlags)
}

// vmPart is a part of what is read of a JVM.
type vmPart struct {
	name string
	read func(*reader) error
}

func (s *reader) readVM(last *VM, keepFlags bool) *VM {
	vm := &VM{}
	if last != nil && len(last.Problems) > 0 {
		last = nil
	}
	parts := []vmPart{{"version", vm.readVersion}, {"flags", vm.readFlags}}
	if last != nil && keepFlags {
		parts = nil
		vm.Version, vm.Major, vm.Collector, vm.NMT, vm.Flags = last.Version, last.Major, last.Collector, last.NMT, last.Flags
		vm.ClassSpaceBytes, vm.StackBytes = last.ClassSpaceBytes, last.StackBytes
		vm.MarkStackBytes, vm.ZMarkStackBytes = last.MarkStackBytes, last.ZMarkStackBytes
	}
	parts = append(parts,
		vmPart{"heap", vm.readHeap},
		vmPart{"heap spaces", vm.readSpaces},
		vmPart{"collector's tables", vm.readGCTables},
		vmPart{"code cache", vm.readCodeHeaps},
		vmPart{"threads", vm.readThreads},
		vmPart{"class archive", vm.readArchive},
		vmPart{"performance data", vm.readPerfData},
		vmPart{"card table", vm.readCardTable},
		vmPart{"classes", func(s *reader) error {
			if last != nil && sameClasses(vm.Counters, last.Counters) {
				vm.Classes, vm.Metadata = last.Classes, last.Metadata
				return nil
			}
			return vm.readClasses(s)
		}},
		vmPart{"direct buffers", func(s *reader) error {
			if last != nil {
				return vm.readDirect(s, last.direct)
			}
			return vm.readDirect(s, nil)
		}})
	for _, part := range parts {
		if err := part.read(s); err != nil {
			vm.Problems = append(vm.Problems, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return vm
}

// sameClasses says that no class was loaded or unloaded between two readings.
func sameClasses(a, b *PerfCounters) bool {
	return a != nil && b != nil && a.LoadedClasses > 0 && a.LoadedClasses == b.LoadedClasses && a.UnloadedClasses == b.UnloadedClasses
}

var jreVersion = lazy.Regexp(`JRE \(([0-9][0-9A-Za-z._]*)`)

// readVersion takes the Java version out of "OpenJDK 64-Bit Server VM
// (25.504-b01) for linux-amd64 JRE (1.8.0_504-…), built on …".
func (vm *VM) readVersion(s *reader) error {
	at, err := s.staticWord("Abstract_VM_Version::_s_internal_vm_info_string")
	if err != nil {
		return err
	}
	text, err := s.cstring(at)
	if err != nil {
		return err
	}
	m := jreVersion().FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("no version in %.80q", text)
	}
	vm.Version = m[1]
	vm.Major, err = Major(vm.Version)
	return err
}

// Major is the feature version of a Java version: 8 for "1.8.0_504", 25 for
// "25.0.3".
func Major(version string) (int, error) {
	digits := strings.TrimPrefix(version, "1.")
	if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("no Java version: %.40q", version)
	}
	return n, nil
}

// collectors are named by the flag that selects them.
var collectors = []struct{ flag, name string }{
	{"UseG1GC", "G1"},
	{"UseSerialGC", "Serial"},
	{"UseParallelGC", "Parallel"},
	{"UseConcMarkSweepGC", "CMS"},
	{"UseZGC", "ZGC"},
	{"UseShenandoahGC", "Shenandoah"},
	{"UseEpsilonGC", "Epsilon"},
}

// CollectorByFlags names the collector of a JVM by the flags that are on, such as
// UseG1GC; it is "" when none of them is. major is the JVM's feature version: JDK 8
// sets no flag for Serial, its choice for one processor or less than 2 GB (JDK 8:
// Universe::initialize_heap in src/share/vm/memory/universe.cpp).
func CollectorByFlags(major int, on func(flag string) bool) string {
	for _, c := range collectors {
		if on(c.flag) {
			return c.name
		}
	}
	if major == 8 {
		return "Serial"
	}
	return ""
}

func (vm *VM) readFlags(s *reader) error {
	flags, err := readFlags(s)
	if err != nil {
		return err
	}
	vm.Collector = CollectorByFlags(vm.Major, flags.boolean)
	if vm.NMT, err = flags.text("NativeMemoryTracking"); err != nil {
		return err
	}
	if flags.boolean("UseCompressedClassPointers") || vm.Major >= 27 {
		vm.ClassSpaceBytes = flags.size("CompressedClassSpaceSize")
	}
	for _, f := range []string{"ThreadStackSize", "CompilerThreadStackSize", "VMThreadStackSize"} {
		if kib := flags.size(f); kib > 0 && kib < maxStack>>10 {
			vm.StackBytes = append(vm.StackBytes, kib<<10)
		}
	}
	vm.MarkStackBytes = flags.size("MarkStackSize") * 8
	vm.ZMarkStackBytes = flags.size("ZMarkStackSpaceLimit")
	vm.Flags = flags.values()
	return nil
}

func (vm *VM) readHeap(s *reader) error {
	heap, err := s.staticWord("Universe::_collectedHeap")
	if err != nil {
		return err
	}
	if heap == 0 {
		return ErrStarting
	}
	off, err := s.offset("CollectedHeap::_reserved")
	if err != nil {
		return err
	}
	reserved, err := s.memRegion(heap + off)
	if err == nil {
		vm.Heap, err = regionIn(reserved, maxHeap)
	}
	return err
}

// memRegion reads a MemRegion: a start and a length in words.
func (s *reader) memRegion(addr uint64) (Region, error) {
	start, err := s.member(addr, "MemRegion::_start")
	if err != nil {
		return Region{}, err
	}
	words, err := s.member(addr, "MemRegion::_word_size")
	if err != nil || words > maxHeap/8 {
		return Region{}, errors.Join(err, checkWords(words))
	}
	return Region{start, start + words*8}, nil
}

func checkWords(words uint64) error {
	if words > maxHeap/8 {
		return fmt.Errorf("region of %d words", words)
	}
	return nil
}

// checkRegion refuses what no JVM reserves. A region that is not there is null at
// both ends.
func checkRegion(r Region, most int64) error {
	if r == (Region{}) {
		return nil
	}
	if r.Start == 0 || r.End < r.Start || r.End > maxAddress || r.Size() > most {
		return fmt.Errorf("unbelievable region %#x-%#x", r.Start, r.End)
	}
	return nil
}

// regionIn is region, or none with the reason when it is not believable.
func regionIn(r Region, most int64) (Region, error) {
	if err := checkRegion(r, most); err != nil {
		return Region{}, err
	}
	return r, nil
}

func (vm *VM) readCodeHeaps(s *reader) error {
	heaps, err := s.codeHeaps()
	if err != nil {
		return err
	}
	for i, at := range heaps {
		h := CodeHeap{Name: codeHeapName(i, len(heaps))}
		for f, to := range map[string]*Region{"CodeHeap::_memory": &h.Memory, "CodeHeap::_segmap": &h.Segmap} {
			off, err := s.offset(f)
			if err != nil {
				return err
			}
			if *to, err = s.virtualSpace(at + off); err != nil {
				return err
			}
			if err := checkRegion(*to, maxCode); err != nil {
				return err
			}
		}
		vm.CodeHeaps = append(vm.CodeHeaps, h)
	}
	return nil
}

// codeHeapName names a code heap by its place: the JVM sorts them by the kind
// of code that they hold (JDK: src/hotspot/share/code/codeBlob.hpp,
// CodeBlobType). Without profiled code there are two, without segments one.
func codeHeapName(i, n int) string {
	switch {
	case n == 1:
		return "all code"
	case i == 0:
		return "non-profiled methods"
	case i == n-1:
		return "JVM's own code"
	}
	return "profiled methods"
}

// virtualSpace reads what a VirtualSpace has reserved.
func (s *reader) virtualSpace(at uint64) (Region, error) {
	low, err := s.member(at, "VirtualSpace::_low_boundary")
	if err != nil {
		return Region{}, err
	}
	high, err := s.member(at, "VirtualSpace::_high_boundary")
	return Region{low, high}, err
}

// codeHeaps lists the CodeHeap objects: one on JDK 8, a GrowableArray later.
func (s *reader) codeHeaps() ([]uint64, error) {
	if s.has("CodeCache::_heap") {
		h, err := s.staticWord("CodeCache::_heap")
		return []uint64{h}, err
	}
	array, err := s.staticWord("CodeCache::_heaps")
	if err != nil {
		return nil, err
	}
	length := "GrowableArrayBase::_len"
	if !s.has(length) {
		length = "GenericGrowableArray::_len"
	}
	n, err := s.member(array, length)
	if err != nil {
		return nil, err
	}
	if n = uint64(uint32(n)); n > maxCodeHeaps {
		return nil, fmt.Errorf("%d code heaps", n)
	}
	data, err := s.member(array, "GrowableArray<int>::_data")
	if err != nil {
		return nil, err
	}
	return s.words(data, int(n))
}

// words reads n pointers.
func (s *reader) words(at uint64, n int) ([]uint64, error) {
	buf := make([]byte, n*8)
	if err := s.mem.ReadMem(buf, at); err != nil {
		return nil, err
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = u64(buf[i*8:])
	}
	return out, nil
}

func (vm *VM) readThreads(s *reader) error {
	threads, err := s.javaThreads()
	seen := make(map[uint64]bool, len(threads))
	for _, t := range threads {
		if seen[t] {
			continue // no JVM lists a thread twice
		}
		seen[t] = true
		// A thread may end while it is read: it is left out.
		if jt, ok := s.javaThread(t); ok {
			vm.Threads = append(vm.Threads, jt)
		}
	}
	return err
}

// javaThreads lists the JavaThread objects: a linked list up to JDK 11, the
// current ThreadsList later.
func (s *reader) javaThreads() ([]uint64, error) {
	if !s.has("ThreadsSMRSupport::_java_thread_list") {
		first, err := s.staticWord("Threads::_thread_list")
		if err != nil {
			return nil, err
		}
		var out []uint64
		for at, err := range s.list(first, "JavaThread::_next", maxThreads) {
			if err != nil {
				return out, err
			}
			out = append(out, at)
		}
		return out, nil
	}
	list, err := s.staticWord("ThreadsSMRSupport::_java_thread_list")
	if err != nil {
		return nil, err
	}
	n, err := s.member(list, "ThreadsList::_length")
	if err != nil {
		return nil, err
	}
	if n = uint64(uint32(n)); n > maxThreads {
		return nil, fmt.Errorf("%d Java threads", n)
	}
	array, err := s.member(list, "ThreadsList::_threads")
	if err != nil {
		return nil, err
	}
	return s.words(array, int(n))
}

// list follows a linked list from its first element. It ends with an error where
// the list cannot be read, comes back to an element, or has more than most.
func (s *reader) list(first uint64, next string, most int) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		seen := map[uint64]bool{}
		var err error
		for at := first; at != 0; {
			if seen[at] || len(seen) == most {
				yield(0, fmt.Errorf("%s: a list that comes back, or has more than %d elements", next, most))
				return
			}
			seen[at] = true
			if !yield(at, nil) {
				return
			}
			if at, err = s.member(at, next); err != nil {
				yield(0, err)
				return
			}
		}
	}
}

func (s *reader) javaThread(at uint64) (JavaThread, bool) {
	base, err1 := s.member(at, "JavaThread::_stack_base")
	size, err2 := s.member(at, "JavaThread::_stack_size")
	if err1 != nil || err2 != nil || size == 0 || size > maxStack || base <= size || base > maxAddress {
		return JavaThread{}, false
	}
	t := JavaThread{Stack: Region{base - size, base}}
	osthread := "Thread::_osthread"
	if !s.has(osthread) {
		osthread = "JavaThread::_osthread"
	}
	if os, err := s.member(at, osthread); err == nil {
		if tid, err := s.member(os, "OSThread::_thread_id"); err == nil {
			t.TID = int(uint32(tid))
		}
	}
	return t, true
}

func (vm *VM) readArchive(s *reader) error {
	for _, name := range []string{"aot", "shared"} {
		base, top := "MetaspaceObj::_"+name+"_metaspace_base", "MetaspaceObj::_"+name+"_metaspace_top"
		if !s.has(base) {
			continue
		}
		archive, err := s.staticRegion(base, top)
		if err == nil {
			vm.Archive, err = regionIn(archive, maxArchive)
		}
		return err
	}
	return nil // JDK 8 and 11 do not say: the mapped file does
}

func (s *reader) staticRegion(start, end string) (Region, error) {
	from, err := s.staticWord(start)
	if err != nil {
		return Region{}, err
	}
	to, err := s.staticWord(end)
	return Region{from, to}, err
}

func (vm *VM) readPerfData(s *reader) error {
	memory, err := s.staticRegion("PerfMemory::_start", "PerfMemory::_end")
	if err == nil {
		vm.PerfData, err = regionIn(memory, maxPerfData)
	}
	if err != nil || vm.PerfData.Empty() {
		return err
	}
	data, err := ReadPerfMemory(s.mem, vm.PerfData)
	if err != nil {
		return err
	}
	counters := data.Counters()
	vm.Counters = &counters
	return nil
}

// FindPerfMemory is where the JVM whose libjvm is mapped at base has its performance
// data; it is empty before the JVM has begun to keep them, and with -XX:-UsePerfData.
func FindPerfMemory(mem Memory, base uint64) (Region, error) {
	structs, err := ReadStructs(mem, base)
	if err != nil {
		return Region{}, err
	}
	s := &reader{structs, mem, base}
	memory, err := s.staticRegion("PerfMemory::_start", "PerfMemory::_end")
	if err != nil {
		return Region{}, err
	}
	return regionIn(memory, maxPerfData)
}

// ReadPerfMemory reads the performance data of a JVM in its memory. A JVM has no file
// of them that its user could not write, or whose user has no name.
func ReadPerfMemory(mem Memory, at Region) (*PerfData, error) {
	// Without a file behind, what is not in use yet was never touched.
	var prologue [perfPrologueSize]byte
	if err := mem.ReadMem(prologue[:], at.Start); err != nil {
		return nil, err
	}
	used := int64(u32(prologue[perfUsedOffset:]))
	buf := make([]byte, min(max(used, perfPrologueSize), at.Size(), perfMaxFile))
	if err := mem.ReadMem(buf, at.Start); err != nil {
		return nil, err
	}
	return ParsePerfData(buf)
}

func (vm *VM) readCardTable(s *reader) error {
	var table uint64
	var err error
	kind := "CardTable"
	if s.has("BarrierSet::_barrier_set") {
		table, err = s.chain("BarrierSet::_barrier_set", "CardTableBarrierSet::_card_table")
	} else { // JDK 8: the barrier set is the card table
		kind = "CardTableModRefBS"
		table, err = s.chain("Universe::_collectedHeap", "CollectedHeap::_barrier_set")
	}
	if err != nil {
		return err
	}
	// ZGC, Shenandoah and Epsilon have a barrier set of another type, whose
	// word in this place is anything: what it leads to is checked.
	start, err1 := s.member(table, kind+"::_byte_map")
	size, err2 := s.member(table, kind+"::_byte_map_size")
	r := Region{start, start + size}
	if err1 == nil && err2 == nil && size > 0 && size <= uint64(vm.Heap.Size())/128+1<<16 && checkRegion(r, maxHeap) == nil {
		vm.CardTable = r
	}
	return nil
}

// readClasses walks the tree of classes below java.lang.Object, which holds
// every loaded class, interface and array.
func (vm *VM) readClasses(s *reader) error {
	root, err := s.objectClass()
	if err != nil {
		return err
	}
	w, err := newClassWalk(s, vm.Archive)
	if err != nil {
		return err
	}
	w.walk(root)
	vm.Classes, vm.Metadata = w.classes, w.metadata
	sort.Slice(vm.Classes, func(i, j int) bool { return vm.Classes[i] < vm.Classes[j] })
	sort.Slice(vm.Metadata, func(i, j int) bool { return vm.Metadata[i] < vm.Metadata[j] })
	return nil
}

// objectClass finds java.lang.Object, above any other class.
func (s *reader) objectClass() (uint64, error) {
	class, err := s.anyClass()
	for n := 0; err == nil && n < 64; n++ {
		up, err := s.member(class, "Klass::_super")
		if err != nil {
			return 0, err
		}
		if up == 0 {
			break
		}
		class = up
	}
	return class, err
}

// anyClass finds any class to start from.
func (s *reader) anyClass() (uint64, error) {
	if s.has("Universe::_boolArrayKlassObj") {
		return s.staticWord("Universe::_boolArrayKlassObj")
	}
	first, err := s.staticWord("ClassLoaderDataGraph::_head")
	if err != nil {
		return 0, err
	}
	for cld, err := range s.list(first, "ClassLoaderData::_next", maxClasses) {
		if err != nil {
			return 0, err
		}
		if k, err := s.member(cld, "ClassLoaderData::_klasses"); err != nil || k != 0 {
			return k, err
		}
	}
	return 0, fmt.Errorf("no class is loaded")
}

type classWalk struct {
	s                          *reader
	archive                    Region
	subclass, sibling, layout  uint64
	constants, methods, length uint64
	classes, metadata          []uint64
}

func newClassWalk(s *reader, archive Region) (*classWalk, error) {
	w := &classWalk{s: s, archive: archive}
	for name, to := range map[string]*uint64{
		"Klass::_subklass":           &w.subclass,
		"Klass::_next_sibling":       &w.sibling,
		"Klass::_layout_helper":      &w.layout,
		"InstanceKlass::_constants":  &w.constants,
		"InstanceKlass::_methods":    &w.methods,
		"InstanceKlass::_init_state": new(uint64),
	} {
		off, err := s.offset(name)
		if err != nil {
			return nil, err
		}
		if off > 1<<12 {
			return nil, fmt.Errorf("%s at offset %d", name, off)
		}
		*to = off
		w.length = max(w.length, off+8)
	}
	return w, nil
}

// walk visits the tree below root. A class that is not readable, for its page
// is not resident or it is just being unloaded, hides what hangs on it.
func (w *classWalk) walk(root uint64) {
	stack := []uint64{root}
	buf := make([]byte, w.length)
	seen := map[uint64]bool{0: true}
	for len(stack) > 0 && len(seen) < maxClasses {
		k := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[k] {
			continue
		}
		seen[k] = true
		if w.s.mem.ReadMem(buf, k) != nil {
			continue
		}
		stack = append(stack, u64(buf[w.sibling:]), u64(buf[w.subclass:]))
		w.note(&w.classes, k)
		// Arrays have a negative layout helper, and no constant pool.
		if int32(u32(buf[w.layout:])) > 0 {
			w.note(&w.metadata, u64(buf[w.constants:]))
			w.note(&w.metadata, u64(buf[w.methods:]))
		}
	}
}

func (w *classWalk) note(to *[]uint64, addr uint64) {
	if addr != 0 && !w.archive.Contains(addr) {
		*to = append(*to, addr)
	}
}
