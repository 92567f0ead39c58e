package jvmtest

import "regexp"

// littleDoubt is how a footprint names less than a MiB of the collector's that is guessed.
var littleDoubt = regexp.MustCompile(`^gc: 0\.\d MiB are guessed: `)

// Warned says that one of a footprint's warnings is more than a doubt about less than a MiB
// of the collector's: the kernel joins its tables with other memory at times.
func Warned(warnings []string) bool {
	for _, w := range warnings {
		if !littleDoubt.MatchString(w) {
			return true
		}
	}
	return false
}
