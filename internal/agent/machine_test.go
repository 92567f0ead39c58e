package agent

import (
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// TestLastLook with cgroup v2, on Linux 6.1.
func TestLastLookOnV2(t *testing.T) {
	jvmtest.RunInMachine(t, "./internal/agent", "TestLastLook", 17)
}
