package footprint

import (
	"tare/internal/hotspot"
)

// vmClaims are the address ranges that the JVM's own data name.
func vmClaims(vm *hotspot.VM) []claim {
	var out []claim
	add := func(r hotspot.Region, o Owner) {
		if !r.Empty() {
			out = append(out, claim{span{r.Start, r.End}, o, Exact, rankVM})
		}
	}
	add(vm.Heap, JavaHeap)
	for _, r := range vm.CodeHeaps {
		add(r, CodeCache)
	}
	for _, t := range vm.Threads {
		add(t.Stack, ThreadStacks)
	}
	add(vm.Archive, CDS)
	add(vm.PerfData, JVMOther)
	add(vm.CardTable, GC)
	return out
}

// trackingOwner gives the owner of a category of native memory tracking
// (JDK: src/hotspot/share/nmt/memTag.hpp).
func trackingOwner(r hotspot.NMTRegion, classSpaceBytes int64) Owner {
	switch r.Category {
	case "Java Heap":
		return JavaHeap
	case "Class":
		// JDK 8 and 11 have both kinds of class metadata here.
		if classSpaceBytes > 0 && r.Size() == classSpaceBytes {
			return ClassSpace
		}
		return Metaspace
	case "Metaspace":
		return Metaspace
	case "Code":
		return CodeCache
	case "Thread Stack", "Thread":
		return ThreadStacks
	case "GC", "GCCardSet":
		return GC
	case "Shared class space":
		return CDS
	}
	return JVMOther
}

// trackingClaims are the regions of native memory tracking.
func trackingClaims(regions []hotspot.NMTRegion, vm *hotspot.VM) []claim {
	// On JDK 17 and later "Class" is the class space alone, whatever its
	// size.
	classSpace := vm.ClassSpaceBytes
	out := make([]claim, 0, len(regions))
	for _, r := range regions {
		if r.Category == "Class" && vm.Major >= 16 {
			classSpace = r.Size()
		}
		out = append(out, claim{span{r.Start, r.End}, trackingOwner(r, classSpace), Exact, rankTracking})
	}
	return out
}
