package process

import (
	"strings"

	"tare.dev/tare/internal/linux"
)

// OpenJ9 is Eclipse's JVM, also known as IBM Semeru.
const OpenJ9 Kind = "OpenJ9"

// findOpenJ9 looks for the JVM proper, such as libj9vm29.so: the libjvm.so beside
// it only leads there.
func findOpenJ9(_ linux.FS, t *Target) bool {
	return t.takeLibrary(func(name string) bool {
		return strings.HasPrefix(name, "libj9vm") && strings.HasSuffix(name, ".so")
	})
}
