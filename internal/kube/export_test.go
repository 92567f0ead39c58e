package kube

import (
	"testing"
	"time"
)

// SetStillTime changes how long a pod may show nothing new, until the test ends.
func SetStillTime(t *testing.T, d time.Duration) {
	before := stillTime
	stillTime = d
	t.Cleanup(func() { stillTime = before })
}
