package jvmopts

import "testing"

// As -XX:+PrintFlagsFinal says for CICompilerCount with -XX:ActiveProcessorCount.
func TestCompilerThreads(t *testing.T) {
	for cpus, want := range map[int]int{0: 2, 1: 2, 2: 2, 4: 3, 8: 4, 16: 12, 32: 15, 64: 18} {
		if c1, c2 := CompilerThreads(cpus); c1+c2 != want || c1 < 1 || c2 < 1 {
			t.Errorf("%d processors: %d and %d, want %d", cpus, c1, c2, want)
		}
	}
}
