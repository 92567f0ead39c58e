package hotspot

// GCTable is a table that a collector keeps beside the heap, and the address space
// that it takes. The JVM does not tell its address.
type GCTable struct {
	Name  string
	Bytes int64
}

// minTable is the smallest size that tells a table from other memory.
const minTable = 64 << 10

// readGCTables computes the sizes of the collector's tables from those of the
// heap and its parts (JDK: src/hotspot/share/gc; one card, block offset or
// card count per 512 bytes; one mark bit per 8 bytes, two in Shenandoah's bitmap
// and, before JDK 22 or so, in the parallel collector's).
func (vm *VM) readGCTables(s *reader) error {
	heap := vm.Heap.Size()
	add := func(name string, bytes int64) {
		if bytes >= minTable && bytes < maxHeap {
			vm.GCTables = append(vm.GCTables, GCTable{name, bytes})
		}
	}
	switch vm.Collector {
	case "G1":
		add("block offsets and card counts", heap/512)
		add("mark bitmaps", heap/64)
		add("mark stack", vm.MarkStackBytes)
	case "Parallel":
		add("compaction table", heap/512)
		add("mark bitmap", heap/64)
		add("mark bitmap", heap/32)
	case "Shenandoah":
		add("mark bitmaps", heap/32)
		add("region table", s.shenandoahRegions())
	case "ZGC":
		for _, t := range s.zTables() {
			add(t.Name, t.Bytes)
		}
		add("mark stacks", vm.ZMarkStackBytes)
	}
	// The names of other tables of these sizes are not known.
	add("other tables", heap/512)
	add("other tables", heap/64)
	old, err := vm.oldReserved(s)
	add("block offsets", old.Size()/512)
	return err
}

// oldReserved is what is reserved for the old generation of the collectors
// that have one in one piece.
func (vm *VM) oldReserved(s *reader) (Region, error) {
	if vm.Collector != "Parallel" {
		for _, sp := range vm.Spaces {
			if sp.Name == "old" && (vm.Collector == "Serial" || vm.Collector == "CMS") {
				return sp.Region, nil
			}
		}
		return Region{}, nil
	}
	gen, err := s.staticOrMember("ParallelScavengeHeap::_old_gen", "Universe::_collectedHeap")
	if err != nil {
		return Region{}, err
	}
	space, err := s.member(gen, "PSOldGen::_virtual_space")
	if err != nil {
		return Region{}, err
	}
	low, err := s.member(space, "PSVirtualSpace::_reserved_low_addr")
	if err != nil {
		return Region{}, err
	}
	high, err := s.member(space, "PSVirtualSpace::_reserved_high_addr")
	if r := (Region{low, high}); err == nil && low >= vm.Heap.Start && high <= vm.Heap.End && low < high {
		return r, nil
	}
	return Region{}, err
}

// shenandoahRegions is the size of the table of regions, 0 when it is not
// described.
func (s *reader) shenandoahRegions() int64 {
	heap, err1 := s.staticWord("Universe::_collectedHeap")
	n, err2 := s.member(heap, "ShenandoahHeap::_num_regions")
	size := s.types["ShenandoahHeapRegion"]
	if err1 != nil || err2 != nil || n > 1<<20 || size > 1<<12 {
		return 0
	}
	return int64(n * size)
}

// zTables are the sizes of ZGC's tables with an entry per 2 MiB of the address
// space that it manages. JDK 11 does not tell that; it is 4 TiB there.
func (s *reader) zTables() []GCTable {
	const name = "page and forwarding tables"
	space := uint64(4 << 40)
	if globals, err := s.staticWord("ZGlobalsForVMStructs::_instance_p"); err == nil {
		at, err := s.member(globals, "ZGlobalsForVMStructs::_ZAddressOffsetMask")
		if err == nil {
			if mask, err := s.word(at); err == nil && mask < 1<<46 {
				space = mask + 1
			}
		}
	}
	entries := int64(space >> 21)
	return []GCTable{{name, entries * 8}, {name, entries * 16}}
}
