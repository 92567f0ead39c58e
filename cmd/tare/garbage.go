package main

import (
	"os"
	"runtime/debug"
)

// How far the heap of tare itself grows before Go collects it, in percent as GOGC.
const (
	// weighGC lets the garbage of one weighing lie: at the default, collecting it is a
	// fifth of the processor time of tare weigh. The process takes no more memory for
	// it, for small JVMs need no collection and large ones are bounded by
	// footprint.BoundMemory.
	weighGC = 400
	// watchGC lets the garbage of several weighings lie: at the default, collecting
	// it is a tenth of what a watch costs. It is some 10 MB then.
	watchGC = 300
)

// letGarbageLie has Go collect less often until the returned function is called.
// It gives way to GOGC.
func letGarbageLie(percent int) (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}
