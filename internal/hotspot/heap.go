package hotspot

import "fmt"

// HeapSpace is a part of the object heap, in its collector's own terms.
type HeapSpace struct {
	Name string // "eden", "survivor", "old", "young", "humongous", "free"
	Region
	// UsedBytes hold objects, live or dead; -1 where the JVM does not tell.
	UsedBytes int64
}

// readSpaces reads the parts of the heap of Serial, CMS, Parallel and G1.
func (vm *VM) readSpaces(s *reader) error {
	switch vm.Collector {
	case "Serial", "CMS":
		return vm.readSerialSpaces(s)
	case "Parallel":
		return vm.readParallelSpaces(s)
	case "G1":
		return vm.readG1Spaces(s)
	}
	return nil
}

// addSpace adds a space whose bounds are read from an object of one of the
// space types; bounds that are not inside of the heap are an error.
func (vm *VM) addSpace(s *reader, name string, at uint64, bottom, top, end string) error {
	var r [3]uint64
	for i, f := range []string{bottom, top, end} {
		var err error
		if r[i], err = s.member(at, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if r[0] < vm.Heap.Start || r[2] > vm.Heap.End || r[1] < r[0] || r[2] < r[1] {
		return fmt.Errorf("%s: unbelievable space %#x-%#x-%#x", name, r[0], r[1], r[2])
	}
	vm.Spaces = append(vm.Spaces, HeapSpace{name, Region{r[0], r[2]}, int64(r[1] - r[0])})
	return nil
}

// either is the first of two field names that this JVM describes: fields moved
// up and down the class hierarchy between versions.
func (s *reader) either(a, b string) string {
	if s.has(a) {
		return a
	}
	return b
}

func (vm *VM) readSerialSpaces(s *reader) error {
	young, old, err := s.serialGenerations()
	if err != nil {
		return err
	}
	bottom, end := s.either("ContiguousSpace::_bottom", "Space::_bottom"), s.either("ContiguousSpace::_end", "Space::_end")
	for _, sp := range youngSpaces("DefNewGeneration") {
		at, err := s.member(young, sp.field)
		if err != nil {
			return err
		}
		if err := vm.addSpace(s, sp.name, at, bottom, "ContiguousSpace::_top", end); err != nil {
			return err
		}
	}
	off, err := s.offset("Generation::_virtual_space")
	if err != nil {
		return err
	}
	r, err := s.virtualSpace(old + off)
	if err != nil {
		return err
	}
	if r.Start < vm.Heap.Start || r.End > vm.Heap.End || r.Empty() {
		return fmt.Errorf("old: unbelievable space %#x-%#x", r.Start, r.End)
	}
	vm.Spaces = append(vm.Spaces, HeapSpace{"old", r, -1})
	return nil
}

// serialGenerations finds the generations: members of the heap, or on JDK 8
// the elements of an array in it.
func (s *reader) serialGenerations() (young, old uint64, err error) {
	heap, err := s.staticWord("Universe::_collectedHeap")
	if err != nil {
		return 0, 0, err
	}
	if off, err := s.offset("GenCollectedHeap::_gens"); err == nil {
		gens, err := s.words(heap+off, 2)
		if err != nil {
			return 0, 0, err
		}
		return gens[0], gens[1], nil
	}
	if young, err = s.member(heap, s.either("SerialHeap::_young_gen", "GenCollectedHeap::_young_gen")); err != nil {
		return 0, 0, err
	}
	old, err = s.member(heap, s.either("SerialHeap::_old_gen", "GenCollectedHeap::_old_gen"))
	return young, old, err
}

// spaceField is where a generation keeps one of its spaces.
type spaceField struct{ name, field string }

func youngSpaces(generation string) []spaceField {
	return []spaceField{
		{"eden", generation + "::_eden_space"},
		{"survivor", generation + "::_from_space"},
		{"survivor", generation + "::_to_space"},
	}
}

func (vm *VM) readParallelSpaces(s *reader) error {
	for _, g := range []struct {
		gen    string
		spaces []spaceField
	}{
		{"ParallelScavengeHeap::_young_gen", youngSpaces("PSYoungGen")},
		{"ParallelScavengeHeap::_old_gen", []spaceField{{"old", "PSOldGen::_object_space"}}},
	} {
		gen, err := s.staticOrMember(g.gen, "Universe::_collectedHeap")
		if err != nil {
			return err
		}
		for _, sp := range g.spaces {
			at, err := s.member(gen, sp.field)
			if err != nil {
				return err
			}
			bottom, end := s.either("MutableSpace::_bottom", "ImmutableSpace::_bottom"), s.either("MutableSpace::_end", "ImmutableSpace::_end")
			if err := vm.addSpace(s, sp.name, at, bottom, "MutableSpace::_top", end); err != nil {
				return err
			}
		}
	}
	return nil
}

// staticOrMember reads a field that is static in some versions, and a member
// of the object behind a static pointer in others.
func (s *reader) staticOrMember(name, object string) (uint64, error) {
	if f, ok := s.fields[name]; ok && f.static {
		return s.staticWord(name)
	}
	at, err := s.staticWord(object)
	if err != nil {
		return 0, err
	}
	return s.member(at, name)
}

const maxG1Regions = 1 << 18

// g1Names are the names of G1's types, which JDK 22 gave a prefix.
type g1Names struct{ region, kind, manager string }

// readG1Spaces reads the kind of each region of G1's region table (JDK:
// src/hotspot/share/gc/g1/g1HeapRegionType.hpp). JDK 8 does not describe it.
func (vm *VM) readG1Spaces(s *reader) error {
	n := g1Names{"G1HeapRegion", "G1HeapRegionType", "G1HeapRegionManager"}
	if !s.has(n.region + "::_type") {
		n = g1Names{"HeapRegion", "HeapRegionType", "HeapRegionManager"}
	}
	if !s.has(n.region + "::_type") {
		return nil
	}
	regions, size, err := s.g1Regions(n)
	if err != nil {
		return err
	}
	if size == 0 || uint64(len(regions))*size > uint64(vm.Heap.Size()) {
		return fmt.Errorf("%d regions of %d bytes in a heap of %d", len(regions), size, vm.Heap.Size())
	}
	tag, err := s.offset(n.region + "::_type")
	if err != nil {
		return err
	}
	within, err := s.offset(n.kind + "::_tag")
	if err != nil {
		return err
	}
	for i, r := range regions {
		var b [4]byte
		if r == 0 || s.mem.ReadMem(b[:], r+tag+within) != nil {
			continue // never committed
		}
		vm.addRegion(regionName(u32(b[:])), vm.Heap.Start+uint64(i)*size, size)
	}
	return nil
}

// g1Regions reads the table of pointers to regions, and the size of a region.
func (s *reader) g1Regions(n g1Names) (regions []uint64, size uint64, err error) {
	at, err := s.staticWord("Universe::_collectedHeap")
	if err != nil {
		return nil, 0, err
	}
	for _, f := range []string{"G1CollectedHeap::_hrm", n.manager + "::_regions"} {
		off, err := s.offset(f)
		if err != nil {
			return nil, 0, err
		}
		at += off
	}
	base, err := s.member(at, "G1HeapRegionTable::_base")
	if err != nil {
		return nil, 0, err
	}
	length, err := s.member(at, "G1HeapRegionTable::_length")
	if err != nil {
		return nil, 0, err
	}
	if length > maxG1Regions {
		return nil, 0, fmt.Errorf("%d regions", length)
	}
	if size, err = s.staticWord(n.region + "::GrainBytes"); err != nil {
		return nil, 0, err
	}
	if size > maxHeap {
		return nil, 0, fmt.Errorf("regions of %d bytes", size)
	}
	regions, err = s.words(base, int(length))
	return regions, size, err
}

// regionName names the kind of a region: young is 2 or 3, humongous has bit 4,
// everything else but 0 is old, in all versions.
func regionName(tag uint32) string {
	switch {
	case tag == 0:
		return "free"
	case tag == 2 || tag == 3:
		return "young"
	case tag&4 != 0:
		return "humongous"
	}
	return "old"
}

// addRegion adds a region of G1, and joins neighbours of one kind.
func (vm *VM) addRegion(name string, start, size uint64) {
	if n := len(vm.Spaces); n > 0 && vm.Spaces[n-1].Name == name && vm.Spaces[n-1].End == start {
		vm.Spaces[n-1].End += size
		return
	}
	vm.Spaces = append(vm.Spaces, HeapSpace{name, Region{start, start + size}, -1})
}
