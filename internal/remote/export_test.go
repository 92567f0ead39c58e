package remote

import "tare.dev/tare/internal/runner"

// Abandon hangs up, as the end of this process does.
func Abandon(a runner.Archives) { a.(*archives).hangUp() }
