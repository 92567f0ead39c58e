package agent

import (
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// TestLastLook and the alarms of cgroup v2, on Linux 6.1.
func TestLastLookOnV2(t *testing.T) {
	jvmtest.RunInMachine(t, "./internal/agent", "(TestLastLook|TestAlarmOfEvents|TestAlarmOfPressure)", 17)
}
