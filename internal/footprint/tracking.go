package footprint

import (
	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/hotspot"
)

// unknownCategory says that native memory tracking itself does not know what a
// region is for (JDK 17 lists the class space so with -Xshare:off).
func unknownCategory(name string) bool { return name == "None" || name == "Unknown" }

// trackingOwner gives the owner of a category of native memory tracking
// (JDK: src/hotspot/share/nmt/memTag.hpp).
func trackingOwner(r attach.NMTRegion, classSpaceBytes int64) Owner {
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

// trackingClaims are regions whose category the JVM told.
func trackingClaims(regions []attach.NMTRegion, vm *hotspot.VM, rank rank) []claim {
	// On JDK 17 and later "Class" is the class space alone, whatever its
	// size.
	classSpace := vm.ClassSpaceBytes
	out := make([]claim, 0, len(regions))
	for _, r := range regions {
		if unknownCategory(r.Category) {
			continue
		}
		if r.Category == "Class" && vm.Major >= 16 {
			classSpace = r.Size()
		}
		out = append(out, claim{span{r.Start, r.End}, trackingOwner(r, classSpace), Exact, rank, ""})
	}
	return out
}
