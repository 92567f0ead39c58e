package footprint

import (
	"strings"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/process"
)

// nativeImage is a program that GraalVM compiled. It does not describe itself in
// memory, but its file says where the heap begins that was built into it.
type nativeImage struct{ target *process.Target }

func readNativeImage(r reading) jvm {
	openOthers(r)
	return nativeImage{r.target}
}

func (nativeImage) notes() []string {
	return []string{"this is a GraalVM native image, which does not describe itself in memory: the heap is known as far as it lies beside the image's own; what else it maps is unattributed; code is part of its file. The program itself tells more when it was built with --enable-monitoring"}
}

func (nativeImage) threads() []hotspot.JavaThread { return nil }

func (nativeImage) facts(*layout) *hotspot.VM { return &hotspot.VM{} }

func (n nativeImage) claims(l *layout, _ []int64) []claim {
	return append(l.executable(), l.imageHeap(n.target)...)
}

// imageHeap finds the heap of a native image: the objects that were built into
// its file, and the address space that is reserved in one piece behind them
// (substratevm: com.oracle.svm.core.genscavenge.AddressRangeCommittedMemoryProvider).
func (l *layout) imageHeap(t *process.Target) []claim {
	program := strings.TrimSuffix(t.LibjvmPath, " (deleted)")
	var out []claim
	last := -1
	for i := range l.vmas {
		v := &l.vmas[i]
		if v.FileBacked() && strings.TrimSuffix(v.Path, " (deleted)") == program && t.ImageHeap.Contains(v.Offset) {
			out = append(out, claim{span{v.Start, v.End}, JavaHeap, Exact, rankVM, partImageHeap})
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	for i := last + 1; i < len(l.vmas) && l.vmas[i].Start == l.vmas[i-1].End && anonymous(&l.vmas[i]); i++ {
		out = append(out, claim{span{l.vmas[i].Start, l.vmas[i].End}, JavaHeap, Layout, rankSpan, partAllocated})
	}
	return out
}
