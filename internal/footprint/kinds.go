package footprint

import (
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// jvm is what one JVM says of itself, or what its kind is known to do. The facts
// are in HotSpot's terms: what a JVM does not have, or does not tell, is empty. No
// method changes anything, and each gives the same whenever it is called.
//
// A further kind of JVM is a file that implements jvm, and a line in kinds. The
// contract is checked by TestJVMs, on every kind.
type jvm interface {
	// notes say what cannot be known of this JVM, in one sentence each.
	notes() []string
	// threads are the threads whose stacks the JVM itself names.
	threads() []hotspot.JavaThread
	// facts are what is known of the JVM. Where it does not tell the place of
	// something, such as of the heap, the layout may.
	facts(l *layout) *hotspot.VM
	// claims are the ranges of addresses whose use is known. stackSizes are the
	// sizes that the stacks of threads may have.
	claims(l *layout, stackSizes []int64) []claim
}

// reading is what a kind of JVM is read by.
type reading struct {
	proc   linux.FS
	target *process.Target
	series *Series // nil for a single weighing
	// open opens the process's memory.
	open func() (hotspot.Memory, error)
	// timed runs one source of data, and notes how long it took and its error.
	timed func(source string, read func() error) error
}

// kinds read what each kind of JVM says. None fails: what could not be read
// is noted as the error of its source.
var kinds = map[process.Kind]func(reading) jvm{
	process.HotSpot:     readHotSpot,
	process.OpenJ9:      readOpenJ9,
	process.NativeImage: readNativeImage,
}
