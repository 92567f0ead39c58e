package process

import "tare.dev/tare/internal/linux"

// HotSpot is OpenJDK's JVM, which describes itself in its memory.
const HotSpot Kind = "HotSpot"

func findHotSpot(_ linux.FS, t *Target) bool {
	return t.takeLibrary(func(name string) bool { return name == "libjvm.so" })
}
