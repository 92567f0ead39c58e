package footprint

import (
	"os"
	"runtime/debug"
)

// softMemory is what a process that weighs may have before Go's collector works harder.
// What weighing needs at once is bounded by what it reads, and is less.
const softMemory = 192 << 20

// BoundMemory keeps this process small, whatever JVM it weighs and whenever Go's
// collector happens to run: without it the same hostile JVM takes 230 to 260 MiB. It
// gives way to GOMEMLIMIT.
func BoundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}
