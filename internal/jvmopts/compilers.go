package jvmopts

import "math/bits"

// CompilerThreads is how many threads of C1 and of C2 HotSpot starts on a number of
// processors (CICompilerCount): log2 n · log2 log2 n · 3/2 in all, a third of them of
// C1, and at least one of each (JDK: src/hotspot/share/compiler/compilationPolicy.cpp;
// JDK 8: src/share/vm/runtime/advancedThresholdPolicy.cpp).
func CompilerThreads(cpus int) (c1, c2 int) {
	log := bits.Len(uint(max(cpus, 1))) - 1
	loglog := bits.Len(uint(max(log, 1))) - 1
	count := max(log*loglog, 1) * 3 / 2
	c1 = max(count/3, 1)
	return c1, max(count-c1, 1)
}
