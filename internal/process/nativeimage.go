package process

import (
	"os"

	"tare.dev/tare/internal/elffile"
	"tare.dev/tare/internal/linux"
)

// NativeImage is a program that GraalVM's native-image compiled: it has no JVM
// library, for its runtime is part of the executable.
const NativeImage Kind = "native image"

// imageHeapSection holds the objects that GraalVM's native-image built into an
// executable (substratevm: com.oracle.objectfile.ObjectFile, section SVM_HEAP).
const imageHeapSection = ".svm_heap"

// findNativeImage looks into the executable itself, by the link of /proc, which
// leads to it even after its file was replaced.
func findNativeImage(proc linux.FS, t *Target) bool {
	f, err := os.Open(proc.Path(t.PID, "exe"))
	if err != nil {
		return false
	}
	defer f.Close()
	heap, err := elffile.Find(f, imageHeapSection)
	if err != nil {
		return false
	}
	t.LibjvmPath, t.ImageHeap = executablePath(t.VMAs), heap
	return true
}

// executablePath is the first file that is mapped: the executable, unless it
// is position-independent and something lies below it.
func executablePath(vmas []linux.VMA) string {
	for i := range vmas {
		if vmas[i].FileBacked() {
			return vmas[i].Path
		}
	}
	return ""
}
